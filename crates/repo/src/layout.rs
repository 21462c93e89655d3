//! The key layout: which name is found under which key.
//!
//! Specified in `docs/format/repository.md`; a test compares the constants with the
//! document. Every key is built from validated names, so that no name can reach
//! outside its place, on any store.

use crate::cluster_identity::ClusterIdentity;
use crate::error::RepoError;
use crate::names::aside_label::AsideLabel;
use crate::names::backup_label::BackupLabel;
pub use crate::names::pack_name::MAX_PACK_SEGMENTS;
use crate::names::pack_name::PackName;
pub use crate::names::wal_name::MAX_WAL_NAME_CHARS;
use crate::names::wal_name::{check_wal_name, wal_directory};

/// The version of the layout and of `repository.json`.
pub const FORMAT: u64 = 1;
/// The object that makes a directory or a bucket a repository: the record of its first cluster.
pub const REPOSITORY_JSON: &str = "repository.json";
/// The prefix of the records of all further clusters.
pub const CLUSTER_PREFIX: &str = "cluster";
/// The mark among a cluster's WAL: a copy of what the repository records of the cluster.
pub const CLUSTER_JSON: &str = "cluster.json";
/// The mark of a cluster of which WAL is in packs, in place of the other one.
pub const PACKED_JSON: &str = "packed.json";
/// What follows the prefix of a cluster's WAL in the keys of its packs.
pub const PACK_PREFIX: &str = "pack";
/// The prefix of all WAL objects.
pub const WAL_PREFIX: &str = "wal";
/// The prefix of all WAL objects that were set aside.
pub const ASIDE_PREFIX: &str = "aside";
/// The prefix of all backups.
pub const BACKUP_PREFIX: &str = "backup";
/// The prefix of the keys of the repository's encryption.
pub const KEYS_PREFIX: &str = "keys";
/// The prefix of notes of what was verified.
pub const VERIFIED_PREFIX: &str = "verified";
/// The suffix of encoded WAL objects, after the WAL file's own name.
pub const WAL_SUFFIX: &str = ".wz";
/// The object that claims a backup label, put first.
pub const BACKUP_STARTED: &str = "started";
/// The object that makes a backup exist for readers, put last.
pub const BACKUP_JSON: &str = "backup.json";
/// The object that keeps a backup from being expired.
pub const BACKUP_PINNED: &str = "pinned";
/// The object that says that a backup is being expired: nothing may begin to need it.
pub const BACKUP_EXPIRING: &str = "expiring";

/// The names below a label that no data object has.
const RESERVED: [&str; 4] = [BACKUP_STARTED, BACKUP_JSON, BACKUP_PINNED, BACKUP_EXPIRING];

/// The object that proves that a store gives a name once.
pub const PROBE: &str = "probe";

/// The longest name of an object within a backup.
pub const MAX_BACKUP_OBJECT_NAME_CHARS: usize = 200;
/// The longest WAL object that is read: a segment of 1 GiB that did not shrink, with
/// room for a container around it.
pub const MAX_WAL_OBJECT_BYTES: u64 = (1 << 30) + (1 << 20);
/// The most WAL that a pack has, before it was encoded.
pub const MAX_PACK_ORIGINAL_BYTES: u64 = 4 << 30;
/// The longest pack of WAL. One is put whole, so that a put fails where there is one already.
pub const MAX_PACK_BYTES: usize = 256 << 20;
/// What a writer that packs leaves between the put of a pack and the first removal of a segment
/// that is in it.
pub const PACK_SETTLED_SECONDS: u64 = 10;
/// The longest of the other JSON objects that is read: `repository.json`, `pinned` and the like.
pub const MAX_SMALL_JSON_BYTES: u64 = 64 << 10;
/// The longest note of what was verified that is read.
pub const MAX_VERIFIED_JSON_BYTES: u64 = 64 << 20;
/// The longest `started` that is read: it may name thousands of backups.
pub const MAX_STARTED_JSON_BYTES: u64 = 1 << 20;
/// The longest `backup.json` that is read.
pub const MAX_BACKUP_JSON_BYTES: u64 = 256 << 20;

/// The size of the parts in which a backup object is sent, all but the last.
pub const PART_BYTES: usize = 16 << 20;

/// The number of a repository's first cluster.
pub(crate) const FIRST_CLUSTER: u32 = 1;

/// The key of the record of a repository's cluster.
pub(crate) fn record_key(number: u32) -> String {
    match number {
        FIRST_CLUSTER => REPOSITORY_JSON.to_owned(),
        _ => format!("{CLUSTER_PREFIX}/{number}.json"),
    }
}

/// The number of a further cluster, from the key of its record.
pub(crate) fn record_number(key: &str) -> Option<u32> {
    let name = key.rsplit('/').next()?;
    let number = name.strip_suffix(".json")?.parse().ok()?;
    (number > FIRST_CLUSTER && record_key(number) == key).then_some(number)
}

/// The prefix of one cluster's WAL.
pub(crate) fn wal_prefix(cluster: ClusterIdentity) -> String {
    format!("{WAL_PREFIX}/{}", cluster.name())
}

/// The key of the mark among one cluster's WAL. No WAL object has it, for want of the suffix.
pub(crate) fn wal_mark_key(cluster: ClusterIdentity) -> String {
    format!("{}/{CLUSTER_JSON}", wal_prefix(cluster))
}

/// The key of what is put among a cluster's WAL to try whether that can be written. It is no WAL object either.
pub(crate) fn wal_probe_key(cluster: ClusterIdentity) -> String {
    format!("{}/{PROBE}", wal_prefix(cluster))
}

/// The key of the mark of a cluster of which WAL is in packs.
pub(crate) fn packed_mark_key(cluster: ClusterIdentity) -> String {
    format!("{}/{PACKED_JSON}", wal_prefix(cluster))
}

/// The prefix of one cluster's packs. Who knows of none passes over them, for want of the suffix.
pub(crate) fn pack_prefix(cluster: ClusterIdentity) -> String {
    format!("{}/{PACK_PREFIX}", wal_prefix(cluster))
}

/// The prefix of packs that were set aside.
pub(crate) fn aside_pack_prefix(cluster: ClusterIdentity, label: AsideLabel) -> String {
    format!("{}/{label}/{PACK_PREFIX}", aside_prefix(cluster))
}

/// The key of a pack below one of these prefixes.
pub(crate) fn pack_key(prefix: &str, name: &PackName) -> String {
    format!("{prefix}/{}/{name}", name.directory())
}

/// The name of a pack that is not set aside, from its key.
pub(crate) fn pack_name(cluster: ClusterIdentity, key: &str) -> Option<PackName> {
    let name: PackName = key.rsplit('/').next()?.parse().ok()?;
    (pack_key(&pack_prefix(cluster), &name) == key).then_some(name)
}

/// The key of a WAL file, a history or a backup history file.
pub(crate) fn wal_key(cluster: ClusterIdentity, name: &str) -> Result<String, RepoError> {
    check_wal_name(name)?;
    let prefix = wal_prefix(cluster);
    Ok(match wal_directory(name) {
        Some(directory) => format!("{prefix}/{directory}/{name}{WAL_SUFFIX}"),
        None => format!("{prefix}/{name}{WAL_SUFFIX}"),
    })
}

/// The name that a key was made from, when it is the key that [`wal_key`] would make.
pub(crate) fn wal_name(cluster: ClusterIdentity, key: &str) -> Option<&str> {
    let name = key.rsplit('/').next()?.strip_suffix(WAL_SUFFIX)?;
    let expected = wal_key(cluster, name).ok()?;
    (expected == key).then_some(name)
}

/// The prefix of one cluster's WAL objects that were set aside.
pub(crate) fn aside_prefix(cluster: ClusterIdentity) -> String {
    format!("{ASIDE_PREFIX}/{}", cluster.name())
}

/// The key of a WAL object that was set aside.
pub(crate) fn aside_key(
    cluster: ClusterIdentity,
    label: AsideLabel,
    name: &str,
) -> Result<String, RepoError> {
    check_wal_name(name)?;
    let prefix = aside_prefix(cluster);
    Ok(format!("{prefix}/{label}/{name}{WAL_SUFFIX}"))
}

/// The key of a note of what was verified.
pub(crate) fn verified_key(time: &str) -> String {
    format!("{VERIFIED_PREFIX}/{time}.json")
}

/// The prefix of one backup's objects.
pub(crate) fn backup_prefix(label: &str) -> String {
    format!("{BACKUP_PREFIX}/{label}")
}

/// The key of an object of a backup with one of the names that are reserved.
pub(crate) fn backup_key(label: &BackupLabel, reserved: &str) -> String {
    format!("{}/{reserved}", backup_prefix(label.as_str()))
}

/// The key of a data object of a backup.
pub(crate) fn backup_object_key(label: &str, name: &str) -> Result<String, RepoError> {
    check_backup_object_name(name)?;
    Ok(format!("{}/{name}", backup_prefix(label)))
}

fn check_backup_object_name(name: &str) -> Result<(), RepoError> {
    let invalid = |detail| {
        Err(RepoError::InvalidName {
            what: "a backup object",
            name: name.to_owned(),
            detail,
        })
    };
    if name.is_empty() || name.len() > MAX_BACKUP_OBJECT_NAME_CHARS {
        return invalid("it must have 1 to 200 characters");
    }
    let allowed = |c: u8| c.is_ascii_alphanumeric() || b"._-/".contains(&c);
    if !name.bytes().all(allowed) {
        return invalid(
            "only letters, digits, dots, hyphens, underscores and slashes may be in it",
        );
    }
    if name
        .split('/')
        .any(|part| part.is_empty() || part.starts_with('.'))
    {
        return invalid("no part of it may be empty or begin with a dot");
    }
    let first = name.split('/').next().unwrap_or(name);
    if RESERVED.contains(&first) {
        return invalid("the name is reserved");
    }
    Ok(())
}
