//! Is the server the one that is known? The lists are OpenSSH's: `known_hosts`.
//!
//! A server that is not known is never connected to: whoever answers in its place would get the
//! archive, or deliver another one.

use std::io::ErrorKind;
use std::path::PathBuf;

use ring::hmac;
use russh::keys::ssh_key::known_hosts::{HostPatterns, KnownHosts, Marker};
use russh::keys::{Algorithm, HashAlg, PublicKey};

use super::error::SftpError;
use crate::store_settings::StoreSettings;

const OF_THE_SYSTEM: &str = "/etc/ssh/ssh_known_hosts";
const USUAL_PORT: u16 = 22;

/// What the lists say of one server.
#[derive(Clone, Debug)]
pub(super) struct KnownKeys {
    host: String,
    port: u16,
    lists: Vec<PathBuf>,
    keys: Vec<PublicKey>,
    revoked: Vec<PublicKey>,
}

impl KnownKeys {
    /// Reads the lists. One that does not exist is empty, unless it was named.
    pub(super) fn read(
        host: &str,
        port: u16,
        settings: &StoreSettings,
    ) -> Result<KnownKeys, SftpError> {
        let named = settings.sftp_known_hosts_file.clone();
        let lists = match &named {
            Some(list) => vec![list.clone()],
            None => {
                let home = settings.home.as_ref();
                let own = home.map(|home| home.join(".ssh").join("known_hosts"));
                own.into_iter()
                    .chain([PathBuf::from(OF_THE_SYSTEM)])
                    .collect()
            }
        };
        let mut known = KnownKeys {
            host: host.to_owned(),
            port,
            lists,
            keys: Vec::new(),
            revoked: Vec::new(),
        };
        for list in known.lists.clone() {
            match std::fs::read_to_string(&list) {
                Ok(text) => known.add(&text),
                Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    let message = format!("cannot read {}: {error}", list.display());
                    return Err(SftpError::HostKey(message));
                }
            }
        }
        Ok(known)
    }

    fn add(&mut self, text: &str) {
        let name = self.name();
        for line in text.lines() {
            // A line that is not understood says nothing of this server.
            let Some(Ok(entry)) = KnownHosts::new(line).next() else {
                continue;
            };
            if !is_among(&name, entry.host_patterns()) {
                continue;
            }
            match entry.marker() {
                None => self.keys.push(entry.public_key().clone()),
                Some(Marker::Revoked) => self.revoked.push(entry.public_key().clone()),
                // Certificates of hosts are not asked for.
                Some(Marker::CertAuthority) => {}
            }
        }
    }

    /// As the lists have it.
    fn name(&self) -> String {
        match self.port {
            USUAL_PORT => self.host.clone(),
            port => format!("[{}]:{port}", self.host),
        }
    }

    /// The kinds of keys that are known: the server is to show one of them.
    pub(super) fn algorithms(&self) -> Vec<Algorithm> {
        self.keys.iter().map(PublicKey::algorithm).collect()
    }

    /// Refuses a key that is not known, and says what to do about it.
    pub(super) fn check(&self, shown: &PublicKey) -> Result<(), SftpError> {
        let is = |key: &PublicKey| key.key_data() == shown.key_data();
        if self.revoked.iter().any(is) {
            return Err(self.refusal("a key that is revoked", shown, ""));
        }
        if self.keys.iter().any(is) {
            return Ok(());
        }
        let name = self.name();
        let changed = self
            .keys
            .iter()
            .any(|key| key.algorithm() == shown.algorithm());
        match changed {
            true => {
                let way_out = format!(
                    "; if the server was set up again, remove its old key: ssh-keygen -R '{name}'"
                );
                Err(self.refusal("another key than the known one", shown, &way_out))
            }
            false => {
                let list = self.lists.first().map(|list| list.display().to_string());
                let way_out = format!(
                    "; if this is its fingerprint, make it known: ssh-keyscan -p {} {} >> {}",
                    self.port,
                    self.host,
                    list.unwrap_or_default()
                );
                Err(self.refusal("a key that is not known", shown, &way_out))
            }
        }
    }

    fn refusal(&self, what: &str, shown: &PublicKey, way_out: &str) -> SftpError {
        let lists: Vec<String> = self
            .lists
            .iter()
            .map(|list| list.display().to_string())
            .collect();
        SftpError::HostKey(format!(
            "the SSH server {} shows {what} by {}: {} {}{way_out}",
            self.name(),
            lists.join(" and "),
            shown.algorithm(),
            shown.fingerprint(HashAlg::Sha256)
        ))
    }
}

/// Whether a server's name is among those of a line. A negated pattern excludes it.
fn is_among(name: &str, patterns: &HostPatterns) -> bool {
    match patterns {
        HostPatterns::Patterns(patterns) => {
            let mut found = false;
            for pattern in patterns {
                match pattern.strip_prefix('!') {
                    Some(pattern) if fits(pattern, name) => return false,
                    Some(_) => {}
                    None => found |= fits(pattern, name),
                }
            }
            found
        }
        HostPatterns::HashedName { salt, hash } => {
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
            hmac::verify(&key, name.as_bytes(), hash).is_ok()
        }
    }
}

/// `*` stands for any characters, `?` for one.
fn fits(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    // Where the last `*` was, and how much of the name it had taken.
    let mut last_star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let at = name.clone();
        match (pattern.next(), name.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                name = at;
                last_star = Some((pattern.clone(), name.clone()));
            }
            (Some('?'), Some(_)) => {}
            (Some(a), Some(b)) if a.eq_ignore_ascii_case(&b) => {}
            _ => {
                let Some((after_star, taken)) = &mut last_star else {
                    return false;
                };
                if taken.next().is_none() {
                    return false;
                }
                pattern = after_star.clone();
                name = taken.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64;

    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const OTHER: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA6rWI3G2sz07DnfFlrouTcysQlj2P+jpNSOEWD9OJ3X";

    fn check(list: &str, host: &str, port: u16) -> Result<(), String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("known_hosts");
        std::fs::write(&file, list).unwrap();
        let settings = StoreSettings {
            sftp_known_hosts_file: Some(file),
            ..StoreSettings::default()
        };
        let known = KnownKeys::read(host, port, &settings).unwrap();
        let shown = PublicKey::from_openssh(KEY).unwrap();
        known.check(&shown).map_err(|error| error.to_string())
    }

    #[test]
    fn a_known_key_is_found_however_the_list_names_its_host() {
        for (names, host, port) in [
            ("db1", "db1", 22),
            ("other,db1,10.0.0.1", "db1", 22),
            ("[db1]:2222", "db1", 2222),
            ("*.example.com,!bad.example.com", "good.example.com", 22),
            ("db?", "DB1", 22),
        ] {
            assert_eq!(
                check(&format!("{names} {KEY} me@here\n"), host, port),
                Ok(())
            );
        }
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"salt of twenty bytes");
        let hash = hmac::sign(&key, b"[db1]:2222");
        let (salt, hash) = (
            BASE64.encode(b"salt of twenty bytes"),
            BASE64.encode(hash.as_ref()),
        );
        assert_eq!(
            check(&format!("|1|{salt}|{hash} {KEY}\n"), "db1", 2222),
            Ok(())
        );
    }

    #[test]
    fn any_other_key_is_refused_with_a_way_out() {
        for (list, expected) in [
            (String::new(), "make it known: ssh-keyscan -p 22 db1"),
            (format!("db2 {KEY}"), "that is not known"),
            (format!("[db1]:2222 {KEY}"), "that is not known"),
            (format!("*,!db1 {KEY}"), "that is not known"),
            (
                format!("db1 {OTHER}"),
                "remove its old key: ssh-keygen -R 'db1'",
            ),
            (format!("db1 {KEY}\n@revoked * {KEY}"), "that is revoked"),
            (format!("@cert-authority * {KEY}"), "that is not known"),
            ("db1 ssh-ed25519 nonsense".to_owned(), "SHA256:"),
        ] {
            let message = check(&list, "db1", 22).unwrap_err();
            assert!(message.contains(expected), "{list}: {message}");
        }
    }

    #[test]
    fn stars_take_as_much_as_is_needed() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcdef", false),
            ("*a", "aab", false),
            ("*ab", "aab", true),
            ("a?", "a", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
