//! How an index key is put together from the values of its row.
//!
//! Most keys are copies: of a number, an identifier or a short string, or of several of them.
//! A recipe says from where. What it says is learned from the first key that it fits.

use super::recent_rows::Row;
use crate::coder::{Coder, Slot, StreamId};
use crate::stream_kind::StreamKind;

/// Recipes that an index remembers.
const RECIPES_MAX: usize = 32;
/// Pieces of a recipe.
const PIECES_MAX: usize = 8;
/// The rank that says "a recipe of its own follows".
const NEW: u8 = 254;
/// The rank that says "no recipe makes this key".
const NONE: u8 = 255;
/// Bytes of a key that recipes are tried for.
const KEY_LEN_MAX: usize = 256;
/// Less than this at the end of a key may be padding (`MAXIMUM_ALIGNOF`).
const MAX_ALIGN: usize = 8;

/// What is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    /// A value of 2, 4 or 8 bytes, behind the zeros that align it.
    #[default]
    Fixed2 = 1,
    Fixed4 = 2,
    Fixed8 = 3,
    /// 16 bytes that need no alignment, such as a uuid.
    Fixed16 = 4,
    /// A varlena with a header of one byte, which has the length.
    Short = 5,
}

impl Form {
    /// As they are tried: the longer a piece, the less likely it is there by chance.
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

    /// Bytes of a piece that begins with these.
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

/// A value of the row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    form: Form,
    at: u16,
}

type Recipe = Vec<Piece>;

/// The recipes of one index, the last one used first.
#[derive(Debug, Default)]
pub struct Recipes {
    known: Vec<Recipe>,
    rank: Slot,
    definition: Slot,
    scratch: Vec<u8>,
}

impl Recipes {
    /// Codes a key by a recipe; `false` where none makes it and it is to be coded otherwise.
    pub fn code<C: Coder>(&mut self, coder: &mut C, row: &Row<'_>, key: &mut [u8]) -> bool {
        let (wanted, new) = match C::ENCODING {
            true => self.find(row, key),
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

/// Codes a new recipe: the number of its pieces, then the form and the place of each.
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

/// Makes a key of a length; what the pieces leave of it is zeros, as between them.
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

/// A recipe for this key, made of the longest pieces that the row has.
fn invent(row: &Row<'_>, key: &[u8]) -> Option<Recipe> {
    let mut recipe = Recipe::new();
    let mut at = 0;
    while key.len() - at >= MAX_ALIGN || key[at..].iter().any(|&byte| byte != 0) {
        let (piece, end) = Form::ALL
            .into_iter()
            .find_map(|form| piece_of(form, row, key, at))?;
        if recipe.len() == PIECES_MAX {
            return None;
        }
        recipe.push(piece);
        at = end;
    }
    (!recipe.is_empty()).then_some(recipe)
}

/// The piece of a form that the key goes on with, and where it ends.
fn piece_of(form: Form, row: &Row<'_>, key: &[u8], at: usize) -> Option<(Piece, usize)> {
    let start = at.next_multiple_of(form.align());
    if key.get(at..start)?.iter().any(|&byte| byte != 0) {
        return None;
    }
    let end = start + form.len(key.get(start..)?)?;
    let wanted = key.get(start..end)?;
    let range = row.range();
    let first = range.start.next_multiple_of(form.align());
    let place = (first..range.end)
        .step_by(form.align())
        .find(|&place| row.get(place, wanted.len()) == Some(wanted))?;
    let at = u16::try_from(place).ok()?;
    Some((Piece { form, at }, end))
}
