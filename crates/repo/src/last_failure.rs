//! What a request failed of last.
//!
//! Clients repeat requests by themselves, and say why only when they give up. Who waits for them is told
//! before.

use std::sync::{Arc, Mutex, PoisonError};

/// Shared by those who make requests and by those who wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastFailure(Arc<Mutex<Option<String>>>);

impl LastFailure {
    /// Notes how a request ended: what it failed of, or nothing.
    pub(crate) fn note(&self, failure: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// What the last request failed of, or other words where that is not known.
    pub(crate) fn last_or(&self, otherwise: &str) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone().unwrap_or_else(|| otherwise.to_owned())
    }
}
