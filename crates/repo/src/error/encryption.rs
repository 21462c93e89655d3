//! What can go wrong with keys and with what is encrypted.

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

/// Why an object cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It does not begin as an encrypted object does.
    #[error("it is not encrypted")]
    Plaintext,
    /// A newer version of the format.
    #[error("it has version {0} of the encryption's format, this walzip knows versions up to 1")]
    Newer(u8),
    /// The key of its epoch is another one.
    #[error("it was encrypted with another key of epoch {0}")]
    WrongKey(u32),
    /// It was made for another name, or another repository.
    #[error("it was encrypted as an object of another name or repository")]
    Swapped,
    /// It is not as it was made.
    #[error("it was changed, cut or damaged after it was encrypted")]
    Tampered,
    /// No object of this length can be.
    #[error("an encrypted object cannot have {0} bytes")]
    Length(u64),
    /// The library refuses.
    #[error("the encryption failed")]
    Failed,
}

/// As a failure of the store; `RepoError` finds it in there.
impl From<SealError> for object_store::Error {
    fn from(error: SealError) -> object_store::Error {
        object_store::Error::Generic {
            store: "encryption",
            source: Box::new(error),
        }
    }
}
