//! Errors, told apart by what the caller can do about them.

pub(crate) mod encryption;

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::path::PathBuf;

use crate::cluster_identity::ClusterIdentity;
use crate::error::encryption::KeyError;

pub(crate) type Source = Box<dyn StdError + Send + Sync + 'static>;

/// Why the repository could not do what was asked.
///
/// `key` is the object's key in the repository, or the name of the operation's place
/// where there is no single object (a prefix that was listed).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepoError {
    /// The object does not exist.
    #[error("{key} is not in the repository")]
    NotFound {
        /// The key that was asked for.
        key: String,
    },

    /// The name is taken, and by other content where this crate could compare it.
    #[error("{key} exists already")]
    AlreadyExists {
        /// The key that is taken.
        key: String,
    },

    /// There is no `repository.json`: not initialised, not mounted, or the wrong path.
    #[error("{location} is not a walzip repository: it has no repository.json")]
    NotARepository {
        /// The store as it describes itself.
        location: String,
    },

    /// A part of the repository is not there, or something else is in its place: moved,
    /// replaced, not mounted, a link.
    #[error("{place} is not as walzip made it: {detail}")]
    NotInPlace {
        /// The part: a key, or a path where it is no object.
        place: String,
        /// What is there instead.
        detail: String,
    },

    /// The WAL of a cluster has no mark, by which older walzips would know that there are packs.
    #[error(
        "the WAL of {cluster} cannot be packed: the repository is of the first days, without a \
         mark among its WAL, and older walzips would take what is packed for the end of the WAL"
    )]
    NotPackable {
        /// The cluster.
        cluster: ClusterIdentity,
    },

    /// The place of a copy has another repository.
    #[error("{location} has another repository, which would be mixed with this one")]
    AnotherRepository {
        /// The store as it describes itself.
        location: String,
    },

    /// The repository was made by a newer walzip.
    #[error("the repository has format {found}, this walzip knows formats up to {supported}")]
    NewerFormat {
        /// The format that `repository.json` names.
        found: u64,
        /// The newest format that this build reads.
        supported: u64,
    },

    /// The cluster is none of the repository's.
    #[error("the repository belongs to {repository}, not to {cluster}")]
    Mismatch {
        /// Whose archive the repository keeps; the last one, if it was kept through upgrades.
        repository: ClusterIdentity,
        /// Who asked.
        cluster: ClusterIdentity,
    },

    /// The cluster cannot be what became of the repository's by an upgrade.
    #[error(
        "{cluster} is no upgrade of the repository's {newest}: {}",
        if cluster.major < newest.major { "its major version is older" }
        else { "it has the same major version, and is another cluster" }
    )]
    NotAnUpgrade {
        /// The cluster that was registered last.
        newest: ClusterIdentity,
        /// The one to be registered.
        cluster: ClusterIdentity,
    },

    /// The store is full, or a quota is used up.
    #[error("no space left in the repository for {key}")]
    NoSpace {
        /// The object that did not fit.
        key: String,
        /// What the store said.
        #[source]
        source: Source,
    },

    /// The store refused: missing rights, a read-only file system, wrong credentials.
    #[error("the repository does not permit access to {key}")]
    Permission {
        /// The object that was refused.
        key: String,
        /// What the store said.
        #[source]
        source: Source,
    },

    /// The store failed in a way that may pass; nothing is known about the outcome of
    /// a put, so it is repeated, and meets its own object or makes it.
    #[error("the repository failed at {key}")]
    Unavailable {
        /// The object concerned.
        key: String,
        /// What the store said.
        #[source]
        source: Source,
    },

    /// The repository is encrypted, and there is no key to decrypt it with.
    #[error("the repository is encrypted ({key} is), and no key file is named")]
    Encrypted {
        /// An encrypted object.
        key: String,
    },

    /// The repository is not encrypted, and was to be.
    #[error("the repository at {location} is there already, and is not encrypted")]
    NotEncrypted {
        /// Where it is.
        location: String,
    },

    /// A key file is named, and the repository is not encrypted.
    #[error("the repository is not encrypted ({key} is not), and a key file is named")]
    KeyFileForPlain {
        /// An object that is not encrypted.
        key: String,
    },

    /// The key file cannot be used.
    #[error("the key file {} cannot be used: {detail}", path.display())]
    KeyFile {
        /// Its path.
        path: PathBuf,
        /// The system's error, if it was one.
        kind: Option<ErrorKind>,
        /// Why not; nothing of its content.
        detail: String,
    },

    /// A key of the repository's encryption cannot be used.
    #[error("{0}")]
    Key(#[from] KeyError),

    /// What the repository holds contradicts its format.
    #[error("{key} is damaged: {detail}")]
    Corrupt {
        /// The damaged object.
        key: String,
        /// What contradicts what.
        detail: String,
    },

    /// The caller's name cannot be stored.
    #[error("{name:?} cannot be the name of {what}: {detail}")]
    InvalidName {
        /// What the name was for.
        what: &'static str,
        /// The name as given.
        name: String,
        /// The rule that it breaks.
        detail: &'static str,
    },

    /// A backup object grew beyond what every store can hold.
    #[error("{key} is longer than {limit_bytes} bytes, the most that one object may hold")]
    ObjectTooLarge {
        /// The object concerned.
        key: String,
        /// [`crate::backup::MAX_OBJECT_BYTES`].
        limit_bytes: u64,
    },

    /// A backup cannot be finished with an object missing or incomplete.
    #[error("backup {label} cannot be finished: {detail}")]
    IncompleteBackup {
        /// The backup concerned.
        label: String,
        /// Which object is missing, or how it differs.
        detail: String,
    },

    /// The path or URL cannot name a repository.
    #[error("{location:?} cannot be the place of a repository: {detail}")]
    InvalidLocation {
        /// The location as given.
        location: String,
        /// Why not.
        detail: String,
    },

    /// No store can be reached with these settings.
    #[error("{location} cannot be reached")]
    StoreSettings {
        /// The location.
        location: String,
        /// Which setting is wrong.
        #[source]
        source: Source,
    },

    /// Requests are signed for another region than the bucket's.
    #[error("{location} cannot be reached: {detail}")]
    WrongRegion {
        /// The location.
        location: String,
        /// What the store said.
        detail: String,
    },

    /// The store replaces objects where it was asked to create one.
    #[error(
        "{location} is not safe: it overwrites an object where it was asked not to (If-None-Match)"
    )]
    Unsafe {
        /// The store as it describes itself.
        location: String,
    },

    /// There is no store for the URL's scheme.
    #[error("repositories at {scheme}:// are not supported")]
    UnsupportedScheme {
        /// The scheme as given.
        scheme: String,
    },
}
