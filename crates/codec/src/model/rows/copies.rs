//! A new version of a row as copies of parts of the old one, and bytes of its own.

use super::versions::Version;
use crate::fast_hash::fold;

/// Maximum number of copies of one row.
const COPIES_MAX: usize = 255;
/// Minimum length of a copy, in bytes (encoder only).
const COPY_MIN: usize = 16;
/// The encoder enters the words at multiples of this offset of the old version into its table.
const FOUND_EACH: usize = 4;
/// Length of a word, in bytes.
const FOUND_BY: usize = 8;
/// Binary logarithm of the number of slots of the table.
const OFFSETS_LOG: u32 = 9;
/// After this number of bytes without a copy the encoder looks up every second offset; after
/// twice this number, every third; and so on.
const IN_VAIN: usize = 64;

/// A part of the new version that is copied from the old one, and the own bytes before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCopy {
    /// Number of own bytes before the copy.
    pub own: u16,
    /// Length of the copy, in bytes.
    pub len: u16,
    /// The copy's offset in the old values, less the expected one: the end of the copy before
    /// plus `own`.
    pub shift: u16,
}

/// Length of all copies together.
pub fn copied_len(copies: &[RowCopy]) -> usize {
    copies.iter().map(|copy| usize::from(copy.len)).sum()
}

/// Finds the parts of `values` that the old version has. `prefix` is the number of bytes that the
/// update keeps before `values`. Returns `false` if the copies are less than half of `values`.
pub fn find_copies(
    copies: &mut Vec<RowCopy>,
    values: &[u8],
    old: Version<'_>,
    prefix: usize,
) -> bool {
    copies.clear();
    if values.len() < COPY_MIN || values.len() > u16::MAX.into() {
        return false;
    }
    let offsets = WordOffsets::of(old.bytes);
    let mut expected = prefix as u16;
    let mut done = 0;
    let mut at = 0;
    while let Some(word) = word_at(values, at) {
        let found = offsets.find(old.bytes, word);
        let copy = found.map(|source| longest((values, at), done, (old.bytes, source)));
        match copy {
            Some((start, source, len)) if len >= COPY_MIN => {
                let (own, len) = ((start - done) as u16, len as u16);
                let source = (old.from + source) as u16;
                let shift = source.wrapping_sub(expected.wrapping_add(own));
                copies.push(RowCopy { own, len, shift });
                expected = source.wrapping_add(len);
                done = start + usize::from(len);
                at = done;
                if copies.len() == COPIES_MAX {
                    break;
                }
            }
            _ => at += 1 + (at - done) / IN_VAIN,
        }
    }
    !copies.is_empty() && 2 * copied_len(copies) >= values.len()
}

/// The longest copy around `new_at` and `old_at`: its start in `new`, which is not before `done`,
/// its start in `old`, and its length.
fn longest(
    (new, new_at): (&[u8], usize),
    done: usize,
    (old, old_at): (&[u8], usize),
) -> (usize, usize, usize) {
    let new_back = new[done..new_at].iter().rev();
    let back = same(new_back.zip(old[..old_at].iter().rev()));
    let ahead = same(new[new_at..].iter().zip(&old[old_at..]));
    (new_at - back, old_at - back, back + ahead)
}

fn same<'a>(pairs: impl Iterator<Item = (&'a u8, &'a u8)>) -> usize {
    pairs.take_while(|(new, old)| new == old).count()
}

/// Appends the bytes of `values` outside the copies to `own`.
pub fn take_own(own: &mut Vec<u8>, values: &[u8], copies: &[RowCopy]) {
    let mut at = 0;
    for copy in copies {
        let end = at + usize::from(copy.own);
        own.extend_from_slice(&values[at..end]);
        at = end + usize::from(copy.len);
    }
    own.extend_from_slice(&values[at..]);
}

/// The reverse of [`take_own`]. `None` if the copies do not fit `values`, or the old version's
/// bytes are unknown.
pub fn put_together(
    mut values: &mut [u8],
    mut own: &[u8],
    copies: &[RowCopy],
    old: Version<'_>,
    prefix: usize,
) -> Option<()> {
    let mut expected = prefix as u16;
    for copy in copies {
        let (bytes, own_rest) = own.split_at_checked(copy.own.into())?;
        let (target, rest) = values.split_at_mut_checked(copy.own.into())?;
        target.copy_from_slice(bytes);
        let (target, rest) = rest.split_at_mut_checked(copy.len.into())?;
        let source = expected.wrapping_add(copy.own).wrapping_add(copy.shift);
        let at = usize::from(source).checked_sub(old.from)?;
        target.copy_from_slice(old.bytes.get(at..at + target.len())?);
        expected = source.wrapping_add(copy.len);
        (own, values) = (own_rest, rest);
    }
    (own.len() == values.len()).then(|| values.copy_from_slice(own))
}

/// A hash table of words of the old version: the offset of the last word of each slot.
struct WordOffsets([u16; 1 << OFFSETS_LOG]);

impl WordOffsets {
    fn of(old: &[u8]) -> WordOffsets {
        let mut offsets = WordOffsets([0; 1 << OFFSETS_LOG]);
        for at in (0..old.len()).step_by(FOUND_EACH) {
            if let Some(word) = word_at(old, at) {
                offsets.0[WordOffsets::slot(word)] = at as u16;
            }
        }
        offsets
    }

    fn find(&self, old: &[u8], word: u64) -> Option<usize> {
        let at = usize::from(self.0[WordOffsets::slot(word)]);
        (word_at(old, at) == Some(word)).then_some(at)
    }

    fn slot(word: u64) -> usize {
        (fold(word) >> (u64::BITS - OFFSETS_LOG)) as usize
    }
}

#[inline]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk::<FOUND_BY>()?;
    Some(u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn version(bytes: &[u8], from: usize) -> Version<'_> {
        Version {
            bytes,
            from,
            total: from + bytes.len(),
        }
    }

    fn copy(own: u16, len: u16, shift: i16) -> RowCopy {
        RowCopy {
            own,
            len,
            shift: shift as u16,
        }
    }

    #[test]
    fn a_text_between_changed_ones_is_copied() {
        let old = version(
            b"new|a payload that stays|2026-11-22|another text of it|x",
            4,
        );
        let new = b"running|a payload that stays|2026-12-01 12:00|another text of it|done";
        let mut copies = Vec::new();
        assert!(find_copies(&mut copies, new, old, 4));
        // The longer status shifts the bytes after it by 4, the time by 6 more.
        assert_eq!(copies, [copy(7, 28, -4), copy(10, 20, -6)]);
    }

    #[test]
    fn what_has_little_in_common_is_not_copied() {
        let old = version(b"0123456789abcdef, and nothing else", 0);
        let mut copies = Vec::new();
        let new = |len| [b"0123456789abcdef".as_slice(), &vec![b'x'; len]].concat();
        assert!(find_copies(&mut copies, &new(16), old, 0));
        assert!(!find_copies(&mut copies, &new(17), old, 0));
        assert!(!find_copies(&mut copies, b"", old, 0));
        assert!(!find_copies(&mut copies, &new(16), version(b"", 0), 0));
    }

    #[test]
    fn copies_of_what_is_not_known_are_refused() {
        let old = version(b"abcdef", 10);
        let put = |copies: &[RowCopy], own: &[u8]| {
            let mut values = [0; 4];
            put_together(&mut values, own, copies, old, 12).map(|()| values)
        };
        assert_eq!(put(&[copy(1, 2, 0)], b"xy"), Some(*b"xdey"));
        assert_eq!(put(&[copy(0, 4, 0)], b""), Some(*b"cdef"));
        assert_eq!(put(&[copy(0, 4, 1)], b""), None);
        assert_eq!(put(&[copy(0, 4, -3)], b""), None);
        assert_eq!(put(&[copy(0, 5, -2)], b""), None);
        assert_eq!(put(&[copy(3, 2, 0)], b"xyz"), None);
        assert_eq!(put(&[copy(1, 2, 0)], b"x"), None);
        assert_eq!(put(&[copy(1, 2, 0)], b"xyz"), None);
    }

    proptest! {
        #[test]
        fn copies_and_own_bytes_make_the_values(
            old in proptest::collection::vec(0..3u8, 0..200),
            cuts in proptest::collection::vec((0..200usize, 0..100usize), 0..8),
            from in 0..60usize,
            prefix in 0..100usize,
        ) {
            let mut new = Vec::new();
            for (at, len) in cuts {
                new.extend(old.iter().skip(at).take(len));
                new.push(at as u8);
            }
            let old = version(&old, from);
            let mut copies = Vec::new();
            if find_copies(&mut copies, &new, old, prefix) {
                let mut own = Vec::new();
                take_own(&mut own, &new, &copies);
                prop_assert_eq!(own.len() + copied_len(&copies), new.len());
                let mut values = vec![0; new.len()];
                prop_assert!(put_together(&mut values, &own, &copies, old, prefix).is_some());
                prop_assert_eq!(values, new);
            }
        }
    }
}
