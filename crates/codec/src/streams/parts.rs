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
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.full
            .iter()
            .chain(std::iter::once(&self.last))
            .map(Vec::as_slice)
    }

    /// Puts all bytes into one part.
    pub fn join(&mut self) {
        if self.full.is_empty() {
            return;
        }
        let mut joined = Vec::with_capacity(self.len());
        for part in self.full.drain(..) {
            joined.extend_from_slice(&part);
        }
        joined.extend_from_slice(&self.last);
        self.full_len = 0;
        self.last = joined;
    }

    /// All bytes, where these are in one part.
    pub fn joined(&self) -> &[u8] {
        debug_assert!(self.full.is_empty());
        &self.last
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
        parts.join();
        assert_eq!(parts.joined(), expected);
        assert_eq!(parts.len(), expected.len());
    }
}
