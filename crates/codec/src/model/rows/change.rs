//! The body of an updated tuple, made of what is known of the row's old version.

use super::copies::{RowCopy, copied_len, find_copies, put_together, take_own};
use super::versions::{Kept, Version};
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;
use crate::streams::rows_by_len::RowsByLen;

/// The old version is of no use.
const NONE: u8 = 0;
/// Each byte minus the one that it replaces.
const DIFFERENCE: u8 = 1;
/// Parts of the old version, and bytes of its own.
const COPIES: u8 = 2;

/// What a body has to do with the row's old version.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Bytes of the body in front of the values.
    pub before: usize,
    /// The old version.
    pub old: Version<'a>,
    /// What of it is not in the body.
    pub kept: Kept,
}

/// Memory to work with.
#[derive(Debug, Default)]
pub struct ChangeScratch {
    copies: Vec<RowCopy>,
    bytes: Vec<u8>,
}

/// The streams of the changes of one relation.
#[derive(Debug, Default)]
pub struct ChangeStreams {
    mode: LazyStream,
    count: LazyStream,
    copy: [LazyStream; 3],
    own: RowsByLen,
    differences: RowsByLen,
}

impl ChangeStreams {
    /// Codes a body, or that the old version is of no use: `false`.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        scratch: &mut ChangeScratch,
        body: &mut [u8],
        change: Change<'_>,
    ) -> bool {
        let before = change.before.min(body.len());
        let change = Change { before, ..change };
        let replaced = change.replaced(body.len() - before);
        let mut mode = NONE;
        if C::ENCODING && coder.choices().uses(OptionalModel::RowVersions) {
            let values = &body[before..];
            let Change { old, kept, .. } = change;
            mode = match replaced {
                Some(replaced) if replaced.is_like(values) => DIFFERENCE,
                _ if find_copies(&mut scratch.copies, values, old, kept.prefix) => COPIES,
                _ => NONE,
            };
        }
        let stream = self.mode.open(coder, StreamKind::ModelFlag, 1);
        match (coder.u8(stream, mode), replaced) {
            (NONE, _) => return false,
            (DIFFERENCE, Some(replaced)) => {
                self.code_difference(coder, scratch, body, (before, replaced));
            }
            (COPIES, _) => self.code_copies(coder, scratch, body, change),
            _ => coder.fail(),
        }
        true
    }

    fn code_difference<C: Coder>(
        &mut self,
        coder: &mut C,
        scratch: &mut ChangeScratch,
        body: &mut [u8],
        (before, replaced): (usize, Replaced<'_>),
    ) {
        let start = before + replaced.at;
        let place = start..start + replaced.bytes.len();
        let bytes = &mut scratch.bytes;
        bytes.clear();
        bytes.extend_from_slice(body);
        if C::ENCODING {
            let pairs = bytes[place.clone()].iter_mut().zip(replaced.bytes);
            pairs.for_each(|(byte, old)| *byte = byte.wrapping_sub(*old));
        }
        self.differences.code(coder, StreamKind::HeapPart, bytes);
        if !C::ENCODING {
            let pairs = bytes[place].iter_mut().zip(replaced.bytes);
            pairs.for_each(|(byte, old)| *byte = byte.wrapping_add(*old));
            body.copy_from_slice(bytes);
        }
    }

    fn code_copies<C: Coder>(
        &mut self,
        coder: &mut C,
        scratch: &mut ChangeScratch,
        body: &mut [u8],
        Change { before, old, kept }: Change<'_>,
    ) {
        let ChangeScratch { copies, bytes } = scratch;
        let stream = self.count.open(coder, StreamKind::ModelFlag, 1);
        let count = coder.u8(stream, copies.len() as u8);
        copies.resize(count.into(), RowCopy::default());
        for copy in copies.iter_mut() {
            self.code_copy(coder, copy);
        }
        let Some(own_len) = body.len().checked_sub(copied_len(copies)) else {
            return coder.fail();
        };
        bytes.clear();
        if C::ENCODING {
            bytes.extend_from_slice(&body[..before]);
            take_own(bytes, &body[before..], copies);
        } else {
            bytes.resize(own_len, 0);
        }
        self.own.code(coder, StreamKind::HeapPart, bytes);
        if C::ENCODING {
            return;
        }
        let Some((front, own)) = bytes.split_at_checked(before) else {
            return coder.fail();
        };
        let (place, values) = body.split_at_mut(before);
        place.copy_from_slice(front);
        if put_together(values, own, copies, old, kept.prefix).is_none() {
            coder.fail();
        }
    }

    fn code_copy<C: Coder>(&mut self, coder: &mut C, copy: &mut RowCopy) {
        let [own, len, shift] = &mut self.copy;
        let stream = own.open(coder, StreamKind::TupleLen, 2);
        copy.own = coder.u16(stream, copy.own);
        let stream = len.open(coder, StreamKind::TupleLen, 2);
        copy.len = coder.u16(stream, copy.len);
        let stream = shift.open(coder, StreamKind::TupleLen, 2);
        copy.shift = coder.u16(stream, copy.shift);
    }
}

/// The known bytes that an update replaces by as many.
#[derive(Clone, Copy, Debug)]
struct Replaced<'a> {
    /// Where they begin in what replaces them.
    at: usize,
    bytes: &'a [u8],
}

impl Replaced<'_> {
    /// At least half of the values' bytes are as they were.
    fn is_like(&self, values: &[u8]) -> bool {
        let pairs = values[self.at..].iter().zip(self.bytes);
        let same = pairs.filter(|(new, old)| new == old).count();
        same > 0 && 2 * same >= values.len()
    }
}

impl<'a> Change<'a> {
    /// What is known of the bytes that `len` values replace: `None` where they are not as many.
    fn replaced(&self, len: usize) -> Option<Replaced<'a>> {
        let Change { old, kept, .. } = self;
        if old.total != kept.prefix + len + kept.suffix {
            return None;
        }
        let start = kept.prefix.max(old.from);
        let end = (kept.prefix + len).min(old.from + old.bytes.len());
        let known = start - old.from..end.checked_sub(old.from)?;
        Some(Replaced {
            at: start - kept.prefix,
            bytes: old.bytes.get(known)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_version::FormatVersion;
    use crate::streams::{StreamReader, StreamWriter};

    /// Codes bodies with two bytes in front of the values, and checks that they come back. Returns
    /// for which the old version is of use, and how many bytes the streams have.
    fn coded(old: Version<'_>, kept: Kept, bodies: &[&[u8]]) -> (Vec<bool>, usize) {
        let change = Change {
            before: 2,
            old,
            kept,
        };
        let mut coder = StreamWriter::default();
        let (mut streams, mut scratch) = (ChangeStreams::default(), ChangeScratch::default());
        let mut code =
            |body: &&[u8]| streams.code(&mut coder, &mut scratch, &mut body.to_vec(), change);
        let coded: Vec<bool> = bodies.iter().map(&mut code).collect();
        let len = coder.total_len();
        let mut coder =
            StreamReader::of_content(coder.into_content().bytes, FormatVersion::CURRENT).unwrap();
        let (mut streams, mut scratch) = (ChangeStreams::default(), ChangeScratch::default());
        for (body, coded) in bodies.iter().zip(&coded) {
            let mut decoded = vec![0; body.len()];
            assert_eq!(
                streams.code(&mut coder, &mut scratch, &mut decoded, change),
                *coded
            );
            assert!(!coded || decoded == *body);
        }
        assert!(coder.exhausted() && !coder.failed());
        (coded, len)
    }

    const OLD: &[u8] = b"12345, a name that stays, and 67890";

    fn old(from: usize) -> Version<'static> {
        Version {
            bytes: &OLD[from..],
            from,
            total: OLD.len(),
        }
    }

    fn body(values: &[u8]) -> Vec<u8> {
        [b"\x03\0", values].concat()
    }

    #[test]
    fn as_many_bytes_are_differences_where_half_of_them_stay() {
        let kept = Kept {
            prefix: 3,
            suffix: 1,
        };
        let like = body(b"55, a name that stays, and 6799");
        let unlike = body(b"..............................!");
        assert_eq!(coded(old(0), kept, &[&like, &unlike]).0, [true, false]);
        // Of a version that is known from the name on; and from its last byte on.
        assert_eq!(coded(old(7), kept, &[&like, &unlike]).0, [true, false]);
        assert_eq!(coded(old(34), kept, &[&like, &unlike]).0, [false, false]);
    }

    #[test]
    fn more_or_less_bytes_are_copies() {
        let kept = Kept::default();
        let longer = body(b"1234567, a name that stays, and 67");
        let shorter = body(b"a name that stays");
        let other = body(b"another one that is as long as this");
        let bodies: [&[u8]; 3] = [&longer, &shorter, &other];
        let (of_use, len) = coded(old(0), kept, &bodies);
        assert_eq!(of_use, [true, true, false]);
        assert!(len < longer.len() + shorter.len(), "{len}");
    }

    #[test]
    fn bodies_shorter_than_what_is_in_front_of_values_come_back() {
        let kept = Kept {
            prefix: OLD.len(),
            suffix: 0,
        };
        assert_eq!(
            coded(old(0), kept, &[b"\x03", b"", b"\x03\0"]).0,
            [false; 3]
        );
    }

    #[test]
    fn a_difference_from_what_is_not_as_long_fails() {
        for mode in [DIFFERENCE, 3] {
            let mut coder = StreamWriter::default();
            let stream = LazyStream::default().open(&mut coder, StreamKind::ModelFlag, 1);
            coder.u8(stream, mode);
            let mut coder =
                StreamReader::of_content(coder.into_content().bytes, FormatVersion::CURRENT)
                    .unwrap();
            let change = Change {
                before: 2,
                old: old(0),
                kept: Kept::default(),
            };
            let mut scratch = ChangeScratch::default();
            ChangeStreams::default().code(&mut coder, &mut scratch, &mut [0; 5], change);
            assert!(coder.failed());
        }
    }
}
