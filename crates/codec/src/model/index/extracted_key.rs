//! Tuples of GIN's pending list. Their keys were extracted from a value of the row that the tuple
//! is for.

use super::gin::extracted_tuples::{ExtractedTuples, INFO_AT, Source, column_of};
use super::gin::extraction::{Form, Values};
use super::known_rows::KnownRows;
use super::known_table::KnownTable;
use crate::model::rows::recent::{RecentRows, RowNumber};
use crate::model::rows::versions::{RowVersions, Version};
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Care, Coder, LazyStream, StreamId};
use crate::streams::kind::StreamKind;

/// Maximum number of sources that an index remembers.
const SOURCES_MAX: usize = 4;
/// The rank that says "a new source follows".
const NEW: u8 = 254;
/// The rank that says "no source has this key".
const NONE: u8 = 255;
/// After this number of keys without a source, the encoder looks for a new source only at every
/// key whose number is a multiple of it.
const PATIENCE: u32 = 64;
/// After more than this number of keys of one row and column without a source, the encoder looks
/// for no new source for that row and column.
const ROW_PATIENCE: u32 = 2;

/// The sources of one index, the most recently used first.
#[derive(Debug, Default)]
pub struct Sources {
    known: Vec<Source>,
    rank: LazyStream,
    skip: LazyStream,
    definition: LazyStream,
    /// The row of the last key.
    row: RowNumber,
    /// The number of the key after the last one in that row.
    next: usize,
    /// Number of keys without a source since the last new source (encoder only).
    misses: u32,
    /// The row and the index column that the encoder last looked for.
    missed: (RowNumber, Option<u16>),
    /// Number of keys of that row and column that no source had (encoder only).
    row_misses: u32,
}

impl Sources {
    /// Codes the part of a tuple after its TID and returns the tuple's length. Returns `None` if
    /// no source has its key; the caller then codes it otherwise.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        known: &mut KnownRows<'_>,
        row: RowNumber,
        tuple: &mut [u8],
    ) -> Option<usize> {
        let (rows, versions, table) = (known.rows, known.versions, known.table);
        let values = || values_of(rows, versions, table, row);
        let of = (known.relation, row);
        let choices = coder.choices();
        let mut wanted = (NONE, 0, Source::default());
        // Without whole rows, the encoder looks only where something else says what the row has.
        let may_be_looked_for = || {
            let is_known = || values_of(rows, versions, None, row).is_some();
            choices.uses(OptionalModel::ExtractedKeys)
                && (choices.uses(OptionalModel::WholeRows) || is_known())
        };
        if C::ENCODING
            && may_be_looked_for()
            && let Some(found) = self.find(known.extracted, of, values, tuple, choices.care)
        {
            wanted = found;
        }
        let (rank, skip, source) = wanted;
        let stream = self.rank.open(coder, StreamKind::RecipeRank, 1);
        match coder.u8(stream, rank) {
            NONE => return None,
            NEW => {
                let stream = self.definition.open(coder, StreamKind::RecipeDefinition, 1);
                let source = define(coder, stream, source);
                self.known.truncate(SOURCES_MAX - 1);
                self.known.insert(0, source);
            }
            0 if !self.known.is_empty() => {}
            rank => match self.known.get_mut(..=usize::from(rank)) {
                Some(known) => known.rotate_right(1),
                None => coder.fail(),
            },
        }
        let stream = self.skip.open(coder, StreamKind::KeySkip, 2);
        let skip = coder.u16(stream, skip);
        let source = self.known.first().copied().unwrap_or_default();
        let of = (known.relation, row, source);
        let Some(tuples) = known.extracted.take(of, values) else {
            coder.fail();
            return Some(tuple.len());
        };
        let key = tuples.after(self.expected(row), skip);
        (self.row, self.next) = (row, key + 1);
        let made = tuples.get(key);
        let end = INFO_AT + made.len();
        let place = coder.part(tuple, INFO_AT, end);
        if !C::ENCODING && place.len() == made.len() {
            place.copy_from_slice(made);
        }
        Some(end)
    }

    /// The number of the expected key of a row.
    fn expected(&self, row: RowNumber) -> usize {
        if row == self.row { self.next } else { 0 }
    }

    /// The encoder's choice: the rank of a known source or [`NEW`], the number of keys to skip,
    /// and the source.
    fn find<'v>(
        &mut self,
        extracted: &mut ExtractedTuples,
        of: (u32, RowNumber),
        values: impl Fn() -> Option<Values<'v>>,
        tuple: &[u8],
        care: Care,
    ) -> Option<(u8, u16, Source)> {
        let (index, row) = of;
        let expected = self.expected(row);
        let column = column_of(tuple);
        if (row, column) != self.missed {
            (self.missed, self.row_misses) = ((row, column), 0);
        }
        let has_patience = self.row_misses <= ROW_PATIENCE;
        let is_tried = has_patience && extracted.may_try(care);
        for (rank, &source) in (0..NEW).zip(&self.known) {
            let of = (index, row, source);
            let is_possible = source.column == 0 || Some(source.column) == column;
            let is_worth_it = match rank {
                0 => extracted.has(of) || has_patience && extracted.may_repeat(),
                _ => is_tried,
            };
            if !is_possible || !is_worth_it {
                continue;
            }
            if let Some(skip) = extracted.find(of, &values, tuple, expected) {
                return Some((rank, skip, source));
            }
        }
        self.misses += 1;
        self.row_misses += 1;
        let is_rare = self.misses.is_multiple_of(PATIENCE);
        if self.misses > PATIENCE && !is_rare || !is_tried {
            return None;
        }
        let source = extracted.explore(values()?, tuple, expected)?;
        let skip = extracted.find((index, row, source), &values, tuple, expected)?;
        (self.misses, self.row_misses) = (0, 0);
        Some((NEW, skip, source))
    }
}

/// What is known of a row.
fn values_of<'a>(
    rows: &'a RecentRows,
    versions: &'a RowVersions,
    table: Option<KnownTable<'a>>,
    row: RowNumber,
) -> Option<Values<'a>> {
    let row = rows.get(row)?;
    let table = table.filter(|_| !row.is_whole());
    if let Some(known) = table.and_then(|table| table.values(row.tid)) {
        return Some(Values { known, from: 0 });
    }
    let version = versions.get(rows, versions.id(row.relation, row.tid));
    let version = version.or_else(|| row.all_values().map(Version::whole))?;
    Some(Values {
        known: version.bytes,
        from: version.from,
    })
}

/// Codes a new source.
fn define<C: Coder>(coder: &mut C, stream: StreamId, source: Source) -> Source {
    let form = Form::from_id(coder.u8(stream, source.form as u8));
    if form.is_none() {
        coder.fail();
    }
    Source {
        form: form.unwrap_or_default(),
        number: coder.u8(stream, source.number),
        column: coder.u16(stream, source.column),
    }
}
