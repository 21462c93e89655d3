//! Where two copies of a segment differ first.

use std::io::{self, Read, Write};
use std::ops::Range;

use walzip_pgformat::PAGE_SIZE;

/// Where a page header has the timeline (`xlp_tli`).
const PAGE_TIMELINE: Range<usize> = 4..8;

/// Compares what is written to it with what a reader gives, up to an end. The timelines in page headers do not count.
pub(crate) struct Difference<R> {
    reader: R,
    expected: Vec<u8>,
    offset: usize,
    end: usize,
    /// The first byte that is another one.
    pub(crate) first: Option<usize>,
}

impl<R: Read> Difference<R> {
    pub(crate) fn new(reader: R, end: usize) -> Difference<R> {
        Difference {
            reader,
            expected: Vec::new(),
            offset: 0,
            end,
            first: None,
        }
    }
}

impl<R: Read> Write for Difference<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let compared = bytes.len().min(self.end - self.offset);
        if compared > 0 && self.first.is_none() {
            self.expected.clear();
            let mut expected = (&mut self.reader).take(compared as u64);
            expected.read_to_end(&mut self.expected)?;
            self.first = first_difference(self.offset, &self.expected, bytes);
        }
        self.offset += compared;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The offset of the first byte that differs, of bytes from this offset on that both have.
pub(crate) fn first_difference(offset: usize, one: &[u8], other: &[u8]) -> Option<usize> {
    let mut pairs = one.iter().zip(other).enumerate();
    let differs = |at: usize| !PAGE_TIMELINE.contains(&((offset + at) % PAGE_SIZE));
    let found = pairs.find(|(at, (one, other))| one != other && differs(*at));
    found.map(|(at, _)| offset + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timelines_in_page_headers_do_not_count() {
        let parent = vec![7; 3 * PAGE_SIZE];
        let mut child = parent.clone();
        child[PAGE_SIZE + 4..PAGE_SIZE + 8].fill(2);
        let found = |child: &[u8], end| {
            let mut difference = Difference::new(&parent[..], end);
            for part in child.chunks(1000) {
                difference.write_all(part).expect("written");
            }
            difference.first
        };
        assert_eq!(found(&child, child.len()), None);
        child[PAGE_SIZE + 8] = 2;
        assert_eq!(found(&child, child.len()), Some(PAGE_SIZE + 8));
        assert_eq!(found(&child, PAGE_SIZE + 8), None);
        child[2 * PAGE_SIZE + 3] = 2;
        assert_eq!(found(&child, PAGE_SIZE + 9), Some(PAGE_SIZE + 8));
    }
}
