//! Where the command's memory comes from: see docs/decisions/2026-11-22-one-heap-in-huge-pages.md
//! and docs/decisions/2026-11-23-huge-pages-that-are-free.md.

/// What a segment of 16 MB takes to encode at any level, with few exceptions.
const HEAP_LEN: i32 = 128 << 20;
/// Blocks of this length that the heap has no room for are mapped one by one, and given back when
/// they are freed.
const MAPPED_LEN: i32 = 4 << 20;
/// More than what a new process has free.
const FIRST_BLOCK_LEN: usize = 1 << 20;

/// Sets the C library's allocator up; the program calls it first. It has one heap, which is
/// there at once, in huge pages where enough are free, and is never made smaller: buffers of a segment's size come and
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
        if has_huge_pages(len) {
            libc::madvise(start, len, libc::MADV_HUGEPAGE);
        }
    }
}

/// Whether so many bytes of huge pages are free now. Where they are not, a process that has asked
/// for them waits at each while the kernel moves other pages together (direct compaction:
/// __alloc_pages_slowpath in mm/page_alloc.c), which takes longer than the small pages do.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn has_huge_pages(len: usize) -> bool {
    use std::io::Read;
    // On the stack: the heap is not set up yet. A line has a hundred bytes, a machine few zones.
    let mut text = [0; 16 << 10];
    let read = std::fs::File::open("/proc/buddyinfo").and_then(|mut file| file.read(&mut text));
    let text = read.ok().and_then(|len| text.get(..len));
    let text = text.and_then(|text| str::from_utf8(text).ok());
    text.is_some_and(|text| free_in_huge_pages(text) >= len)
}

/// Bytes that are free in blocks of 2 MiB and more. A line has a zone's free blocks by length:
/// "Node 0, zone   Normal", then how many there are of 4 KiB, 8 KiB, 16 KiB and so on.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn free_in_huge_pages(buddyinfo: &str) -> usize {
    const BEFORE_COUNTS: usize = 4;
    const ORDER: usize = 9;
    const LEN: usize = 2 << 20;
    let of_zone = |zone: &str| -> usize {
        let counts = zone.split_whitespace().skip(BEFORE_COUNTS + ORDER);
        let blocks = counts.map(|count| count.parse::<usize>().unwrap_or(0));
        let lens = blocks
            .enumerate()
            .map(|(n, count)| count.saturating_mul(LEN << n));
        lens.fold(0, usize::saturating_add)
    };
    buddyinfo
        .lines()
        .map(of_zone)
        .fold(0, usize::saturating_add)
}

/// Leaves the allocator as it is.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn set_up() {}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_free_in_huge_pages() {
        let fresh = "Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 \n\
                     Node 0, zone   Normal   3836   6907   8919   7292   6770   3989   1833    668    330    159   1267 \n";
        assert_eq!(
            free_in_huge_pages(fresh),
            (1 + 2 * 3 + 159 + 2 * 1267) << 21
        );
        let fragmented =
            "Node 0, zone   Normal 2411301   12   3   0   0   0   0   0   9   0   0 \n";
        assert_eq!(free_in_huge_pages(fragmented), 0);
        assert_eq!(free_in_huge_pages("no such table"), 0);
    }
}
