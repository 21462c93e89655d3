//! Where the command's memory comes from: see docs/decisions/2026-11-22-mimalloc-behind-the-command.md.

/// Buffers of a segment's size come and go: from the C library, each costs thousands of page
/// faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
