//! The store that reaches a location.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStore;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use zeroize::Zeroizing;

use crate::encryption::{EncryptedStore, Epochs, KeyFile, LEN_MAX, Recipient};
use crate::error::RepoError;
use crate::last_failure::LastFailure;
use crate::local::LocalStore;
use crate::location::Location;
use crate::patient::PatientStore;
use crate::remote;
use crate::repository::Repository;
use crate::sftp::SftpStore;
use crate::store_settings::StoreSettings;

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
        Err(RepoError::NotARepository { .. }) => {}
        // Without its keys it cannot be read, and new ones would be in the way of the right ones.
        Err(RepoError::Encrypted { .. }) => return epochs.join(recipients).await,
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
    // Somebody may have given the secret in place of the file.
    let shown = match path.to_string_lossy().starts_with("AGE-SECRET-KEY-") {
        true => PathBuf::from("AGE-SECRET-KEY-..."),
        false => path.clone(),
    };
    let unusable = |kind, detail: String| RepoError::KeyFile {
        path: shown.clone(),
        kind,
        detail,
    };
    // Neither a core dump nor another process of the user is to have the keys.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| {
        let why = format!("its keys cannot be kept out of core dumps: {error}");
        unusable(None, why)
    })?;
    let mut text = Zeroizing::new(String::new());
    let read = File::open(path).and_then(|file| {
        if may_be_read_by_others(&file.metadata()?) {
            tracing::warn!(
                "the key file {} can be read by others: chmod 600",
                shown.display()
            );
        }
        file.take(LEN_MAX as u64 + 1).read_to_string(&mut text)
    });
    read.map_err(|error| unusable(Some(error.kind()), error.to_string()))?;
    let parsed = KeyFile::parse(&text);
    parsed.map(Some).map_err(|detail| unusable(None, detail))
}

/// As PostgreSQL sees it with the keys of its TLS: the group may read what is root's
/// (libpq/be-secure-common.c, 18).
fn may_be_read_by_others(file: &Metadata) -> bool {
    let allowed = if file.uid() == 0 { 0o740 } else { 0o700 };
    file.is_file() && file.mode() & 0o777 & !allowed != 0
}

fn open_inner(
    location: &Location,
    settings: &StoreSettings,
) -> Result<Arc<dyn ObjectStore>, RepoError> {
    let failures = LastFailure::default();
    let store: Arc<dyn ObjectStore> = match location {
        Location::Local(path) => return Ok(Arc::new(LocalStore::new(path))),
        Location::Bucket(bucket) => remote::open(bucket, settings, &failures)?,
        Location::Sftp(directory) => Arc::new(SftpStore::new(directory, settings)),
    };
    let patience = settings.timeout();
    Ok(Arc::new(PatientStore::new(
        store,
        location.to_string(),
        patience,
        failures,
    )))
}
