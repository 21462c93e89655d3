//! Where the command's memory comes from: see docs/decisions/2026-11-22-one-heap-in-huge-pages.md.

/// What a segment of 16 MB takes to encode at any level, with few exceptions.
const HEAP_LEN: i32 = 128 << 20;
/// Blocks of this length that the heap has no room for are mapped one by one, and given back when
/// they are freed.
const MAPPED_LEN: i32 = 4 << 20;
/// More than what a new process has free.
const FIRST_BLOCK_LEN: usize = 1 << 20;

/// Sets the C library's allocator up; the program calls it first. It has one heap, which is
/// there at once, in huge pages, and is never made smaller: buffers of a segment's size come and
/// go, and each would cost thousands of page faults. Where the system refuses, only time is lost.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the C library has no other interface")]
pub fn set_up() {
    use libc::{M_ARENA_MAX, M_MMAP_THRESHOLD, M_TOP_PAD, M_TRIM_THRESHOLD};
    // SAFETY: there are no other threads yet; the options change no block that is in use; and
    // the range between two ends of the heap is the heap's.
    unsafe {
        libc::mallopt(M_ARENA_MAX, 1);
        libc::mallopt(M_MMAP_THRESHOLD, MAPPED_LEN);
        libc::mallopt(M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(M_TOP_PAD, HEAP_LEN);
        let start = libc::sbrk(0);
        // The compiler would do without a block that nobody looks at.
        libc::free(std::hint::black_box(libc::malloc(FIRST_BLOCK_LEN)));
        let len = (libc::sbrk(0) as usize).saturating_sub(start as usize);
        libc::madvise(start, len, libc::MADV_HUGEPAGE);
    }
}

/// Leaves the allocator as it is.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn set_up() {}
