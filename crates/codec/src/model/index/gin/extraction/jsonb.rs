//! Keys of a jsonb (utils/adt/jsonb_gin.c), by the two operator classes.

use walzip_pgformat::hash::hash_bytes;

use super::Keys;
use super::numeric::Numeric;
use crate::model::values::json::DEPTH_MAX;
use crate::model::values::jsonb::{
    CONTAINER, COUNT_MASK, Child, IS_OBJECT, NUMERIC, NUMERIC_HEADER_LEN, STRING, aligned, child_at,
};
use crate::streams::coder::get_u32;

/// Types of a `JEntry` without data.
const FALSE: u8 = 2;
const TRUE: u8 = 3;
const NULL: u8 = 4;

/// The sign bit: GIN compares hashes as signed integers.
const SIGN: u32 = 1 << 31;
/// `JGINFLAG_*`: the first byte of a key.
const KEY: u8 = 1;
const NULL_KEY: u8 = 2;
const BOOL_KEY: u8 = 3;
const NUMBER_KEY: u8 = 4;
const STRING_KEY: u8 = 5;
const HASHED: u8 = 0x10;
/// `JGIN_MAXLENGTH`: longer texts are hashed.
const KEY_LEN_MAX: usize = 125;

/// A value that is not a container.
enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(Numeric<'a>),
    Text(&'a [u8]),
}

/// An operator class. `path` is its hash of the keys from the root to a value.
trait Operators {
    /// Visits a key of an object and returns the path of its value.
    fn key(&mut self, path: u32, key: &[u8]) -> u32;
    /// Visits a value of an object, or an element of an array.
    fn scalar(&mut self, path: u32, scalar: &Scalar<'_>, is_element: bool) -> Option<()>;
}

/// Whether the header has flags of a container, and the content has room for its children.
pub fn is_likely(content: &[u8]) -> bool {
    let count = (get_u32(content, 0) & 0x00FF_FFFF) as usize;
    content.get(3).is_some_and(|&byte| has_fourth(byte)) && count > 0 && count < content.len() / 4
}

/// Whether this can be the fourth byte of a container that [`is_likely`]. It contains the flags.
pub fn has_fourth(byte: u8) -> bool {
    matches!(byte, 0x20 | 0x40 | 0x50)
}

/// Extracts the keys of `jsonb_path_ops`, which are hashes.
pub fn extract_paths(content: &[u8], keys: &mut Keys) -> Option<()> {
    let end = container(content, 0, 0, 0, &mut Paths { keys })?;
    keys.push_numbers(SIGN);
    (end == content.len()).then_some(())
}

/// Extracts the keys of `jsonb_ops`, which are texts.
pub fn extract_texts(content: &[u8], keys: &mut Keys) -> Option<()> {
    keys.is_varlena = true;
    let mut texts = Texts {
        keys,
        number: Vec::new(),
    };
    let end = container(content, 0, 0, 0, &mut texts)?;
    keys.sort_by(|key| key);
    (end == content.len()).then_some(())
}

/// Visits the keys and values of the container at `at`. Returns the offset of its end.
fn container(
    json: &[u8],
    at: usize,
    path: u32,
    depth: usize,
    operators: &mut impl Operators,
) -> Option<usize> {
    let header = get_u32(json.get(at..at + 4)?, 0);
    let count = (header & COUNT_MASK) as usize;
    let keys = if header & IS_OBJECT != 0 { count } else { 0 };
    if depth == DEPTH_MAX || keys + count > json.len() / 4 {
        return None;
    }
    let start = at + 4 + 4 * (keys + count);
    let mut key_end = start;
    let mut end = start;
    for number in 0..keys {
        end += child_at(json, at, number, end - start)?.len;
    }
    for number in 0..count {
        let mut below = path;
        if number < keys {
            let key_start = key_end;
            key_end += child_at(json, at, number, key_start - start)?.len;
            below = operators.key(path, json.get(key_start..key_end)?);
        }
        let child = child_at(json, at, keys + number, end - start)?;
        let start = aligned(child.kind, end);
        end += child.len;
        if child.kind == CONTAINER {
            if container(json, start, below, depth + 1, operators)? != end {
                return None;
            }
        } else {
            let scalar = scalar(json, start, end, child)?;
            operators.scalar(below, &scalar, keys == 0)?;
        }
    }
    Some(end)
}

fn scalar(json: &[u8], start: usize, end: usize, child: Child) -> Option<Scalar<'_>> {
    let bytes = json.get(start..end)?;
    match child.kind {
        STRING => Some(Scalar::Text(bytes)),
        NUMERIC => {
            let number = Numeric::read(bytes.get(NUMERIC_HEADER_LEN..)?)?;
            Some(Scalar::Number(number))
        }
        FALSE => Some(Scalar::Bool(false)),
        TRUE => Some(Scalar::Bool(true)),
        NULL => Some(Scalar::Null),
        _ => None,
    }
}

/// `jsonb_path_ops`.
struct Paths<'k> {
    keys: &'k mut Keys,
}

impl Operators for Paths<'_> {
    fn key(&mut self, path: u32, key: &[u8]) -> u32 {
        path.rotate_left(1) ^ hash_bytes(key)
    }

    fn scalar(&mut self, path: u32, scalar: &Scalar<'_>, _: bool) -> Option<()> {
        let hash = match scalar {
            Scalar::Null => 1,
            Scalar::Bool(true) => 2,
            Scalar::Bool(false) => 4,
            Scalar::Number(number) => number.hash(),
            Scalar::Text(text) => hash_bytes(text),
        };
        let hash = path.rotate_left(1) ^ hash;
        self.keys.numbers.push(hash);
        Some(())
    }
}

/// `jsonb_ops`.
struct Texts<'k> {
    keys: &'k mut Keys,
    number: Vec<u8>,
}

impl Texts<'_> {
    fn push(&mut self, flag: u8, text: &[u8]) {
        if text.len() > KEY_LEN_MAX {
            let hash = format!("{:08x}", hash_bytes(text));
            self.keys.push(&[&[flag | HASHED], hash.as_bytes()]);
        } else {
            self.keys.push(&[&[flag], text]);
        }
    }
}

impl Operators for Texts<'_> {
    fn key(&mut self, path: u32, key: &[u8]) -> u32 {
        self.push(KEY, key);
        path
    }

    fn scalar(&mut self, _: u32, scalar: &Scalar<'_>, is_element: bool) -> Option<()> {
        match scalar {
            Scalar::Null => self.push(NULL_KEY, b""),
            Scalar::Bool(true) => self.push(BOOL_KEY, b"t"),
            Scalar::Bool(false) => self.push(BOOL_KEY, b"f"),
            Scalar::Number(number) => {
                let mut text = std::mem::take(&mut self.number);
                number.normalized(&mut text)?;
                self.push(NUMBER_KEY, &text);
                self.number = text;
            }
            Scalar::Text(text) if is_element => self.push(KEY, text),
            Scalar::Text(text) => self.push(STRING_KEY, text),
        }
        Some(())
    }
}
