//! Keys on leaf pages that follow from the rows to which the tuples point, where earlier WAL has left
//! the pages of the table.

use super::item_spans::{ItemSpans, len_of};
use super::recipe::Recipes;
use crate::model::rows::recent::Row;
use crate::model::table::index_tuple::{INDEX_TUPLE_HEADER_LEN, posting_list};
use crate::model::values::tid::read_tid;
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;

/// Keys are told from rows where so many bytes of each are others than in the key before, in the
/// mean. Of keys that are more alike, plain coding makes less than recipes would.
const CHANGED_MIN: usize = 3;
/// What a key that no recipe makes adds to the misses of an index. One that was made takes 1 off.
const MISS: u32 = 4;
/// With more misses, an index is none of values of rows, or of too few to repay the search.
const MISSES_MAX: u32 = 64 * MISS;

/// The streams of keys that are told from rows.
#[derive(Debug, Default)]
pub(super) struct LeafKeys {
    are_told: LazyStream,
    recipes: Recipes,
    /// How often keys were not made of their rows. Only the encoder looks at it.
    misses: u32,
}

impl LeafKeys {
    /// Codes whether the keys of a page are told from rows.
    pub(super) fn code_are_told<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &[u8],
        spans: &ItemSpans,
        infos: &[u16],
    ) -> bool {
        let are_told = C::ENCODING
            && coder.choices().uses(OptionalModel::LeafKeys)
            && coder.choices().uses(OptionalModel::Recipes)
            && self.misses <= MISSES_MAX
            && changed_bytes(bytes, spans, infos) >= CHANGED_MIN * infos.len();
        let stream = self.are_told.open(coder, StreamKind::ModelFlag, 1);
        match coder.u8(stream, are_told.into()) {
            0 => false,
            1 => true,
            _ => {
                coder.fail();
                false
            }
        }
    }

    /// Codes a key by a recipe, of the row that its tuple points to. Returns `false` if no recipe makes it.
    pub(super) fn code_key<C: Coder>(
        &mut self,
        coder: &mut C,
        row: &Row<'_>,
        key: &mut [u8],
    ) -> bool {
        let is_made = self.recipes.code(coder, row, None, key);
        self.misses = match is_made {
            true => self.misses.saturating_sub(1),
            false => self.misses.saturating_add(MISS),
        };
        is_made
    }
}

/// How many bytes of the keys are others than those at the same offset in the key before.
fn changed_bytes(bytes: &[u8], spans: &ItemSpans, infos: &[u16]) -> usize {
    let mut before: &[u8] = &[];
    let mut changed = 0;
    for (&start, &info) in spans.starts.iter().zip(infos) {
        let tuple = bytes.get(start..start + len_of(info)).unwrap_or_default();
        let (key_end, _) = list_of(tuple, info).unwrap_or((tuple.len(), 0));
        let key = tuple
            .get(INDEX_TUPLE_HEADER_LEN..key_end)
            .unwrap_or_default();
        changed += key.len().saturating_sub(before.len());
        changed += key.iter().zip(before).filter(|(a, b)| a != b).count();
        before = key;
    }
    changed
}

/// Start and end of a tuple's posting list, if it has one.
pub(super) fn list_of(tuple: &[u8], info: u16) -> Option<(usize, usize)> {
    let (block, offset) = read_tid(tuple, 0);
    posting_list(info, offset, block, tuple.len())
}
