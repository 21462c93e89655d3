//! The rows that stand on page images. Right after a checkpoint no record has the old version of a
//! row that is updated: an image has it.
//!
//! Those of the newest images are kept. Rows are found by their page: it has one slot of a table,
//! and its rows stand one after the other. The table may forget a page or confuse two, which costs
//! bytes and never correctness: the encoder and the decoder have the same table.

use walzip_pgformat::PAGE_SIZE;

use crate::fast_hash::fold;

/// Number of bytes of rows from which on no page is added to a half. The older half is dropped then.
const HALF_LEN: usize = 1 << 21;
/// From this number of bytes on there is room for all, so that what grows is not copied again.
const GROWN_LEN: usize = 1 << 17;
/// Number of rows, likewise: rows may be empty.
const HALF_ROWS: usize = 1 << 16;
/// The table has one slot for this number of bytes of the segment.
const SLOT_FOR: usize = 1 << 12;
const SLOTS_MIN: usize = 1 << 6;
const SLOTS_MAX: usize = 1 << 14;

/// The key of a page: a hash of its relation and block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageKey(u64);

impl PageKey {
    /// The page of a relation with this block number.
    pub fn of(relation: u32, block: u32) -> PageKey {
        PageKey(fold(u64::from(relation) << 32 | u64::from(block)))
    }

    /// The hash.
    pub fn hash(self) -> u64 {
        self.0
    }
}

/// The number of an image, counted from 1.
type ImageNumber = u32;

/// A slot of the table. It is empty if `image` is 0.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    check: u32,
    image: ImageNumber,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    line_pointer: u16,
    len: u16,
    /// Offset in the half's bytes.
    start: u32,
}

/// The rows of some images, one after the other.
#[derive(Debug, Default)]
struct Half {
    /// Number of the images before its first one.
    before: ImageNumber,
    /// For each image, the index of its first row.
    images: Vec<u32>,
    rows: Vec<Row>,
    bytes: Vec<u8>,
}

impl Half {
    fn is_full(&self) -> bool {
        self.bytes.len() >= HALF_LEN
            || self.rows.len() >= HALF_ROWS
            || self.images.len() >= HALF_ROWS
    }

    fn append(&mut self, values: &[u8]) {
        let bytes = &mut self.bytes;
        if bytes.len() >= GROWN_LEN && bytes.capacity() < HALF_LEN {
            bytes.reserve_exact(HALF_LEN + PAGE_SIZE - bytes.len());
        }
        bytes.extend_from_slice(values);
    }

    fn rows_of(&self, image: ImageNumber) -> Option<&[Row]> {
        let index = image.checked_sub(self.before)?.checked_sub(1)? as usize;
        let start = *self.images.get(index)? as usize;
        let end = self
            .images
            .get(index + 1)
            .map_or(self.rows.len(), |&end| end as usize);
        self.rows.get(start..end)
    }

    fn row(&self, image: ImageNumber, line_pointer: u16) -> Option<&[u8]> {
        let rows = self.rows_of(image)?;
        let is_it = |row: &&Row| row.line_pointer == line_pointer;
        // Line pointers ascend, and most pages have a row for each.
        let guess = usize::from(line_pointer.checked_sub(1)?);
        let row = rows.get(guess).filter(is_it).or_else(|| {
            let found = rows.binary_search_by_key(&line_pointer, |row| row.line_pointer);
            rows.get(found.ok()?)
        })?;
        let start = row.start as usize;
        self.bytes.get(start..start + usize::from(row.len))
    }
}

/// The rows of the newest images.
#[derive(Debug)]
pub struct ImageRows {
    slots: Vec<Slot>,
    newer: Half,
    older: Half,
    /// The image before of the page whose image is added.
    earlier: ImageNumber,
    /// For each line pointer of that page, the one of the row that points to it, 0 if none does.
    pointed_from: Vec<u16>,
}

impl ImageRows {
    /// For a segment of this length.
    pub fn new(segment_len: usize) -> ImageRows {
        let slots = (segment_len / SLOT_FOR).clamp(SLOTS_MIN, SLOTS_MAX);
        ImageRows {
            slots: vec![Slot::default(); slots.next_power_of_two()],
            newer: Half::default(),
            older: Half::default(),
            earlier: 0,
            pointed_from: Vec::new(),
        }
    }

    /// The values of a row, if an image with it is kept.
    pub fn get(&self, page: PageKey, line_pointer: u16) -> Option<&[u8]> {
        let slot = self.slots.get(self.slot(page))?;
        let image = (slot.check == page.0 as u32).then_some(slot.image)?;
        self.row(image, line_pointer)
    }

    fn row(&self, image: ImageNumber, line_pointer: u16) -> Option<&[u8]> {
        match image > self.newer.before {
            true => self.newer.row(image, line_pointer),
            false => self.older.row(image, line_pointer),
        }
    }

    /// Begins an image of a page with `count` line pointers.
    pub fn begin(&mut self, page: PageKey, count: usize) {
        if self.newer.is_full() {
            std::mem::swap(&mut self.newer, &mut self.older);
            self.newer.before = self.older.before + self.older.images.len() as u32;
            self.newer.images.clear();
            self.newer.rows.clear();
            self.newer.bytes.clear();
        }
        self.newer.images.push(self.newer.rows.len() as u32);
        let image = self.newer.before + self.newer.images.len() as u32;
        let check = page.0 as u32;
        let at = self.slot(page);
        let before = std::mem::replace(&mut self.slots[at], Slot { check, image });
        self.earlier = if before.check == check {
            before.image
        } else {
            0
        };
        self.pointed_from.clear();
        self.pointed_from.resize(count + 1, 0);
    }

    /// The row that an earlier image of the page has in the same place.
    pub fn earlier(&self, line_pointer: u16) -> Option<&[u8]> {
        match self.earlier {
            0 => None,
            image => self.row(image, line_pointer),
        }
    }

    /// The row of the page that points to this place as that of its newer version.
    pub fn pointing_to(&self, line_pointer: u16) -> Option<&[u8]> {
        match *self.pointed_from.get(usize::from(line_pointer))? {
            0 => None,
            other => self.on_page(other),
        }
    }

    /// A row of the page that was added already.
    pub fn on_page(&self, line_pointer: u16) -> Option<&[u8]> {
        let image = self.newer.before + self.newer.images.len() as u32;
        self.newer.row(image, line_pointer)
    }

    /// Adds the page's next row. `next` is the place on this page to which it points.
    pub fn add(&mut self, line_pointer: u16, values: &[u8], next: Option<u16>) {
        self.newer.rows.push(Row {
            line_pointer,
            len: values.len() as u16,
            start: self.newer.bytes.len() as u32,
        });
        self.newer.append(values);
        if let Some(place) = next.and_then(|next| self.pointed_from.get_mut(usize::from(next))) {
            *place = line_pointer;
        }
    }

    fn slot(&self, page: PageKey) -> usize {
        (page.0 >> 32) as usize & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u32 = 5;

    /// A line pointer, the values of its row, and the line pointer to which that points.
    type Added<'a> = (u16, &'a [u8], Option<u16>);

    fn rows_with(images: &[&[Added<'_>]]) -> ImageRows {
        let mut rows = ImageRows::new(1 << 20);
        for image in images {
            rows.begin(PageKey::of(1, PAGE), 4);
            for (line_pointer, values, next) in *image {
                rows.add(*line_pointer, values, *next);
            }
        }
        rows
    }

    #[test]
    fn a_row_is_found_by_its_page_and_line_pointer() {
        let rows = rows_with(&[&[(1, b"one", None), (3, b"three", None), (4, b"", None)]]);
        let get = |block, line_pointer| rows.get(PageKey::of(1, block), line_pointer);
        assert_eq!(get(PAGE, 1), Some(&b"one"[..]));
        assert_eq!(get(PAGE, 3), Some(&b"three"[..]));
        assert_eq!(get(PAGE, 4), Some(&b""[..]));
        for line_pointer in [0, 2, 5, u16::MAX] {
            assert_eq!(get(PAGE, line_pointer), None);
        }
        assert_eq!(get(PAGE + 1, 1), None);
    }

    #[test]
    fn the_rows_of_the_image_before_and_the_older_versions_on_the_page_are_known() {
        let rows = rows_with(&[
            &[(1, b"before", None)],
            &[(1, b"older", Some(3)), (2, b"lost", Some(9))],
        ]);
        assert_eq!(rows.earlier(1), Some(&b"before"[..]));
        assert_eq!(rows.earlier(2), None);
        assert_eq!(rows.pointing_to(3), Some(&b"older"[..]));
        assert_eq!(rows.pointing_to(2), None);
        assert_eq!(rows.pointing_to(9), None);
        assert_eq!(rows.on_page(2), Some(&b"lost"[..]));
        assert_eq!(rows.on_page(0), None);
    }

    #[test]
    fn what_is_kept_is_bounded_whatever_the_rows_are() {
        for len in [0, 1, 8000] {
            let mut rows = ImageRows::new(1 << 30);
            let values = vec![7; len];
            for block in 0..3 * HALF_ROWS as u32 {
                rows.begin(PageKey::of(1, block), 2);
                rows.add(1, &values, Some(2));
                assert_eq!(rows.get(PageKey::of(1, block), 1), Some(&values[..]));
                for half in [&rows.newer, &rows.older] {
                    assert!(half.bytes.capacity() <= HALF_LEN + PAGE_SIZE);
                    assert!(half.images.len() <= HALF_ROWS);
                }
            }
            assert_eq!(rows.get(PageKey::of(1, 0), 1), None);
        }
    }
}
