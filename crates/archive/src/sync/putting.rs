//! A file that was lacked when the repository was listed, which may be hours ago.

use std::time::Instant;

use bytes::Bytes;
use walzip_repo::{PutOutcome, Repository};

use crate::archived::settling;
use crate::archived::stored_wal::StoredWal;
use crate::error::ArchiveError;
use crate::packs::Before;

/// Puts a file, unless it has come meanwhile, as an object of its own or in a pack. What has come has to be the same.
pub(super) async fn put(to: &Repository, name: &str, object: Bytes) -> Result<(), ArchiveError> {
    let looked = Instant::now();
    let is_packed = !to.packs().with(name).await?.is_empty();
    let is_new = !is_packed && to.put_wal(name, object.clone()).await? == PutOutcome::Created;
    if is_new && !settling::is_long_ago(looked) {
        return Ok(());
    }
    let other = match is_new {
        true => StoredWal::get_packed(&to.packs(), name, Before::Passed).await?,
        false => StoredWal::get(to, name).await?,
    };
    let Some(other) = other else {
        // What was there a moment ago has expired, or was set aside: it was not brought.
        return match is_new {
            true => Ok(()),
            false => Err(ArchiveError::Damaged {
                object: name.to_owned(),
                reason: "it disappeared while it was compared: run this again".to_owned(),
            }),
        };
    };
    let hash = StoredWal::Single(object).content_hash(name).await?;
    if other.content_hash(name).await? == hash {
        return Ok(());
    }
    if is_new {
        to.remove_wal(&[name.to_owned()]).await?;
    }
    Err(ArchiveError::Duplicate {
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::pack;
    use crate::packs::testing::{archive, name, options, segment};
    use crate::push::{PushOptions, push};

    /// The repository had no such segment when it was listed, and has one by now.
    #[tokio::test(start_paused = true)]
    async fn what_has_come_meanwhile_is_compared() {
        let directory = tempfile::tempdir().expect("a directory");
        let to = archive(directory.path(), 1..3).await;
        let same = to.get_wal(&name(1)).await.expect("read").expect("there");
        let other = archive(directory.path(), 1..1).await;
        let path = directory.path().join(name(1));
        std::fs::write(&path, segment(1, 7)).expect("a file");
        let pushed = push(&other, &path, &PushOptions::default()).await;
        pushed.expect("pushed");
        let other = other.get_wal(&name(1)).await.expect("read").expect("there");
        for is_packed in [false, true] {
            if is_packed {
                pack(&to, &options()).await.expect("packed");
            }
            put(&to, &name(1), same.clone()).await.expect("the same");
            let refused = put(&to, &name(1), other.clone()).await;
            assert!(matches!(refused, Err(ArchiveError::Duplicate { .. })));
            let single = to.find_single(&name(1)).await.expect("asked");
            assert_eq!(single.is_some(), !is_packed);
        }
        let of_three = archive(directory.path(), 3..4).await;
        let new = of_three.get_wal(&name(3)).await.expect("read");
        put(&to, &name(3), new.expect("there")).await.expect("put");
        assert!(to.find_single(&name(3)).await.expect("asked").is_some());
    }
}
