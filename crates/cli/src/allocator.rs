//! Where the command's memory comes from: see docs/decisions/2026-11-22-mimalloc-behind-the-command.md.

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// Buffers of a segment's size come and go: from the C library, each costs thousands of page
/// faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` (mimalloc.h), which the bindings do not name.
const PURGE_DELAY: mi_option_t = 15;
/// How long freed memory is kept for the next buffer. With mimalloc's own second an encoder that
/// frees 100 MB and takes as much again holds both; with less, pages are given back only to be
/// taken again.
const PURGE_DELAY_MS: std::ffi::c_long = 10;

/// Sets the allocator up; the program calls it first.
#[allow(unsafe_code, reason = "mimalloc's options have no other interface")]
pub fn set_up() {
    // SAFETY: writes a number into mimalloc's table of options, before there are threads.
    unsafe { mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) };
}
