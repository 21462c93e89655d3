//! The special space of pages, at their end: each type of index has another one.

use crate::page::{Page, PageBytes};

/// A special space of `LEN` bytes, with flags `u16` at `FLAGS_AT`.
pub struct Special<const LEN: usize, const FLAGS_AT: usize>;

impl<const LEN: usize, const FLAGS_AT: usize> Special<LEN, FLAGS_AT> {
    /// Where it begins.
    pub fn at(page: &PageBytes) -> Option<usize> {
        let at = page.special();
        (at + LEN <= page.len()).then_some(at)
    }

    /// Puts bytes into it.
    pub fn put(page: &mut PageBytes, at: usize, bytes: &[u8]) -> Option<()> {
        let special = Self::at(page)?;
        page.put(special + at, bytes)
    }

    /// A number of two bytes.
    pub fn u16_at(page: &PageBytes, at: usize) -> Option<u16> {
        Some(page.u16_at(Self::at(page)? + at))
    }

    /// A number of four bytes.
    pub fn u32_at(page: &PageBytes, at: usize) -> Option<u32> {
        Some(page.u32_at(Self::at(page)? + at))
    }

    /// The flags.
    pub fn flags(page: &PageBytes) -> Option<u16> {
        Self::u16_at(page, FLAGS_AT)
    }

    /// Sets flags and clears others.
    pub fn change_flags(page: &mut PageBytes, set: u16, clear: u16) -> Option<()> {
        let flags = (Self::flags(page)? & !clear) | set;
        Self::put(page, FLAGS_AT, &flags.to_le_bytes())
    }
}
