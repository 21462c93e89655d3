//! Encryption of a repository's objects.
//!
//! [`EncryptedStore`] lies between a repository and its store: what is put is encrypted, what is got
//! is decrypted, and neither side sees a difference but the lengths of the stored objects. Every
//! object is encrypted but those below `keys/`, which are themselves for certain recipients only.
//! `docs/format/encryption.md` specifies the bytes, `docs/security.md` says against whom they
//! protect.

mod epochs;
mod key_file;
mod reading;
mod sealed;
mod store;
mod upload;

pub use epochs::{EpochRecipients, Epochs};
pub(crate) use key_file::LEN_MAX;
pub use key_file::{KeyFile, Recipient};
pub use sealed::{HEADER_LEN, MAGIC, PIECE_LEN, SealError, TAG_LEN, VERSION};
pub use store::EncryptedStore;

/// Why a key cannot be used. It is the cause of a store's error, and told apart by
/// [`RepoError`](crate::error::RepoError).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// An object of an epoch for whose key there is nothing to decrypt it with.
    #[error("the repository has no key of epoch {epoch} for this key file")]
    NoKey {
        /// The epoch.
        epoch: u32,
    },
    /// The repository has no keys at all for this key file.
    #[error("the repository has no key for this key file")]
    NoKeys,
    /// The epoch's key was not put there by who has this key file.
    #[error(
        "the key of epoch {epoch} was not made with this key file, but by somebody else for it"
    )]
    NotOurs {
        /// The epoch.
        epoch: u32,
    },
    /// Anybody could have made the key for the key file that is for recovery.
    #[error("the key file is for recovery: with it, the repository can be read and not written")]
    ReadsOnly,
    /// An object was encrypted with another key.
    #[error("{0}")]
    Wrong(SealError),
    /// What is below `keys/` is not as walzip writes it.
    #[error("{key} cannot be used: {detail}")]
    Damaged {
        /// Its key.
        key: String,
        /// What is wrong.
        detail: String,
    },
}
