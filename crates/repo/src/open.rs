//! The store that reaches a location.

use std::sync::Arc;

use object_store::ObjectStore;

use crate::patient::PatientStore;
use crate::sftp::SftpStore;
use crate::store_settings::StoreSettings;
use crate::{LocalStore, Location, RepoError, remote};

/// Makes the store that reaches a location. Nothing is read, requested or created yet.
pub fn open_store(
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
