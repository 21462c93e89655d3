//! Two things at a time, where the caller has two threads.

/// Runs two things and returns when both are done: the first one on another thread, if the caller
/// has one for it.
pub type RunBoth = fn(beside: &(dyn Fn() + Sync), here: &mut dyn FnMut());

/// Runs both on the thread that there is.
pub fn run_in_turn(beside: &(dyn Fn() + Sync), here: &mut dyn FnMut()) {
    here();
    beside();
}
