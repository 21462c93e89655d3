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

pub use crate::error::encryption::{KeyError, SealError};
pub use epochs::{EpochRecipients, Epochs};
pub(crate) use key_file::LEN_MAX;
pub use key_file::{KeyFile, Recipient};
pub use sealed::{HEADER_LEN, MAGIC, PIECE_LEN, TAG_LEN, VERSION};
pub use store::EncryptedStore;
