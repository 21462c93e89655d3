//! Encrypted repositories: what is stored tells nothing, and nothing else is taken for it.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::executor::block_on;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_repo::encryption::{EncryptedStore, Epochs, HEADER_LEN, KeyError, KeyFile, PIECE_LEN};
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{PutOutcome, RepoError, Repository};

use crate::{CLUSTER, SEGMENT, new_repository, patterned};

/// The store, encrypted, with a key that nobody else has.
pub(crate) fn encrypted(store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
    let key_file = KeyFile::generate();
    block_on(Epochs::new(Arc::clone(&store), key_file.clone()).begin_first(&[])).unwrap();
    with_key(&store, &key_file)
}

fn with_key(store: &Arc<dyn ObjectStore>, key_file: &KeyFile) -> Arc<dyn ObjectStore> {
    Arc::new(EncryptedStore::new(Arc::clone(store), key_file.clone()))
}

/// A repository with a segment and a backup of an object of some pieces.
struct Archive {
    store: Arc<dyn ObjectStore>,
    key_file: KeyFile,
}

const OBJECT: &str = "base/1.tar";
const SEGMENT_KEY: &str = "wal/15-7301234567890123456/000000010000000A/000000010000000A000000FE.wz";

impl Archive {
    async fn new() -> Archive {
        let (store, key_file) = (memory_store(), KeyFile::generate());
        let epochs = Epochs::new(Arc::clone(&store), key_file.clone());
        epochs.begin_first(&[]).await.unwrap();
        let archive = Archive { store, key_file };
        let repository = new_repository(with_key(&archive.store, &archive.key_file)).await;
        let put = repository
            .put_wal(SEGMENT, patterned(SEGMENT, 300_000))
            .await;
        assert_eq!(put.unwrap(), PutOutcome::Created);
        let writer = repository.start_backup().await.unwrap();
        let mut object = writer.create_object(OBJECT).await.unwrap();
        for piece in patterned(OBJECT, 1_000_000).chunks(77_777) {
            object.write(piece.to_vec()).await.unwrap();
        }
        object.finish().await.unwrap();
        writer.finish(Bytes::from_static(b"{}")).await.unwrap();
        archive
    }

    async fn repository(&self) -> Repository {
        self.repository_of(&self.key_file).await.unwrap()
    }

    async fn repository_of(&self, key_file: &KeyFile) -> Result<Repository, RepoError> {
        Repository::open(with_key(&self.store, key_file)).await
    }

    async fn keys(&self) -> Vec<Path> {
        let objects: Vec<_> = self.store.list(None).try_collect().await.unwrap();
        objects.into_iter().map(|meta| meta.location).collect()
    }

    async fn get(&self, key: &Path) -> Bytes {
        self.store.get(key).await.unwrap().bytes().await.unwrap()
    }

    async fn put(&self, key: &Path, object: impl Into<Bytes>) {
        self.store.put(key, object.into().into()).await.unwrap();
    }

    fn epochs(&self, key_file: &KeyFile) -> Epochs {
        Epochs::new(Arc::clone(&self.store), key_file.clone())
    }

    /// Everything can be read with a key file, to the byte.
    async fn is_read_with(&self, key_file: &KeyFile) {
        let repository = self.repository_of(key_file).await.unwrap();
        let segment = repository.get_wal(SEGMENT).await.unwrap();
        assert_eq!(segment, Some(patterned(SEGMENT, 300_000)));
        let label = repository.list_backups().await.unwrap().pop().unwrap();
        let stream = repository.open_backup_object(&label, OBJECT).await.unwrap();
        let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
        assert!(pieces.concat() == patterned(OBJECT, 1_000_000));
    }
}

fn owner(key_file: &KeyFile) -> String {
    key_file.recipients().next().unwrap().to_string()
}

#[tokio::test]
async fn what_is_stored_tells_nothing() {
    let archive = Archive::new().await;
    let secret = archive.key_file.text();
    let secret = secret.lines().nth(1).unwrap();
    let (segment, object) = (patterned(SEGMENT, 64), patterned(OBJECT, 64));
    let needles = [
        secret.as_bytes(),
        b"system_identifier",
        b"7301234567890123456",
        &segment,
        &object,
    ];
    for key in archive.keys().await {
        let stored = archive.get(&key).await;
        for needle in needles {
            let is_there = stored.windows(needle.len()).any(|window| window == needle);
            assert!(!is_there, "{key}");
        }
    }
    archive.is_read_with(&archive.key_file).await;
}

#[tokio::test]
async fn every_range_of_an_object_can_be_read() {
    let archive = Archive::new().await;
    let repository = archive.repository().await;
    let label = repository.list_backups().await.unwrap().pop().unwrap();
    let content = patterned(OBJECT, 1_000_000);
    let piece = PIECE_LEN as u64;
    let edges = [
        0,
        1,
        piece - 1,
        piece,
        piece + 1,
        5 * piece,
        999_999,
        1_000_000,
    ];
    for start in edges {
        for end in edges.into_iter().filter(|end| *end > start) {
            let read = repository
                .read_backup_range(&label, OBJECT, start..end)
                .await
                .unwrap();
            assert!(
                read == content[start as usize..end as usize],
                "{start}..{end}"
            );
        }
    }
    let beyond = repository
        .read_backup_range(&label, OBJECT, 5..1_000_001)
        .await;
    assert!(
        matches!(beyond, Err(RepoError::Corrupt { .. })),
        "{beyond:?}"
    );
}

#[tokio::test]
async fn each_wrong_key_is_told_apart() {
    let archive = Archive::new().await;
    let without = Repository::open(Arc::clone(&archive.store)).await;
    assert!(
        matches!(without, Err(RepoError::Encrypted { .. })),
        "{without:?}"
    );
    let stranger = KeyFile::generate();
    let opened = archive.repository_of(&stranger).await;
    assert!(
        matches!(opened, Err(RepoError::Key(KeyError::NoKey { epoch: 1 }))),
        "{opened:?}"
    );
    // Another key of the same epoch, put there by the stranger itself.
    let other = memory_store();
    let epochs = Epochs::new(Arc::clone(&other), stranger.clone());
    epochs.begin_first(&[]).await.unwrap();
    let key = Path::from(format!("keys/1/{}.age", owner(&stranger)));
    let copy = other.get(&key).await.unwrap().bytes().await.unwrap();
    archive.put(&key, copy).await;
    let opened = archive.repository_of(&stranger).await;
    assert!(
        matches!(opened, Err(RepoError::Key(KeyError::Wrong(_)))),
        "{opened:?}"
    );
    // A damaged copy.
    archive.put(&key, &b"age-encryption.org/v1"[..]).await;
    let opened = archive.repository_of(&stranger).await;
    assert!(
        matches!(opened, Err(RepoError::Key(KeyError::Damaged { .. }))),
        "{opened:?}"
    );
}

/// A repository that is not encrypted is refused with a key file: somebody may have put it there.
#[tokio::test]
async fn plaintext_is_refused() {
    let archive = Archive::new().await;
    archive
        .put(&Path::from(SEGMENT_KEY), patterned(SEGMENT, 300_000))
        .await;
    let got = archive.repository().await.get_wal(SEGMENT).await;
    assert!(got.unwrap_err().to_string().contains("not encrypted"));
    let plain = memory_store();
    new_repository(Arc::clone(&plain)).await;
    let opened = Repository::open(with_key(&plain, &KeyFile::generate())).await;
    assert!(opened.unwrap_err().to_string().contains("not encrypted"));
}

#[tokio::test]
async fn every_change_to_an_object_is_found() {
    let archive = Archive::new().await;
    let key = Path::from(SEGMENT_KEY);
    let stored = archive.get(&key).await.to_vec();
    let other = "000000010000000A000000FF";
    let repository = archive.repository().await;
    repository
        .put_wal(other, patterned(other, 300_000))
        .await
        .unwrap();
    let other_stored = archive
        .get(&Path::from(SEGMENT_KEY.replace("FE.wz", "FF.wz")))
        .await;
    let mut cases = vec![("another object", other_stored.to_vec())];
    for at in (0..stored.len())
        .step_by(9_973)
        .chain([8, 12, 16, 48, 64, HEADER_LEN])
    {
        let mut flipped = stored.clone();
        flipped[at] ^= 1;
        cases.push(("a flipped bit", flipped));
    }
    for len in [
        0,
        5,
        HEADER_LEN - 1,
        HEADER_LEN,
        HEADER_LEN + PIECE_LEN + 16,
        stored.len() - 1,
    ] {
        cases.push(("cut", stored[..len].to_vec()));
    }
    cases.push(("longer", [stored.as_slice(), &[0; 16]].concat()));
    for (what, object) in cases {
        archive.put(&key, object).await;
        let got = archive.repository().await.get_wal(SEGMENT).await;
        assert!(
            matches!(got, Err(RepoError::Corrupt { .. } | RepoError::Key(_))),
            "{what}: {got:?}"
        );
    }
    archive.put(&key, stored).await;
    archive.is_read_with(&archive.key_file).await;
}

#[tokio::test]
async fn epochs_follow_one_another() {
    let archive = Archive::new().await;
    let recovery = KeyFile::generate_recovery();
    let recipient = recovery.recipients().next().unwrap();
    let epochs = archive.epochs(&archive.key_file);
    epochs.add(std::slice::from_ref(&recipient)).await.unwrap();
    archive.is_read_with(&recovery).await;
    assert_eq!(epochs.rotate().await.unwrap(), 2);
    let name = "000000010000000B00000001";
    archive
        .repository()
        .await
        .put_wal(name, patterned(name, 70_000))
        .await
        .unwrap();
    for key_file in [&archive.key_file, &recovery] {
        archive.is_read_with(key_file).await;
        let repository = archive.repository_of(key_file).await.unwrap();
        assert_eq!(
            repository.get_wal(name).await.unwrap(),
            Some(patterned(name, 70_000))
        );
    }
    // The recovery key reads. It must not write: anybody could have made its copies.
    let repository = archive.repository_of(&recovery).await.unwrap();
    let put = repository
        .put_wal("000000010000000B00000002", Bytes::new())
        .await;
    assert!(
        matches!(put, Err(RepoError::Key(KeyError::ReadsOnly))),
        "{put:?}"
    );
    assert_eq!(epochs.remove(&recipient).await.unwrap(), 2);
    let opened = archive.repository_of(&recovery).await;
    assert!(
        matches!(opened, Err(RepoError::Key(KeyError::NoKey { .. }))),
        "{opened:?}"
    );
    assert!(
        epochs
            .remove(&archive.key_file.recipients().next().unwrap())
            .await
            .is_err()
    );
}

/// Whichever is faster, the new recipient has the new epoch's key.
#[tokio::test(start_paused = true)]
async fn a_recipient_that_is_added_beside_a_rotation_has_all_epochs() {
    for seed in 0..30 {
        let archive = Archive::new().await;
        let slow = |seed| {
            let faults = Faults {
                seed,
                latency_ms_max: 1000,
                ..Faults::default()
            };
            let store = FaultyStore::new(Arc::clone(&archive.store), faults);
            Epochs::new(Arc::new(store), archive.key_file.clone())
        };
        let (adding, rotating) = (slow(seed), slow(100 + seed));
        let recipient = KeyFile::generate_recovery().recipients().next().unwrap();
        let recipients = [recipient];
        let (added, rotated) = tokio::join!(adding.add(&recipients), rotating.rotate());
        added.unwrap();
        assert_eq!(rotated.unwrap(), 2);
        for epoch in 1..3 {
            let copy = Path::from(format!("keys/{epoch}/{}.age", recipients[0]));
            assert!(archive.keys().await.contains(&copy), "{seed}: {epoch}");
        }
    }
}

/// Until all recipients have the next epoch's key, the last one's is used.
#[tokio::test]
async fn an_interrupted_rotation_locks_nobody_out() {
    let archive = Archive::new().await;
    let recovery = KeyFile::generate_recovery();
    let epochs = archive.epochs(&archive.key_file);
    epochs
        .add(&[recovery.recipients().next().unwrap()])
        .await
        .unwrap();
    epochs.rotate().await.unwrap();
    let copy = Path::from(format!("keys/2/{}.age", owner(&recovery)));
    for key in [&copy, &Path::from("keys/2/complete")] {
        archive.store.delete(key).await.unwrap();
    }
    let name = "000000010000000B00000001";
    archive
        .repository()
        .await
        .put_wal(name, patterned(name, 10))
        .await
        .unwrap();
    let repository = archive.repository_of(&recovery).await.unwrap();
    assert_eq!(
        repository.get_wal(name).await.unwrap(),
        Some(patterned(name, 10))
    );
    assert_eq!(epochs.rotate().await.unwrap(), 2);
    assert!(archive.keys().await.contains(&copy));
    assert_eq!(epochs.rotate().await.unwrap(), 3);
}

#[tokio::test]
async fn a_second_beginning_changes_nothing() {
    let archive = Archive::new().await;
    let before = archive.keys().await;
    archive
        .epochs(&archive.key_file)
        .begin_first(&[])
        .await
        .unwrap();
    assert_eq!(archive.keys().await, before);
    let stranger = KeyFile::generate();
    let begun = archive.epochs(&stranger).begin_first(&[]).await;
    assert!(
        matches!(begun, Err(RepoError::Key(KeyError::NoKeys))),
        "{begun:?}"
    );
    let again = Repository::init(with_key(&archive.store, &archive.key_file), CLUSTER).await;
    assert!(again.is_ok());
}

/// Who can write to the store and knows the owner's public key can make keys for the owner. Nothing is
/// read with them, nor written.
#[tokio::test]
async fn keys_that_somebody_else_made_for_the_owner_are_refused() {
    let archive = Archive::new().await;
    let owner_recipient = archive.key_file.recipients().next().unwrap();
    let attacker = KeyFile::generate();
    let other = memory_store();
    let epochs = Epochs::new(Arc::clone(&other), attacker.clone());
    epochs.begin_first(&[]).await.unwrap();
    epochs.rotate().await.unwrap();
    epochs.add(&[owner_recipient]).await.unwrap();
    let repository = new_repository(with_key(&other, &attacker)).await;
    let forged = "000000010000000B00000007";
    repository
        .put_wal(forged, patterned(forged, 1000))
        .await
        .unwrap();
    let all: Vec<_> = other.list(None).try_collect().await.unwrap();
    for meta in all {
        let key = meta.location;
        let is_forged = key.as_ref().contains(forged) || key.as_ref().starts_with("keys/2/");
        if is_forged {
            let content = other.get(&key).await.unwrap().bytes().await.unwrap();
            archive.put(&key, content).await;
        }
    }
    let repository = archive.repository().await;
    let read = repository.get_wal(forged).await;
    assert!(
        matches!(read, Err(RepoError::Key(KeyError::NotOurs { epoch: 2 }))),
        "{read:?}"
    );
    // A statement of completeness by somebody else stops the writer.
    let put = repository.put_wal("000000010000000B00000001", Bytes::new());
    let put = put.await;
    assert!(
        matches!(put, Err(RepoError::Key(KeyError::NotOurs { epoch: 2 }))),
        "{put:?}"
    );
    // The whole of a repository that somebody else made for the owner.
    let opened = Repository::open(with_key(&other, &archive.key_file)).await;
    assert!(
        matches!(opened, Err(RepoError::Key(KeyError::NotOurs { .. }))),
        "{opened:?}"
    );
}

/// The owner's key of another repository does not open objects in this one.
#[tokio::test]
async fn an_epoch_of_the_owners_other_repository_is_refused() {
    let archive = Archive::new().await;
    let other = memory_store();
    let epochs = Epochs::new(Arc::clone(&other), archive.key_file.clone());
    epochs.begin_first(&[]).await.unwrap();
    epochs.rotate().await.unwrap();
    for name in [
        format!("keys/2/{}.age", owner(&archive.key_file)),
        "keys/2/complete".to_owned(),
    ] {
        let key = Path::from(name);
        let content = other.get(&key).await.unwrap().bytes().await.unwrap();
        archive.put(&key, content).await;
    }
    let repository = archive.repository().await;
    let put = repository.put_wal("000000010000000B00000001", Bytes::new());
    let put = put.await;
    assert!(
        matches!(put, Err(RepoError::Key(KeyError::Damaged { .. }))),
        "{put:?}"
    );
}

/// A recipient that was added by half, or a file with the name of one, does not bring an old epoch's
/// key back.
#[tokio::test]
async fn more_recipients_of_an_old_epoch_change_nothing() {
    let archive = Archive::new().await;
    archive.epochs(&archive.key_file).rotate().await.unwrap();
    let stranger = KeyFile::generate();
    let key = Path::from(format!("keys/1/{}.age", owner(&stranger)));
    archive.put(&key, Bytes::new()).await;
    let name = "000000010000000B00000001";
    let repository = archive.repository().await;
    let put = repository.put_wal(name, patterned(name, 10));
    put.await.unwrap();
    let stored = archive
        .keys()
        .await
        .into_iter()
        .find(|key| key.as_ref().contains(name));
    let stored = archive.get(&stored.unwrap()).await;
    assert_eq!(stored[12..16], 2_u32.to_le_bytes());
}

/// Keys that are missing are not replaced by new ones.
#[tokio::test]
async fn a_later_recipient_gets_every_epochs_key() {
    let archive = Archive::new().await;
    let epochs = archive.epochs(&archive.key_file);
    epochs.rotate().await.unwrap();
    let recovery = KeyFile::generate_recovery();
    let recipient = recovery.recipients().next().unwrap();
    epochs.begin_first(&[recipient]).await.unwrap();
    archive.is_read_with(&recovery).await;
}
