//! Counts the bytes that the current thread holds. The codec works on the thread that calls
//! it, so this is what a call takes; what libzstd and liblz4 take for themselves is not here.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted.
pub struct CountingAllocator;

/// What `work` returns, and the most bytes that it held on top of what was there before.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    let peak = PEAK.get() - before;
    (result, peak.try_into().expect("a peak is above its start"))
}

fn add(change: isize) {
    let held = HELD.get() + change;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

fn signed(len: usize) -> isize {
    len.try_into().expect("an allocation is below isize::MAX")
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(signed(layout.size()));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(signed(layout.size()));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        add(-signed(layout.size()));
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // The old place and the new one may exist at once.
        add(signed(new_size));
        add(-signed(layout.size()));
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[test]
fn counts_what_is_held_at_once() {
    let ((), peak) = peak_of(|| {
        drop(vec![1u8; 1000]);
        drop(vec![0u8; 3000]);
    });
    assert!((3000..3100).contains(&peak), "{peak}");
}
