//! Whether a store keeps its promise that a name is given once.
//!
//! A server that passes over the condition of a put replaces an object and reports success: two
//! clusters would overwrite each other's WAL without a word. So it is tried before anything is
//! stored: of two puts of one name the second has to fail.

use std::sync::Arc;

use object_store::path::Path;
use object_store::{Error, ObjectStore, PutMode, PutOptions};

use crate::error::RepoError;
use crate::layout::PROBE;

/// Refuses a store on which a put replaces an object that exists.
///
/// The object stays: finding it proves the same at the next time.
pub async fn probe_store(store: &Arc<dyn ObjectStore>) -> Result<(), RepoError> {
    for _ in 0..2 {
        let create = PutOptions::from(PutMode::Create);
        let content = "A put of this name has to fail now.\n";
        match store
            .put_opts(&Path::from(PROBE), content.into(), create)
            .await
        {
            Ok(_) => {}
            Err(Error::AlreadyExists { .. }) => return Ok(()),
            Err(error) => return Err(RepoError::from_put(PROBE, error)),
        }
    }
    Err(RepoError::Unsafe {
        location: store.to_string(),
    })
}
