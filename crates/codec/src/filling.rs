//! A stream being filled.

use crate::stream_kind::StreamKind;

/// Bytes of a part from which on the next one is begun. Until then the part is moved where it
/// can grow.
const PART_LEN: usize = 128 * 1024;

/// A stream of the encoder. Its bytes stand in parts: a single long buffer that grows would be
/// copied again and again, and would for a moment take three times its length.
#[derive(Debug)]
pub struct Filling {
    /// What it holds.
    pub kind: StreamKind,
    /// Bytes of a row.
    pub width: usize,
    full: Vec<Vec<u8>>,
    full_len: usize,
    last: Vec<u8>,
}

impl Filling {
    /// Without any bytes.
    pub fn new(kind: StreamKind, width: usize) -> Filling {
        Filling {
            kind,
            width,
            full: Vec::new(),
            full_len: 0,
            last: Vec::new(),
        }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.full_len + self.last.len()
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        if self.last.capacity() - self.last.len() < bytes.len() {
            self.make_room(bytes.len());
        }
        self.last.extend_from_slice(bytes);
    }

    #[cold]
    fn make_room(&mut self, len: usize) {
        if self.last.len() < PART_LEN {
            return self.last.reserve(len);
        }
        let part = std::mem::replace(&mut self.last, Vec::with_capacity(len.max(PART_LEN)));
        self.full_len += part.len();
        self.full.push(part);
    }

    /// The parts, in their order.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.full
            .iter()
            .chain(std::iter::once(&self.last))
            .map(Vec::as_slice)
    }

    /// All bytes in one piece; where they are not, they are put together in `scratch`.
    pub fn whole<'a>(&'a self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if self.full.is_empty() {
            return &self.last;
        }
        scratch.clear();
        self.parts()
            .for_each(|part| scratch.extend_from_slice(part));
        scratch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_bytes_in_their_order() {
        let mut filling = Filling::new(StreamKind::Text, 3);
        let mut expected = Vec::new();
        for number in 0..100_000u32 {
            let bytes = number.to_le_bytes();
            let bytes = &bytes[..1 + number as usize % 4];
            filling.push(bytes);
            expected.extend_from_slice(bytes);
        }
        let long = vec![7; 3 * PART_LEN];
        filling.push(&long);
        filling.push(b"behind");
        expected.extend_from_slice(&long);
        expected.extend_from_slice(b"behind");
        assert!(filling.parts().count() > 2);
        assert_eq!(filling.len(), expected.len());
        assert_eq!(filling.whole(&mut Vec::new()), expected);
    }
}
