//! Stopping an experiment, and the program that it is running, from another thread.
//!
//! The process that is being measured is known here only while it exists and is not yet
//! reaped, so a number that the system has given to someone else meanwhile is never killed.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A request to stop; all clones are the same request.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<State>);

#[derive(Debug, Default)]
struct State {
    requested: AtomicBool,
    running: Mutex<Option<Pid>>,
}

impl Cancel {
    /// A request that SIGINT, SIGTERM and SIGHUP make from now on, instead of ending the process.
    pub fn on_signals() -> io::Result<Cancel> {
        let cancel = Cancel::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let request = cancel.clone();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                request.request();
            }
        });
        Ok(cancel)
    }

    /// Kills the program that is being measured, with its children, and starts no other.
    pub fn request(&self) {
        self.0.requested.store(true, Ordering::SeqCst);
        self.kill();
    }

    /// Whether a stop was requested.
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::SeqCst)
    }

    /// From now on a request kills the process group of this child.
    pub(crate) fn watch(&self, leader: Pid) {
        *self.running() = Some(leader);
        if self.is_requested() {
            self.kill();
        }
    }

    /// The child has ended and may be reaped.
    pub(crate) fn release(&self) {
        *self.running() = None;
    }

    fn kill(&self) {
        if let Some(leader) = *self.running() {
            // It fails only when the group has ended by itself, which is as good.
            let _ended = kill_process_group(leader, Signal::KILL);
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<Pid>> {
        self.0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
