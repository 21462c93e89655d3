//! A store of the user's as the archive: buckets and SSH servers, which only walzip's archiver
//! reaches.

use std::ffi::OsString;
use std::time::{SystemTime, UNIX_EPOCH};

/// What comes before the colon of a store's URL.
const SCHEMES: [&str; 4] = ["s3", "gs", "az", "sftp"];
/// The names of the directories that are made: this, and what nobody else has.
const MADE: &str = "walzip-bench-";

/// How repositories in a store come and go, which is not measured.
#[derive(Clone, Debug)]
pub struct Stores {
    /// Makes a repository at a URL for a cluster: its system identifier and major.
    pub make: fn(&str, u64, u32) -> Result<(), String>,
    /// Removes everything below a key of the store at a URL, and says how many bytes it had.
    pub remove: fn(&str, &str) -> Result<u64, String>,
    /// The variables that say how the store is reached.
    pub environment: Vec<(OsString, OsString)>,
}

impl Default for Stores {
    fn default() -> Stores {
        Stores {
            make: |_, _, _| Err("there is nothing that reaches a store".to_owned()),
            remove: |_, _| Ok(0),
            environment: Vec::new(),
        }
    }
}

/// The scheme of a store's URL, if it is one.
pub(super) fn scheme(text: &str) -> Option<&'static str> {
    let (scheme, _) = text.split_once("://")?;
    let known = SCHEMES.iter().find(|known| **known == scheme);
    known.copied()
}

/// A part of a store, of this experiment alone; it goes when this value does.
pub(super) struct InStore<'a> {
    pub(super) stores: &'a Stores,
    /// The user's.
    url: String,
    /// The part of it.
    name: String,
}

impl<'a> InStore<'a> {
    /// Names a part of a store. It is made when something is put there.
    pub(super) fn new(url: &str, stores: &'a Stores) -> InStore<'a> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let moment = since.map_or(0, |since| since.as_nanos());
        let seed = format!("{moment} {}", std::process::id());
        let own = &blake3::hash(seed.as_bytes()).to_hex()[..16];
        InStore {
            stores,
            url: url.trim_end_matches('/').to_owned(),
            name: format!("{MADE}{own}"),
        }
    }

    /// Where a repository is.
    pub(super) fn repository(&self, group: &str, system_id: u64) -> String {
        format!("{}/{}/{group}-{system_id}", self.url, self.name)
    }

    /// Removes what is there, and says how much it was.
    pub(super) fn clear(&self) -> Result<u64, String> {
        let removed = (self.stores.remove)(&self.url, &self.name);
        removed.map_err(|reason| format!("{} cannot be removed: {reason}", self.name))
    }

    /// What was said without the name of the store.
    pub(super) fn unnamed(&self, said: &str) -> String {
        // Messages name it with its scheme, without that, and without a user.
        let place = self.url.split_once("://").map_or("", |(_, place)| place);
        let without_user = place.rsplit('@').next().unwrap_or(place);
        let names = [&*self.url, place, without_user];
        let names = names.into_iter().filter(|name| !name.is_empty());
        let said = said.replace(&format!("/{}", self.name), "");
        names.fold(said, |said, name| said.replace(name, "STORE"))
    }
}

impl Drop for InStore<'_> {
    fn drop(&mut self) {
        // After an interrupt too. What cannot be reached any more keeps it.
        let _removed = self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_known_by_its_scheme_and_named_nowhere() {
        assert_eq!(scheme("s3://bucket/a"), Some("s3"));
        assert_eq!(scheme("/mnt/s3://x"), None);
        assert_eq!(scheme("user@host:/path"), None);
        let stores = Stores::default();
        let place = InStore::new("sftp://me@nas/srv/", &stores);
        let other = InStore::new("sftp://me@nas/srv", &stores);
        assert_ne!(place.name, other.name);
        let repository = place.repository("a", 7);
        assert!(repository.starts_with("sftp://me@nas/srv/walzip-bench-"));
        assert!(repository.ends_with("/a-7"));
        let said = place.unnamed(&format!("cannot reach {repository}: nas/srv is away"));
        assert_eq!(said, "cannot reach STORE/a-7: STORE is away");
    }
}
