//! Many bytes, collected a few at a time.

use std::ops::{Range, RangeInclusive};

/// Bytes of each part but the first.
const PART_LEN: usize = 64 * 1024;
/// The same where there are as many already: an allocator gives blocks of this length back to the
/// system when they are freed, whatever lies beside them.
const LONG_PART_LEN: usize = 4 << 20;
/// Bytes of the first part at most. Until then it is moved where it can grow, by these lengths
/// only: blocks of a few sizes leave few holes.
const FIRST_PART_LENS: RangeInclusive<usize> = 64..=PART_LEN / 2;
const GROWTH: usize = 4;

/// Bytes in parts: a single long buffer that grows would be copied again and again, and would
/// for a moment take three times its length.
#[derive(Debug, Default)]
pub struct Parts {
    full: Vec<Vec<u8>>,
    full_len: usize,
    last: Vec<u8>,
}

impl Parts {
    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.full_len + self.last.len()
    }

    /// Appends bytes, which will stand in one part.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        if self.last.capacity() - self.last.len() < bytes.len() {
            self.make_room(bytes.len());
        }
        self.last.extend_from_slice(bytes);
    }

    #[cold]
    fn make_room(&mut self, len: usize) {
        if self.last.capacity() < *FIRST_PART_LENS.end() {
            let wanted = self.last.capacity() * GROWTH;
            let wanted = wanted.clamp(*FIRST_PART_LENS.start(), *FIRST_PART_LENS.end());
            return self.last.reserve_exact(len.max(wanted - self.last.len()));
        }
        let part_len = match self.full_len {
            0..LONG_PART_LEN => PART_LEN,
            _ => LONG_PART_LEN,
        };
        let part = std::mem::replace(&mut self.last, Vec::with_capacity(len.max(part_len)));
        self.full_len += part.len();
        self.full.push(part);
    }

    /// The parts, in their order.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            full: self.full.iter(),
            last: &self.last,
        }
    }

    /// All bytes in one piece. Where they are in more, they are put together in `scratch`.
    pub fn whole<'p>(&'p self, scratch: &'p mut Vec<u8>) -> &'p [u8] {
        if self.full.is_empty() {
            return &self.last;
        }
        scratch.clear();
        self.copy(0..self.len(), scratch);
        scratch
    }

    /// Whether these are the bytes.
    pub fn is(&self, bytes: &[u8]) -> bool {
        let mut left = Some(bytes);
        for part in self.iter() {
            left = left.and_then(|left| left.strip_prefix(part));
        }
        left.is_some_and(<[u8]>::is_empty)
    }

    /// Appends a range of the bytes to `out`.
    pub fn copy(&self, range: Range<usize>, out: &mut Vec<u8>) {
        let mut start = 0;
        for part in self.iter() {
            let end = start + part.len();
            if range.start < end && start < range.end {
                let within = range.start.max(start) - start..range.end.min(end) - start;
                out.extend_from_slice(&part[within]);
            }
            start = end;
        }
    }
}

/// Parts that are yet to be taken.
#[derive(Debug, Default)]
pub struct Iter<'p> {
    full: std::slice::Iter<'p, Vec<u8>>,
    last: &'p [u8],
}

impl Iter<'_> {
    /// No byte is left.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty() && self.full.as_slice().iter().all(Vec::is_empty)
    }
}

impl<'p> Iterator for Iter<'p> {
    type Item = &'p [u8];

    fn next(&mut self) -> Option<&'p [u8]> {
        match self.full.next() {
            Some(part) => Some(part),
            None if self.last.is_empty() => None,
            None => Some(std::mem::take(&mut self.last)),
        }
    }
}

impl From<Vec<u8>> for Parts {
    fn from(bytes: Vec<u8>) -> Parts {
        Parts {
            last: bytes,
            ..Parts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_bytes_in_their_order() {
        let mut parts = Parts::default();
        let mut expected = Vec::new();
        for number in 0..100_000u32 {
            let bytes = number.to_le_bytes();
            let bytes = &bytes[..1 + number as usize % 4];
            parts.push(bytes);
            expected.extend_from_slice(bytes);
        }
        let long = vec![7; 3 * PART_LEN];
        parts.push(&long);
        parts.push(b"behind");
        expected.extend_from_slice(&long);
        expected.extend_from_slice(b"behind");
        assert!(parts.iter().count() > 2);
        assert_eq!(parts.len(), expected.len());
        let mut range = Vec::new();
        parts.copy(PART_LEN - 7..3 * PART_LEN, &mut range);
        assert_eq!(range, expected[PART_LEN - 7..3 * PART_LEN]);
        let mut whole = Vec::new();
        parts.copy(0..parts.len(), &mut whole);
        assert_eq!(whole, expected);
        assert_eq!(parts.whole(&mut Vec::new()), expected);
        assert!(parts.is(&expected));
        assert!(!parts.is(&expected[1..]));
        expected.push(0);
        assert!(!parts.is(&expected));
    }
}
