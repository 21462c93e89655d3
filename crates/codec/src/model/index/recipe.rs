//! Recipes: how an index key is made of the values of its row.
//!
//! Most keys are copies of one or more values: numbers, identifiers, short strings. A recipe
//! lists the offsets of these values in the row. The encoder derives it from one key and writes
//! it once; later keys of the same recipe cost its rank.

use crate::model::rows::recent::Row;
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Coder, LazyStream, StreamId};
use crate::streams::kind::StreamKind;

/// Maximum number of recipes that an index remembers.
const RECIPES_MAX: usize = 32;
/// Maximum number of pieces of a recipe.
const PIECES_MAX: usize = 8;
/// The rank that says "a new recipe follows".
const NEW: u8 = 254;
/// The rank that says "no recipe makes this key".
const NONE: u8 = 255;
/// Maximum length of a key for which the encoder tries recipes.
const KEY_LEN_MAX: usize = 256;
/// Maximum number of pieces that the encoder looks up for one key.
const STEPS_MAX: usize = 64;
/// `MAXIMUM_ALIGNOF`: fewer zeros than this at the end of a key may be padding.
const MAX_ALIGN: usize = 8;

/// The type of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    /// A value of 2, 4 or 8 bytes, after the zeros that align it.
    #[default]
    Fixed2 = 1,
    Fixed4 = 2,
    Fixed8 = 3,
    /// 16 bytes that need no alignment, such as a uuid.
    Fixed16 = 4,
    /// A varlena with a header of one byte, which contains the length.
    Short = 5,
}

impl Form {
    /// In the order of trial: the longer a piece, the less likely it matches by chance.
    const ALL: [Form; 5] = [
        Form::Short,
        Form::Fixed16,
        Form::Fixed8,
        Form::Fixed4,
        Form::Fixed2,
    ];

    fn align(self) -> usize {
        match self {
            Form::Fixed16 | Form::Short => 1,
            Form::Fixed2 => 2,
            Form::Fixed4 => 4,
            Form::Fixed8 => 8,
        }
    }

    /// The length of a piece that begins with `bytes`.
    fn len(self, bytes: &[u8]) -> Option<usize> {
        match self {
            Form::Short => match bytes.first() {
                Some(header) if header & 1 == 1 && *header > 3 => Some(usize::from(header >> 1)),
                _ => None,
            },
            fixed => Some(1 << (fixed as usize)),
        }
    }
}

/// A value of the row, at the offset `at` in its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    form: Form,
    at: u16,
}

type Recipe = Vec<Piece>;

/// The recipes of one index, the most recently used first.
#[derive(Debug, Default)]
pub struct Recipes {
    known: Vec<Recipe>,
    rank: LazyStream,
    definition: LazyStream,
    scratch: Vec<u8>,
}

impl Recipes {
    /// Codes a key by a recipe. Returns `false` if no recipe makes it; the caller then codes it
    /// otherwise. The encoder looks for the key in `seen`, if there is one: a part of the row.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        row: &Row<'_>,
        seen: Option<&Row<'_>>,
        key: &mut [u8],
    ) -> bool {
        let is_used = C::ENCODING && coder.choices().uses(OptionalModel::Recipes);
        let (wanted, new) = match is_used {
            true => self.find_in(seen, row, key),
            false => (NONE, Recipe::new()),
        };
        let stream = self.rank.open(coder, StreamKind::RecipeRank, 1);
        let rank = coder.u8(stream, wanted);
        match rank {
            NONE => return false,
            NEW => {
                let stream = self.definition.open(coder, StreamKind::RecipeDefinition, 1);
                let Some(recipe) = define(coder, stream, new) else {
                    coder.fail();
                    return true;
                };
                self.known.truncate(RECIPES_MAX - 1);
                self.known.insert(0, recipe);
            }
            rank => match self.known.get_mut(..=usize::from(rank)) {
                Some(known) => known.rotate_right(1),
                None => coder.fail(),
            },
        }
        if !C::ENCODING {
            let made = self.known.first();
            let made = made.and_then(|recipe| make(recipe, row, key.len(), &mut self.scratch));
            match made {
                Some(()) => key.copy_from_slice(&self.scratch),
                None => coder.fail(),
            }
        }
        true
    }

    /// The encoder's choice, made by a part of the row.
    fn find_in(&mut self, seen: Option<&Row<'_>>, row: &Row<'_>, key: &[u8]) -> (u8, Recipe) {
        let (rank, new) = self.find(seen.unwrap_or(row), key);
        let recipe = self.known.get(usize::from(rank)).unwrap_or(&new);
        let makes_it = seen.is_none()
            || make(recipe, row, key.len(), &mut self.scratch).is_some() && self.scratch == key;
        match makes_it {
            true => (rank, new),
            false => (NONE, Recipe::new()),
        }
    }

    /// The encoder's choice: a known recipe, or a new one.
    fn find(&mut self, row: &Row<'_>, key: &[u8]) -> (u8, Recipe) {
        if key.is_empty() || key.len() > KEY_LEN_MAX {
            return (NONE, Recipe::new());
        }
        for (rank, recipe) in self.known.iter().enumerate() {
            if make(recipe, row, key.len(), &mut self.scratch).is_some() && self.scratch == key {
                return (rank as u8, Recipe::new());
            }
        }
        match invent(row, key) {
            Some(recipe) => (NEW, recipe),
            None => (NONE, Recipe::new()),
        }
    }
}

/// Codes a new recipe: the number of its pieces, then the form and the offset of each.
fn define<C: Coder>(coder: &mut C, stream: StreamId, mut recipe: Recipe) -> Option<Recipe> {
    let count = usize::from(coder.u8(stream, recipe.len() as u8));
    if count > PIECES_MAX {
        return None;
    }
    recipe.resize(count, Piece::default());
    for piece in &mut recipe {
        let form = coder.u8(stream, piece.form as u8);
        let form = Form::ALL.into_iter().find(|known| *known as u8 == form)?;
        let at = coder.u16(stream, piece.at);
        *piece = Piece { form, at };
    }
    (!coder.failed()).then_some(recipe)
}

/// Makes a key of `len` bytes: the pieces, with zeros between them for alignment and after the
/// last one. `None` if the row lacks a piece or the key would be longer.
fn make(recipe: &[Piece], row: &Row<'_>, len: usize, key: &mut Vec<u8>) -> Option<()> {
    key.clear();
    for piece in recipe {
        key.resize(key.len().next_multiple_of(piece.form.align()), 0);
        let at = usize::from(piece.at);
        let piece_len = piece.form.len(row.get(at, 1)?)?;
        key.extend_from_slice(row.get(at, piece_len)?);
    }
    if key.len() > len {
        return None;
    }
    key.resize(len, 0);
    Some(())
}

/// A recipe for this key. Tries long pieces first.
fn invent(row: &Row<'_>, key: &[u8]) -> Option<Recipe> {
    let mut recipe = Recipe::new();
    let mut steps = STEPS_MAX;
    let is_made = go_on(row, key, 0, &mut recipe, &mut steps);
    (is_made && !recipe.is_empty()).then_some(recipe)
}

/// Finds pieces for the key from `at` on, by backtracking.
fn go_on(row: &Row<'_>, key: &[u8], at: usize, recipe: &mut Recipe, steps: &mut usize) -> bool {
    if key.len() - at < MAX_ALIGN && key[at..].iter().all(|&byte| byte == 0) {
        return true;
    }
    if recipe.len() == PIECES_MAX {
        return false;
    }
    for form in Form::ALL {
        if *steps == 0 {
            return false;
        }
        *steps -= 1;
        if let Some((piece, end)) = piece_of(form, row, key, at) {
            recipe.push(piece);
            if go_on(row, key, end, recipe, steps) {
                return true;
            }
            recipe.pop();
        }
    }
    false
}

/// The piece of a form that follows at `at` in the key, and the offset of its end.
fn piece_of(form: Form, row: &Row<'_>, key: &[u8], at: usize) -> Option<(Piece, usize)> {
    let start = at.next_multiple_of(form.align());
    if key.get(at..start)?.iter().any(|&byte| byte != 0) {
        return None;
    }
    let end = start + form.len(key.get(start..)?)?;
    let wanted = key.get(start..end)?;
    let at = u16::try_from(row.find(wanted, form.align())?).ok()?;
    Some((Piece { form, at }, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_version::FormatVersion;
    use crate::model::rows::recent::{NewRow, RecentRows};
    use crate::streams::{StreamReader, StreamWriter};

    /// A row of a number, a short string and a uuid. Its first `missing` bytes are unknown.
    fn rows(missing: usize) -> RecentRows {
        let mut values = vec![7, 0, 0, 0, 11];
        values.extend_from_slice(b"walz");
        values.extend(100..116);
        let mut rows = RecentRows::default();
        let row = NewRow {
            relation: 1,
            tid: (2, 3),
            values: &values[missing..],
            missing,
            is_whole: missing == 0,
            begins_record: true,
        };
        rows.add(&mut 0, row);
        rows
    }

    /// The ranks that keys get. Checks that a decoder makes the same keys.
    fn ranks(missing: usize, keys: &[Vec<u8>]) -> Vec<u8> {
        let rows = rows(missing);
        let row = rows.get(1).unwrap();
        let mut coder = StreamWriter::default();
        let mut recipes = Recipes::default();
        let mut made = Vec::new();
        let mut ranks = Vec::new();
        for key in keys {
            ranks.push(recipes.find(&row, key).0);
            made.push(recipes.code(&mut coder, &row, None, &mut key.clone()));
        }
        let mut coder =
            StreamReader::of_content(coder.into_content().bytes, FormatVersion::CURRENT).unwrap();
        let mut recipes = Recipes::default();
        for (key, made) in keys.iter().zip(made) {
            let mut decoded = vec![0; key.len()];
            assert_eq!(recipes.code(&mut coder, &row, None, &mut decoded), made);
            assert!(!made || decoded == *key);
        }
        assert!(coder.exhausted() && !coder.failed());
        ranks
    }

    fn padded(bytes: &[u8], len: usize) -> Vec<u8> {
        let mut key = bytes.to_vec();
        key.resize(len, 0);
        key
    }

    #[test]
    fn a_key_that_was_made_once_costs_its_rank() {
        let number = padded(&[7], 8);
        let text = padded(b"\x0bwalz", 8);
        let uuid: Vec<u8> = (100..116).collect();
        let both = padded(b"\x07\0\0\0\x0bwalz", 16);
        let unknown = padded(&[9, 9, 9, 9], 8);
        let keys = [&number, &text, &uuid, &both, &number, &both, &unknown].map(Vec::clone);
        assert_eq!(ranks(0, &keys), [NEW, NEW, NEW, NEW, 3, 1, NONE]);
    }

    #[test]
    fn what_the_record_does_not_have_makes_no_key() {
        let number = padded(&[7], 8);
        let text = padded(b"\x0bwalz", 8);
        assert_eq!(ranks(4, &[number, text]), [NONE, NEW]);
    }
}
