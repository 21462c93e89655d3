//! Entries of GIN indexes that have a list of rows (access/gin/gininsert.c, ginentrypage.c).
//!
//! ```text
//! where the list begins u32 with the first bit set, high u16 first; number of TIDs u16; info u16: 13 bits of
//! length and 3 flags; key; posting list; zeros up to a multiple of 8
//! ```

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::bytes::read_u16;
use walzip_pgformat::posting_list::{list_of, read_list};

use crate::gin_posting::{INSERT, take_list, without};
use crate::index_tuple::LEN_MASK;
use crate::page::{Page, PageBytes, max_align};

const HEADER_LEN: usize = 8;
/// `GIN_ITUP_COMPRESSED`, in the high half of the block.
const HAS_LIST: u16 = 0x8000;

/// An entry with a posting list.
pub struct Entry<'b> {
    /// The upper three bits of its information.
    pub flags: u16,
    /// Its key.
    pub key: &'b [u8],
    /// Its rows, as numbers of posting lists.
    pub tids: Vec<u64>,
}

impl<'b> Entry<'b> {
    /// `None` if it cannot be written again byte for byte.
    pub fn of(tuple: &'b [u8]) -> Option<Entry<'b>> {
        let start = usize::from(read_u16(tuple, 2)?);
        if read_u16(tuple, 0)? != HAS_LIST {
            return None;
        }
        let mut tids = Vec::new();
        let list = tuple.get(start..)?;
        if read_u16(tuple, 4)? != 0 {
            read_list(list, &mut tids)?;
        }
        let entry = Entry {
            flags: read_u16(tuple, 6)? & !LEN_MASK,
            key: tuple.get(HEADER_LEN..start)?,
            tids,
        };
        (entry.with_tids(&entry.tids)? == tuple).then_some(entry)
    }

    /// The entry with these TIDs instead.
    fn with_tids(&self, tids: &[u64]) -> Option<Vec<u8>> {
        entry(self.flags, self.key, tids)
    }
}

/// Writes an entry.
pub fn entry(flags: u16, key: &[u8], tids: &[u64]) -> Option<Vec<u8>> {
    let list = match tids {
        [] => Vec::new(),
        _ => list_of(tids)?,
    };
    let start = HEADER_LEN + key.len();
    let len = max_align(start + list.len());
    if len > LEN_MASK.into() {
        return None;
    }
    let mut tuple = Vec::with_capacity(len);
    for field in [
        HAS_LIST,
        start as u16,
        tids.len() as u16,
        flags | len as u16,
    ] {
        tuple.extend_from_slice(&field.to_le_bytes());
    }
    tuple.extend_from_slice(key);
    tuple.extend_from_slice(&list);
    tuple.resize(len, 0);
    Some(tuple)
}

/// The key of an entry with a posting list.
pub fn key(tuple: &[u8]) -> Option<&[u8]> {
    match read_u16(tuple, 0)? {
        HAS_LIST => tuple.get(HEADER_LEN..read_u16(tuple, 2)?.into()),
        _ => tuple.get(HEADER_LEN..),
    }
}

/// The rows of an entry with a posting list.
pub fn rows(tuple: &[u8]) -> Option<Vec<u64>> {
    Entry::of(tuple).map(|entry| entry.tids)
}

/// Bytes of items that may be looked at: on a page that a server has made, items do not overlap.
struct Budget(usize);

impl Default for Budget {
    fn default() -> Budget {
        Budget(PAGE_SIZE)
    }
}

impl Budget {
    fn take(&mut self, item: &[u8]) -> Option<()> {
        self.0 = self.0.checked_sub(item.len())?;
        Some(())
    }
}

/// The number of actions, the list, and the action that stand before the rows that a vacuum removes.
const REMOVED_HEADER: [u8; 4] = [1, 0, 0, INSERT];

/// Removes rows from all entries of a page (`ginVacuumEntryPage`): those of the one list that the data have
/// for a change of a posting tree ([`gin_posting`](crate::gin_posting)). The server writes an image instead.
pub fn vacuum(page: &mut PageBytes, data: &[u8]) -> Option<()> {
    let mut removed = Vec::new();
    let mut rest = data.strip_prefix(&REMOVED_HEADER)?;
    read_list(take_list(&mut rest)?, &mut removed)?;
    let mut budget = Budget::default();
    for number in 1..=page.items() {
        let item = page.item(number)?;
        budget.take(item)?;
        let Some(old) = Entry::of(item) else {
            continue;
        };
        let is_kept = |tid: &u64| removed.binary_search(tid).is_err();
        let kept: Vec<u64> = old.tids.iter().copied().filter(is_kept).collect();
        if kept.len() < old.tids.len() {
            let new = old.with_tids(&kept)?;
            page.delete_item(number)?;
            page.add_shifting(&new, number)?;
        }
    }
    Some(())
}

/// The rows that a vacuum has removed from the entries of a page, as data for [`vacuum`].
pub fn omitted_tids(before: &PageBytes, image: &PageBytes, out: &mut Vec<u8>) -> Option<()> {
    let mut removed = Vec::new();
    let (mut budget, mut budget_of_image) = (Budget::default(), Budget::default());
    for number in 1..=before.items() {
        let (old, new) = (before.item(number)?, image.item(number)?);
        budget.take(old)?;
        budget_of_image.take(new)?;
        if old != new {
            let (old, new) = (Entry::of(old)?, Entry::of(new)?);
            removed.extend(without(&old.tids, &new.tids)?);
        }
    }
    removed.sort_unstable();
    removed.dedup();
    out.extend_from_slice(&REMOVED_HEADER);
    out.extend_from_slice(&list_of(&removed)?);
    Some(())
}
