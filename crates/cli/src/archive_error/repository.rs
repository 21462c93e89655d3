//! What the storage of a repository answers.

use std::io::ErrorKind;

use walzip_repo::RepoError;
use walzip_repo::encryption::KeyError;

use super::{KindAndHint, mismatch};
use crate::exit_code::Kind;

pub(super) fn kind_and_hint(error: &RepoError) -> KindAndHint {
    match error {
        RepoError::NotFound { .. } => (Kind::FileMissing, None),
        RepoError::AlreadyExists { .. } => (Kind::FileExists, None),
        RepoError::NotARepository { location } => (
            Kind::RepoInvalid,
            Some(match location.split_once("://") {
                None => "Is it mounted? \"walzip init\" makes a new repository.",
                Some(("sftp", _)) => "Is the path right? \"walzip init\" makes a new repository.",
                Some(_) => "Is the prefix right? \"walzip init\" makes a new repository.",
            }),
        ),
        RepoError::NotInPlace { .. } => (
            Kind::RepoInvalid,
            Some(
                "Is everything mounted, and was nothing moved or replaced? Bring it back, or a \
                 copy of it; to go on without it, make a new repository.",
            ),
        ),
        RepoError::AnotherRepository { .. } => (
            Kind::RepoInvalid,
            Some("Name an empty place, or an earlier copy of this repository."),
        ),
        RepoError::Encrypted { .. } => (
            Kind::Crypto,
            Some(
                "Name the key file: --repo-key-file, or the key \"repo-key-file\" of the configuration file.",
            ),
        ),
        RepoError::NotEncrypted { .. } => (
            Kind::Crypto,
            Some(
                "Make an encrypted one at another place: \"walzip repo copy\" copies this one there.",
            ),
        ),
        RepoError::KeyFileForPlain { .. } => (
            Kind::Crypto,
            Some(
                "Is this the repository that you mean? If it is, leave out --repo-key-file, \
                 WALZIP_REPO_KEY_FILE and the key \"repo-key-file\" of the configuration file.",
            ),
        ),
        RepoError::KeyFile { kind, .. } => (
            Kind::Crypto,
            Some(match kind {
                Some(ErrorKind::PermissionDenied) => {
                    "Give it to the user that runs this command, as a rule the one that runs \
                     PostgreSQL: chown postgres FILE, and chmod 600 FILE."
                }
                _ => {
                    "Bring back the key file with which the repository was made, or a copy of it: \
                     another one cannot read what is there. Only for a new repository, \"walzip key \
                     init FILE\" makes one."
                }
            }),
        ),
        RepoError::Key(KeyError::ReadsOnly) => (
            Kind::Crypto,
            Some("To write, use the key file that the repository was made with."),
        ),
        RepoError::Key(KeyError::NotOurs { .. }) => (
            Kind::Crypto,
            Some(
                "Who can write to the store may have put it there. A key file that is for recovery has \
                 the line \"# walzip: recovery\": add it to read with keys that others made.",
            ),
        ),
        RepoError::Key(_) => (
            Kind::Crypto,
            Some("\"walzip key list\" shows for which public keys the repository's are."),
        ),
        RepoError::NewerFormat { .. } => (
            Kind::Format,
            Some("Use a walzip that is at least as new as the repository's."),
        ),
        RepoError::Mismatch {
            repository,
            cluster,
        } => (Kind::ArchiveMismatch, Some(mismatch(*cluster, *repository))),
        RepoError::NotAnUpgrade { newest, cluster } => {
            (Kind::ArchiveMismatch, Some(mismatch(*cluster, *newest)))
        }
        RepoError::NoSpace { .. } => (
            Kind::FileWrite,
            Some(
                "Make room: \"walzip expire --confirm\" removes what the retention does not keep. Where \
                 that is what failed, remove other files on that disk, or give it more room. PostgreSQL \
                 keeps the WAL and tries again.",
            ),
        ),
        RepoError::Permission { source, .. } => (Kind::Access, Some(permission(source.as_ref()))),
        RepoError::Unavailable { .. } => (Kind::Service, None),
        RepoError::Corrupt { .. } => (Kind::Damaged, None),
        RepoError::InvalidName { .. } => (Kind::ParamInvalid, None),
        RepoError::ObjectTooLarge { .. } => (Kind::FeatureNotSupported, None),
        RepoError::NotPackable { .. } => (
            Kind::FeatureNotSupported,
            Some("Archive into a new repository, whose WAL has a mark."),
        ),
        RepoError::IncompleteBackup { .. } => (Kind::BackupSetInvalid, None),
        RepoError::InvalidLocation { .. } => (Kind::OptionInvalid, None),
        RepoError::StoreSettings { .. } => (
            Kind::OptionInvalid,
            Some("docs/configuration.md lists the settings of each store."),
        ),
        RepoError::WrongRegion { .. } => (
            Kind::OptionInvalid,
            Some("Set repo-s3-region (AWS_REGION)."),
        ),
        RepoError::Unsafe { .. } => (
            Kind::RepoInvalid,
            Some(
                "Nothing was stored but the object \"probe\". Use a store, or a newer version of it, \
                 that honours If-None-Match: two clusters would overwrite each other's WAL on this one.",
            ),
        ),
        RepoError::UnsupportedScheme { .. } => (
            Kind::FeatureNotSupported,
            Some("Name a path, or a URL: file, s3, gs, az or sftp."),
        ),
        _ => (Kind::Internal, None),
    }
}

/// What to do where a store refuses.
fn permission(source: &(dyn std::error::Error + 'static)) -> &'static str {
    let said = std::iter::successors(Some(source), |error| error.source());
    let said: Vec<String> = said.map(ToString::to_string).collect();
    let says = |word: &str| said.iter().any(|text| text.contains(word));
    if says("RequestTimeTooSkewed") {
        return "The clock of this host is far from the store's: set it.";
    }
    if says("DeleteObjects") {
        return "To remove objects, walzip needs the right to delete them (s3:DeleteObject).";
    }
    "walzip needs the rights, or the credentials, to use the repository."
}
