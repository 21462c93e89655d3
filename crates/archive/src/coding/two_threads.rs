//! Two threads for the two halves of a proof.

use std::panic::resume_unwind;
use std::thread;

/// Runs both, the first one on a thread of its own where there may be one more: a
/// [`RunBoth`](walzip_codec::RunBoth).
pub fn run_both(beside: &(dyn Fn() + Sync), here: &mut dyn FnMut()) {
    thread::scope(|scope| {
        let spawned = thread::Builder::new().spawn_scoped(scope, beside);
        here();
        match spawned {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => beside(),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn runs_both() {
        let (beside, mut here) = (AtomicBool::new(false), false);
        run_both(&|| beside.store(true, Ordering::Relaxed), &mut || {
            here = true
        });
        assert!(here && beside.into_inner());
    }

    #[test]
    fn a_panic_beside_is_one_here() {
        let run = || run_both(&|| panic!("on purpose"), &mut || ());
        assert!(std::panic::catch_unwind(run).is_err());
    }
}
