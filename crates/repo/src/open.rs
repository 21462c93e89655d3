//! The store that reaches a location.

use std::sync::Arc;

use object_store::ObjectStore;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use zeroize::Zeroizing;

use crate::encryption::{EncryptedStore, Epochs, KeyFile, Recipient};
use crate::patient::PatientStore;
use crate::sftp::SftpStore;
use crate::store_settings::StoreSettings;
use crate::{LocalStore, Location, RepoError, Repository, remote};

/// Makes the store that reaches a location, encrypted where there is a key file. Nothing is
/// requested or created yet.
pub fn open_store(
    location: &Location,
    settings: &StoreSettings,
) -> Result<Arc<dyn ObjectStore>, RepoError> {
    let store = open_inner(location, settings)?;
    Ok(match key_file(settings)? {
        Some(key_file) => Arc::new(EncryptedStore::new(store, key_file)),
        None => store,
    })
}

/// The epochs of the repository at a location, where there is a key file.
pub fn open_epochs(
    location: &Location,
    settings: &StoreSettings,
) -> Result<Option<Epochs>, RepoError> {
    let store = open_inner(location, settings)?;
    Ok(key_file(settings)?.map(|key_file| Epochs::new(store, key_file)))
}

/// Begins the encryption of a repository that is to be made, where there is a key file. One that
/// is there and is not encrypted stays so, and is refused.
pub async fn begin_encryption(
    location: &Location,
    settings: &StoreSettings,
    recipients: &[Recipient],
) -> Result<(), RepoError> {
    let Some(epochs) = open_epochs(location, settings)? else {
        return Ok(());
    };
    let store = open_inner(location, settings)?;
    match Repository::open(store).await {
        Err(RepoError::NotARepository { .. } | RepoError::Encrypted { .. }) => {}
        Ok(_) => {
            return Err(RepoError::NotEncrypted {
                location: location.to_string(),
            });
        }
        Err(error) => return Err(error),
    }
    epochs.begin_first(recipients).await
}

fn key_file(settings: &StoreSettings) -> Result<Option<KeyFile>, RepoError> {
    let Some(path) = &settings.key_file else {
        return Ok(None);
    };
    let unusable = |detail: String| RepoError::KeyFile {
        path: path.clone(),
        detail,
    };
    // Neither a core dump nor another process of the user is to have the keys.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| {
        unusable(format!(
            "its keys cannot be kept out of core dumps: {error}"
        ))
    })?;
    let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    KeyFile::parse(&Zeroizing::new(text))
        .map(Some)
        .map_err(unusable)
}

fn open_inner(
    location: &Location,
    settings: &StoreSettings,
) -> Result<Arc<dyn ObjectStore>, RepoError> {
    let store: Arc<dyn ObjectStore> = match location {
        Location::Local(path) => return Ok(Arc::new(LocalStore::new(path))),
        Location::Bucket(bucket) => remote::open(bucket, settings)?,
        Location::Sftp(directory) => Arc::new(SftpStore::new(directory, settings)),
    };
    let patience = settings.timeout();
    Ok(Arc::new(PatientStore::new(
        store,
        location.to_string(),
        patience,
    )))
}
