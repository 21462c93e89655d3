//! The body of an updated tuple, coded against the known part of the row's old version.

use super::changed_words::{RecentChanges, ReplacedWords, TransactionRows, WORD, WordStreams};
use super::copies::{RowCopy, copied_len, find_copies, put_together, take_own};
use super::versions::{Kept, Version};
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;
use crate::streams::rows_by_len::RowsByLen;

/// The body is coded without the old version.
const NONE: u8 = 0;
/// Each byte is coded as the difference from the byte that it replaces.
const DIFFERENCE: u8 = 1;
/// The body is coded as copies of parts of the old version, and bytes of its own.
const COPIES: u8 = 2;
/// The values that replace others are coded word by word.
const WORDS: u8 = 3;
/// The values are those that they replace.
const SAME: u8 = 4;

/// How a body relates to the row's old version.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Number of bytes of the body before the values.
    pub before: usize,
    /// The old version.
    pub old: Version<'a>,
    /// The prefix and the suffix that the body leaves out.
    pub kept: Kept,
}

/// Buffers that are reused, and what is known of changes in all relations.
#[derive(Debug, Default)]
pub struct ChangeScratch {
    copies: Vec<RowCopy>,
    bytes: Vec<u8>,
    /// What has changed recently.
    pub recent: RecentChanges,
}

/// The streams of the changes of one relation.
#[derive(Debug, Default)]
pub struct ChangeStreams {
    mode: LazyStream,
    count: LazyStream,
    copy: [LazyStream; 3],
    own: RowsByLen,
    differences: RowsByLen,
    /// Few relations have them, and there may be very many relations.
    front: Option<Box<RowsByLen>>,
    words: Option<Box<WordStreams>>,
}

impl ChangeStreams {
    /// Codes a body against the old version. Returns `false` if the mode is [`NONE`]; the caller
    /// then codes the body. Words need the rows of a transaction.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        scratch: &mut ChangeScratch,
        body: &mut [u8],
        change: Change<'_>,
        rows: Option<TransactionRows<'_>>,
    ) -> bool {
        let before = change.before.min(body.len());
        let change = Change { before, ..change };
        let replaced = change.replaced(body.len() - before);
        let mut mode = NONE;
        if C::ENCODING && coder.choices().uses(OptionalModel::RowVersions) {
            let values = &body[before..];
            let Change { old, kept, .. } = change;
            let mut are_words = |replaced| {
                rows.is_some_and(|rows| {
                    self.are_words_cheaper(replaced, values, change, rows, scratch)
                })
            };
            mode = match replaced {
                Some(replaced) if replaced.is_same(values) => SAME,
                Some(replaced) if are_words(replaced) => WORDS,
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
            (SAME, Some(replaced)) if coder.format().has_image_rows() => {
                self.code_same(coder, body, (before, replaced));
            }
            (WORDS, _) if coder.format().has_changed_words() => match rows {
                Some(rows) => self.code_words(coder, scratch, body, change, rows),
                None => coder.fail(),
            },
            _ => coder.fail(),
        }
        true
    }

    fn code_same<C: Coder>(
        &mut self,
        coder: &mut C,
        body: &mut [u8],
        (before, replaced): (usize, Replaced<'_>),
    ) {
        let (front, values) = body.split_at_mut(before);
        if values.len() != replaced.bytes.len() {
            return coder.fail();
        }
        let rows = self.front.get_or_insert_default();
        rows.code(coder, StreamKind::HeapPart, front);
        values.copy_from_slice(replaced.bytes);
    }

    fn code_difference<C: Coder>(
        &mut self,
        coder: &mut C,
        scratch: &mut ChangeScratch,
        body: &mut [u8],
        (before, replaced): (usize, Replaced<'_>),
    ) {
        let start = before + replaced.at;
        let range = start..start + replaced.bytes.len();
        let bytes = &mut scratch.bytes;
        bytes.clear();
        bytes.extend_from_slice(body);
        if C::ENCODING {
            let pairs = bytes[range.clone()].iter_mut().zip(replaced.bytes);
            pairs.for_each(|(byte, old)| *byte = byte.wrapping_sub(*old));
        }
        self.differences.code(coder, StreamKind::HeapPart, bytes);
        if !C::ENCODING {
            let pairs = bytes[range].iter_mut().zip(replaced.bytes);
            pairs.for_each(|(byte, old)| *byte = byte.wrapping_add(*old));
            body.copy_from_slice(bytes);
        }
    }

    /// Whether the values that replace others take fewer bytes word by word. Encoder only.
    fn are_words_cheaper(
        &mut self,
        replaced: Replaced<'_>,
        values: &[u8],
        change: Change<'_>,
        rows: TransactionRows<'_>,
        ChangeScratch { recent, bytes, .. }: &mut ChangeScratch,
    ) -> bool {
        change.words(values.len()).is_some_and(|words| {
            let streams = self.words.get_or_insert_default();
            replaced.takes_more_than(streams.cost(values, words, rows, (recent, bytes)), values)
        })
    }

    fn code_words<C: Coder>(
        &mut self,
        coder: &mut C,
        scratch: &mut ChangeScratch,
        body: &mut [u8],
        change: Change<'_>,
        rows: TransactionRows<'_>,
    ) {
        let ChangeScratch { bytes, recent, .. } = scratch;
        let (front, values) = body.split_at_mut(change.before);
        let streams = self.words.get_or_insert_default();
        match change.words(values.len()) {
            Some(words) => {
                streams.code_front(coder, front);
                streams.code(coder, values, words, rows, (recent, bytes));
            }
            None => coder.fail(),
        }
    }

    fn code_copies<C: Coder>(
        &mut self,
        coder: &mut C,
        scratch: &mut ChangeScratch,
        body: &mut [u8],
        Change { before, old, kept }: Change<'_>,
    ) {
        let ChangeScratch { copies, bytes, .. } = scratch;
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
        let (head, values) = body.split_at_mut(before);
        head.copy_from_slice(front);
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

/// The known bytes that an update replaces, where the length of the values stays the same.
#[derive(Clone, Copy, Debug)]
struct Replaced<'a> {
    /// Their offset in the new values.
    at: usize,
    bytes: &'a [u8],
}

impl Replaced<'_> {
    /// Whether differences from these bytes take as much as words at least. Of values that have
    /// little of the old ones they must take far more.
    fn takes_more_than(&self, words: u32, values: &[u8]) -> bool {
        let differing = (self.bytes.len() - self.same(values)) as u32;
        let is_worth_it = values.len() <= WORD || 2 * words < differing;
        words <= differing && (is_worth_it || self.is_like(values))
    }

    fn same(&self, values: &[u8]) -> usize {
        let pairs = values[self.at..].iter().zip(self.bytes);
        pairs.filter(|(new, old)| new == old).count()
    }

    /// Whether there are values, and all of them are unchanged.
    fn is_same(&self, values: &[u8]) -> bool {
        !values.is_empty() && self.bytes == values
    }

    /// Whether at least half of the values' bytes are unchanged.
    fn is_like(&self, values: &[u8]) -> bool {
        let same = self.same(values);
        same > 0 && 2 * same >= values.len()
    }
}

impl<'a> Change<'a> {
    /// The words that `len` bytes of new values replace, up to the end of all values at most. `None`
    /// if the length of all values changes, or not all of the words are known.
    fn words(&self, len: usize) -> Option<ReplacedWords<'a>> {
        let Change { old, kept, .. } = self;
        if len == 0 || old.total != kept.prefix + len + kept.suffix {
            return None;
        }
        let start = kept.prefix - kept.prefix % WORD;
        let end = (kept.prefix + len).next_multiple_of(WORD).min(old.total);
        Some(ReplacedWords {
            first: start / WORD,
            bytes: old.known(start..end)?,
            values_at: kept.prefix - start,
        })
    }

    /// The known bytes that the `len` bytes of the new values replace. `None` if the length of
    /// all values changes, or the known bytes end before or begin after them.
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
    use crate::model::rows::recent::RecentRows;
    use crate::streams::{StreamReader, StreamWriter};

    /// Codes bodies with two bytes before the values, and checks that they are decoded. Returns
    /// for each whether it was coded against the old version, and the length of the streams.
    fn coded(old: Version<'_>, kept: Kept, bodies: &[&[u8]]) -> (Vec<bool>, usize) {
        let change = Change {
            before: 2,
            old,
            kept,
        };
        let rows = RecentRows::default();
        let rows = TransactionRows {
            rows: &rows,
            newest: 0,
        };
        let mut coder = StreamWriter::default();
        let (mut streams, mut scratch) = (ChangeStreams::default(), ChangeScratch::default());
        let mut code = |body: &&[u8]| {
            streams.code(
                &mut coder,
                &mut scratch,
                &mut body.to_vec(),
                change,
                Some(rows),
            )
        };
        let coded: Vec<bool> = bodies.iter().map(&mut code).collect();
        let len = coder.total_len();
        let mut coder =
            StreamReader::of_content(coder.into_content().bytes, FormatVersion::CURRENT).unwrap();
        let (mut streams, mut scratch) = (ChangeStreams::default(), ChangeScratch::default());
        for (body, coded) in bodies.iter().zip(&coded) {
            let mut decoded = vec![0; body.len()];
            assert_eq!(
                streams.code(&mut coder, &mut scratch, &mut decoded, change, Some(rows)),
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
        // The version is known from the name on; then only its last byte is.
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
    fn the_same_values_take_no_bytes() {
        let kept = Kept {
            prefix: 3,
            suffix: 1,
        };
        let same = body(&OLD[3..OLD.len() - 1]);
        let (of_use, len) = coded(old(0), kept, &[&same, &same]);
        assert_eq!((of_use, len), (vec![true, true], 2 * (1 + 2)));
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
        let rows = RecentRows::default();
        let rows = TransactionRows {
            rows: &rows,
            newest: 0,
        };
        for mode in [DIFFERENCE, WORDS, SAME, SAME + 1] {
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
            ChangeStreams::default().code(
                &mut coder,
                &mut scratch,
                &mut [0; 5],
                change,
                Some(rows),
            );
            assert!(coder.failed());
        }
    }
}
