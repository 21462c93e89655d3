//! The last known versions of rows, against which updates are coded.
//!
//! A hash table of bounded size maps the address of a row to the known bytes of its values. It
//! may forget a row or confuse two: that costs bytes, never correctness, because the encoder and
//! the decoder have the same table.

use super::image_rows::{ImageRows, PageKey};
use super::recent::{RecentRows, RowNumber};
use crate::model::values::tid::Tid;
use crate::streams::coder::get_u16;

/// The table has one slot for this number of bytes of the segment.
const SLOT_FOR: usize = 64;
const SLOTS_MIN: usize = 1 << 10;
const SLOTS_MAX: usize = 1 << 19;
/// Maximum number of bytes that are kept of a version.
const VERSION_KEPT: usize = 2048;
/// Maximum number of bytes that are kept of all versions. Beyond it the table forgets all.
const BYTES_KEPT: usize = 1 << 24;

/// The key of a version of a row: a hash of its relation and address.
#[derive(Clone, Copy, Debug)]
pub struct VersionId {
    slot: usize,
    /// Distinguishes it from most others of the same slot.
    check: u32,
    page: PageKey,
    line_pointer: u16,
}

/// The part of the old version that an update keeps, which its record does not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Number of bytes at the front of the values.
    pub prefix: usize,
    /// Number of bytes at their end.
    pub suffix: usize,
}

/// The known part of the values of a version. Values are the bytes from `t_hoff` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    /// The known bytes.
    pub bytes: &'a [u8],
    /// Their offset in the values.
    pub from: usize,
    /// Length of all values, in bytes.
    pub total: usize,
}

impl<'a> Version<'a> {
    /// Bytes at offsets of the values, if all are known.
    pub fn known(&self, range: std::ops::Range<usize>) -> Option<&'a [u8]> {
        let start = range.start.checked_sub(self.from)?;
        self.bytes.get(start..range.end.checked_sub(self.from)?)
    }

    /// A version whose values are all known.
    pub fn whole(values: &'a [u8]) -> Version<'a> {
        Version {
            bytes: values,
            from: 0,
            total: values.len(),
        }
    }
}

/// A slot of the table. It is empty if `at` is 0.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    check: u32,
    /// The number of a row that was inserted; or [`KEPT`] plus the offset of a kept version.
    at: u32,
}

/// The flag in [`Entry`] of a kept version. Row numbers and offsets are below it.
const KEPT: u32 = 1 << 31;
/// Size of the header of a kept version, in bytes: its length `u16`, its offset in the values
/// `u16`, the length of all values `u16`.
const HEAD_LEN: usize = 6;

/// The table of known versions.
#[derive(Debug)]
pub struct RowVersions {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    scratch: Vec<u8>,
    /// A bit for each slot: that of each page of which a version was entered is set.
    pages: Vec<u64>,
    images: ImageRows,
}

impl RowVersions {
    /// For a segment of this length.
    pub fn new(segment_len: usize) -> RowVersions {
        let slots = (segment_len / SLOT_FOR).clamp(SLOTS_MIN, SLOTS_MAX);
        let slots = slots.next_power_of_two();
        RowVersions {
            entries: vec![Entry::default(); slots],
            pages: vec![0; slots / 64],
            bytes: Vec::new(),
            scratch: Vec::new(),
            images: ImageRows::new(segment_len),
        }
    }

    /// The key of the version at an address of a relation. The rows of a block have adjacent slots.
    pub fn id(&self, relation: u32, (block, line_pointer): Tid) -> VersionId {
        let page = PageKey::of(relation, block);
        let hash = page.hash();
        VersionId {
            slot: ((hash >> 32) as usize + usize::from(line_pointer)) & (self.entries.len() - 1),
            check: (hash as u32).wrapping_add(line_pointer.into()),
            page,
            line_pointer,
        }
    }

    /// A version, if it is known: from a record, or else from an image.
    pub fn get<'a>(&'a self, rows: &'a RecentRows, id: VersionId) -> Option<Version<'a>> {
        self.of_record(rows, id).or_else(|| {
            let values = self.images.get(id.page, id.line_pointer)?;
            Some(Version::whole(values))
        })
    }

    /// The values of a row on a kept image.
    pub fn on_image(&self, relation: u32, (block, line_pointer): Tid) -> Option<&[u8]> {
        self.images.get(PageKey::of(relation, block), line_pointer)
    }

    /// The rows on images, which no record may have.
    pub fn images(&self) -> &ImageRows {
        &self.images
    }

    /// Begins an image of a block with `count` line pointers.
    pub fn begin_image(&mut self, relation: u32, block: u32, count: usize) {
        self.images.begin(PageKey::of(relation, block), count);
    }

    /// Adds the next row of this image. `next` is the line pointer on it to which it points.
    pub fn add_to_image(&mut self, line_pointer: u16, values: &[u8], next: Option<u16>) {
        self.images.add(line_pointer, values, next);
    }

    /// Whether a record may have told a version of this page's rows.
    pub fn may_have(&self, relation: u32, block: u32) -> bool {
        let (word, bit) = self.page_bit(PageKey::of(relation, block));
        self.pages[word] & bit != 0
    }

    fn page_bit(&self, page: PageKey) -> (usize, u64) {
        let slot = (page.hash() >> 32) as usize & (self.entries.len() - 1);
        (slot / 64, 1 << (slot % 64))
    }

    /// A version, if a record has told it.
    pub fn of_record<'a>(&'a self, rows: &'a RecentRows, id: VersionId) -> Option<Version<'a>> {
        let entry = self.entries.get(self.find(id)?)?;
        if entry.at & KEPT == 0 {
            return Some(Version::whole(rows.get(entry.at)?.all_values()?));
        }
        let ([len, from, total], rest) = self.kept(*entry)?;
        Some(Version {
            bytes: rest.get(..len.into())?,
            from: from.into(),
            total: total.into(),
        })
    }

    /// Adds a row that was inserted.
    pub fn add(&mut self, id: VersionId, number: RowNumber) {
        self.enter(id, number);
    }

    /// Replaces the old version by the new one: `values`, and the known bytes of the prefix and
    /// the suffix that the update keeps.
    pub fn update(
        &mut self,
        rows: &RecentRows,
        (old, new): (VersionId, VersionId),
        kept: Kept,
        values: &[u8],
    ) {
        let Ok(total) = u16::try_from(kept.prefix + values.len() + kept.suffix) else {
            return;
        };
        let mut known = std::mem::take(&mut self.scratch);
        known.clear();
        known.extend_from_slice(&[0; HEAD_LEN]);
        let version = self.get(rows, old);
        let prefix = version.and_then(|old| old.bytes.get(..kept.prefix.checked_sub(old.from)?));
        known.extend_from_slice(prefix.unwrap_or_default());
        known.extend_from_slice(values);
        let suffix = version.and_then(|old| {
            old.bytes
                .get(old.total.checked_sub(kept.suffix + old.from)?..)
        });
        known.extend_from_slice(suffix.unwrap_or_default());
        known.truncate(HEAD_LEN + VERSION_KEPT);
        let from = kept.prefix - prefix.map_or(0, <[u8]>::len);
        let head = [(known.len() - HEAD_LEN) as u16, from as u16, total];
        for (chunk, field) in known.as_chunks_mut().0.iter_mut().zip(head) {
            *chunk = field.to_le_bytes();
        }
        let at = self.keep(old, &known);
        self.enter(new, KEPT | at);
        self.scratch = known;
    }

    /// Forgets the old version and keeps the new one. Returns its offset, which is that of the old
    /// one if both have the same length.
    fn keep(&mut self, old: VersionId, version: &[u8]) -> u32 {
        if let Some(slot) = self.find(old) {
            let entry = std::mem::take(&mut self.entries[slot]);
            let at = (entry.at ^ KEPT) as usize;
            let len = self.kept(entry).map(|([len, ..], _)| usize::from(len));
            let target = self.bytes.get_mut(at..at + version.len());
            if len == Some(version.len() - HEAD_LEN)
                && let Some(target) = target
            {
                target.copy_from_slice(version);
                return at as u32;
            }
        }
        if self.bytes.len() + version.len() > BYTES_KEPT {
            self.entries.fill(Entry::default());
            self.bytes.clear();
        }
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(version);
        at
    }

    /// The header of a kept version, and the bytes after it. `None` if the entry has none.
    fn kept(&self, entry: Entry) -> Option<([u16; 3], &[u8])> {
        let at = (entry.at & KEPT != 0).then_some(entry.at ^ KEPT)?;
        let (head, rest) = self
            .bytes
            .get(at as usize..)?
            .split_first_chunk::<HEAD_LEN>()?;
        let head = [0, 2, 4].map(|at| get_u16(head, at));
        Some((head, rest))
    }

    /// Enters a version into its first slot. Another version in this slot moves to its other slot.
    fn enter(&mut self, id: VersionId, at: u32) {
        let check = id.check;
        let (word, bit) = self.page_bit(id.page);
        self.pages[word] |= bit;
        let before = std::mem::replace(&mut self.entries[id.slot], Entry { check, at });
        if before.at != 0 && before.check != check {
            let other = self.other(id.slot);
            self.entries[other] = before;
        }
    }

    fn find(&self, id: VersionId) -> Option<usize> {
        let is_of = |slot: &usize| {
            let entry = self.entries[*slot];
            entry.check == id.check && entry.at != 0
        };
        [id.slot, self.other(id.slot)].into_iter().find(is_of)
    }

    fn other(&self, slot: usize) -> usize {
        slot ^ (self.entries.len() / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rows::recent::NewRow;

    const RELATION: u32 = 7;

    #[derive(Default)]
    struct Heap {
        rows: RecentRows,
        newest: RowNumber,
    }

    impl Heap {
        fn insert(&mut self, versions: &mut RowVersions, tid: Tid, values: &[u8]) {
            let row = NewRow {
                relation: RELATION,
                tid,
                values,
                missing: 0,
                is_whole: true,
                begins_record: true,
            };
            self.rows.add(&mut self.newest, row);
            versions.add(versions.id(RELATION, tid), self.newest);
        }

        fn update(
            &self,
            versions: &mut RowVersions,
            tids: (Tid, Tid),
            (prefix, values, suffix): (usize, &[u8], usize),
        ) {
            let ids = (versions.id(RELATION, tids.0), versions.id(RELATION, tids.1));
            versions.update(&self.rows, ids, Kept { prefix, suffix }, values);
        }

        fn get<'a>(&'a self, versions: &'a RowVersions, tid: Tid) -> Option<Version<'a>> {
            versions.get(&self.rows, versions.id(RELATION, tid))
        }
    }

    fn version(bytes: &[u8], from: usize, total: usize) -> Option<Version<'_>> {
        Some(Version { bytes, from, total })
    }

    #[test]
    fn knows_an_inserted_row_and_what_became_of_it() {
        let mut heap = Heap::default();
        let mut versions = RowVersions::new(1 << 20);
        heap.insert(&mut versions, (3, 1), b"one two three");
        assert_eq!(
            heap.get(&versions, (3, 1)),
            version(b"one two three", 0, 13)
        );
        heap.update(&mut versions, ((3, 1), (3, 2)), (4, b"2", 6));
        assert_eq!(heap.get(&versions, (3, 2)), version(b"one 2 three", 0, 11));
        assert_eq!(heap.get(&versions, (3, 1)), None);
        heap.update(&mut versions, ((3, 2), (9, 1)), (0, b"ONE", 8));
        assert_eq!(heap.get(&versions, (9, 1)), version(b"ONE 2 three", 0, 11));
        assert_eq!(heap.get(&versions, (3, 2)), None);
    }

    #[test]
    fn knows_what_updates_tell_of_a_row_that_it_does_not_know() {
        let heap = Heap::default();
        let mut versions = RowVersions::new(1 << 20);
        heap.update(&mut versions, ((0, 1), (0, 2)), (10, b"middle", 20));
        assert_eq!(heap.get(&versions, (0, 2)), version(b"middle", 10, 36));
        heap.update(&mut versions, ((0, 2), (0, 3)), (12, b"DD", 22));
        assert_eq!(heap.get(&versions, (0, 3)), version(b"miDDle", 10, 36));
        // The bytes between the two parts are unknown: the newer part is kept.
        heap.update(&mut versions, ((0, 3), (0, 4)), (2, b"x", 33));
        assert_eq!(heap.get(&versions, (0, 4)), version(b"x", 2, 36));
    }

    #[test]
    fn keeps_the_beginning_of_a_long_row_and_forgets_all_when_there_are_too_many() {
        let heap = Heap::default();
        let mut versions = RowVersions::new(1 << 24);
        let values = vec![b'x'; 5000];
        for number in 0..10_000 {
            heap.update(&mut versions, ((1, 1), (number, 2)), (0, &values, 0));
            let known = heap.get(&versions, (number, 2)).unwrap();
            assert_eq!((known.bytes.len(), known.total), (VERSION_KEPT, 5000));
            assert!(versions.bytes.len() <= BYTES_KEPT);
        }
        assert_eq!(heap.get(&versions, (0, 2)), None);
    }

    #[test]
    fn keeps_two_versions_of_one_slot() {
        let mut heap = Heap::default();
        let mut versions = RowVersions::new(0);
        let slot = |block| versions.id(RELATION, (block, 1)).slot;
        let same: Vec<u32> = (0..)
            .filter(|&block| slot(block) == slot(0))
            .take(3)
            .collect();
        for &block in &same {
            heap.insert(&mut versions, (block, 1), &block.to_le_bytes());
        }
        let is_known = |&block: &u32| heap.get(&versions, (block, 1)).is_some();
        assert_eq!(
            same.iter().map(is_known).collect::<Vec<_>>(),
            [false, true, true]
        );
    }
}
