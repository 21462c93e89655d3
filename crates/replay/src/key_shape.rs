//! How the keys of a B-tree are ordered, as its pages show.
//!
//! Nothing in WAL says of what types the keys of an index are. But the tuples of a leaf page are in
//! order, and no leaf page has tuples that belong between those of another one. So the kinds of
//! attributes are taken that fit the bytes of the keys and under which that is so. They need not be
//! the types: what has the same order will do.

use std::cmp::Ordering;

use walzip_pgformat::bytes::{read_u16, read_u32, read_u64};

use crate::btree_page::first_data;
use crate::index_tuple;
use crate::page::{Page, PageBytes, max_align};

/// Attributes that are looked at.
const ATTRIBUTES_MAX: usize = 4;
/// Tuples from which a shape can be told.
const TUPLES_MIN: usize = 8;
/// Tuples of a page that are looked at.
const TUPLES_MAX: usize = 64;
/// Sequences of kinds that are tried.
const TRIES_MAX: u32 = 128;
/// Of these many neighbours in a page, one may be out of order.
const DISORDER_PART: usize = 16;

/// The beginning of a key, as numbers that are ordered as the index orders its keys. Zeros stand for
/// what the key does not have.
pub type Sortable = [u64; 3];

/// What an attribute is ordered as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Eight bytes, signed: integers, times.
    Word8,
    /// Four bytes, signed: integers, dates.
    Word4,
    /// Numbers of variable length (utils/adt/numeric.c).
    Numeric,
    /// The bytes of what has a variable length (varatt.h): texts.
    Text,
    /// All bytes that are left.
    Bytes,
}

/// In this order they are tried: of those that do equally well the first one is taken.
const KINDS: [Kind; 5] = [
    Kind::Word8,
    Kind::Word4,
    Kind::Numeric,
    Kind::Text,
    Kind::Bytes,
];

/// The kinds of the attributes of an index, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyShape {
    attributes: [Option<Kind>; ATTRIBUTES_MAX],
}

impl KeyShape {
    /// The shape of the keys of leaf pages; `None` if they have too few tuples, or none fits.
    pub fn of(pages: &[&PageBytes]) -> Option<KeyShape> {
        let keys = pages.iter().filter_map(|page| keys_of(page));
        let most = keys.max_by_key(|keys| keys.len())?;
        if most.len() < TUPLES_MIN {
            return None;
        }
        let mut search = Search {
            is_variable: most.iter().any(|key| key.is_variable),
            tries_left: TRIES_MAX,
            found: Vec::new(),
        };
        search.go_on(KeyShape::default(), 0, &most, 0);
        let shapes = search.found.into_iter();
        let scored = shapes.map(|(shape, wrong)| ((shape.overlaps(pages), wrong), shape));
        scored
            .min_by_key(|(score, _)| *score)
            .map(|(_, shape)| shape)
    }

    /// How many leaf pages have tuples that come after the first one of the next page.
    fn overlaps(&self, pages: &[&PageBytes]) -> usize {
        let ends = pages.iter().filter_map(|page| {
            let keys = [page.item(first_data(page)?)?, page.item(page.items())?];
            let [first, last] = keys.map(index_tuple::key_without_nulls);
            Some((self.sortable(first?), self.sortable(last?)))
        });
        let mut ends: Vec<(Sortable, Sortable)> = ends.collect();
        ends.sort_unstable();
        let neighbours = ends.iter().zip(ends.iter().skip(1));
        neighbours
            .filter(|((_, last), (first, _))| last > first)
            .count()
    }

    /// A number for it.
    pub fn number(&self) -> u16 {
        let kinds = self.attributes.iter();
        kinds.fold(0, |number, kind| {
            number * 8 + kind.map_or(0, |kind| kind as u16 + 1)
        })
    }

    /// A key as numbers in the order of the index.
    pub fn sortable(&self, key: &[u8]) -> Sortable {
        self.sortable_until(key, |_| false).words
    }

    /// How the [`KeyShape::sortable`] of a key compares with another one.
    pub fn compare(&self, key: &[u8], other: &Sortable) -> Ordering {
        let differs = |begun: &Output| begun.begins(other) == Some(false);
        self.sortable_until(key, differs).words.cmp(other)
    }

    /// The same, or as much of it as is enough.
    fn sortable_until(&self, key: &[u8], is_enough: impl Fn(&Output) -> bool) -> Output {
        let mut sortable = Output::default();
        let mut at = 0;
        for kind in self.attributes.iter().flatten() {
            match kind.put(key, at, &mut sortable) {
                Some(end) if !is_enough(&sortable) => at = end,
                _ => break,
            }
        }
        sortable
    }
}

/// A key of a page, and how far it was read.
#[derive(Clone, Copy)]
struct Keyed<'p> {
    key: &'p [u8],
    at: usize,
    /// The key before it is known to be less, or is out of order.
    is_before: bool,
    /// It has an attribute of variable length.
    is_variable: bool,
}

impl Keyed<'_> {
    /// There is nothing left but padding.
    fn is_read(&self) -> bool {
        let rest = self.key.get(self.at..).unwrap_or_default();
        max_align(self.at) >= self.key.len() && rest.iter().all(|&byte| byte == 0)
    }
}

/// Some of the keys of a page, in order.
fn keys_of(page: &PageBytes) -> Option<Vec<Keyed<'_>>> {
    let first = first_data(page)?;
    let step = usize::from(page.items().saturating_sub(first)) / TUPLES_MAX + 1;
    let items = (first..=page.items()).step_by(step);
    let keys = items.filter_map(|number| {
        let item = page.item(number)?;
        Some(Keyed {
            key: index_tuple::key_without_nulls(item)?,
            at: 0,
            is_before: false,
            is_variable: index_tuple::is_variable(item)?,
        })
    });
    Some(keys.collect())
}

/// Shapes that fit the keys of a page, and how many neighbours are out of order.
struct Search {
    is_variable: bool,
    tries_left: u32,
    found: Vec<(KeyShape, usize)>,
}

impl Search {
    /// Tries each kind for the next attribute.
    fn go_on(&mut self, shape: KeyShape, depth: usize, keys: &[Keyed<'_>], wrong: usize) {
        let is_whole = depth > 0 && keys.iter().all(|key| key.is_read());
        let variable = [Some(Kind::Numeric), Some(Kind::Text)];
        let is_variable = shape.attributes.iter().any(|kind| variable.contains(kind));
        if is_whole || depth == ATTRIBUTES_MAX {
            if is_variable == self.is_variable {
                self.found.push((shape, wrong));
            }
            return;
        }
        for kind in KINDS {
            let Some(tries_left) = self.tries_left.checked_sub(1) else {
                return;
            };
            self.tries_left = tries_left;
            let mut next = keys.to_vec();
            let Some(more) = go_past(&mut next, kind) else {
                continue;
            };
            if wrong + more <= keys.len() / DISORDER_PART {
                let mut shape = shape;
                shape.attributes[depth] = Some(kind);
                self.go_on(shape, depth + 1, &next, wrong + more);
            }
        }
    }
}

/// Goes past the next attribute, and says how many neighbours are out of order in it; `None` if a
/// key does not have such an attribute.
fn go_past(keys: &mut [Keyed<'_>], kind: Kind) -> Option<usize> {
    let mut wrong = 0;
    let mut last: Option<Sortable> = None;
    for key in keys {
        let mut attribute = Output::default();
        key.at = kind.put(key.key, key.at, &mut attribute)?;
        let last = last.replace(attribute.words);
        let is_wrong = last.is_some_and(|last| last > attribute.words);
        wrong += usize::from(is_wrong && !key.is_before);
        key.is_before |= last.is_some_and(|last| last != attribute.words);
    }
    Some(wrong)
}

/// Halves of words that can be sorted; what there is no room for is left out.
#[derive(Default)]
struct Output {
    words: Sortable,
    halves: usize,
}

impl Output {
    fn put_half(&mut self, half: u32) {
        if let Some(word) = self.words.get_mut(self.halves / 2) {
            *word |= u64::from(half) << (32 * (1 - self.halves % 2));
        }
        self.halves += 1;
    }

    fn put(&mut self, word: u64) {
        self.put_half((word >> 32) as u32);
        self.put_half(word as u32);
    }

    /// Whether it is how another one begins, if it has a whole word.
    fn begins(&self, other: &Sortable) -> Option<bool> {
        let whole = (self.halves / 2).min(other.len());
        (whole > 0).then(|| self.words[..whole] == other[..whole])
    }

    /// The beginning of what has any length takes all that is left.
    fn put_bytes(&mut self, bytes: &[u8]) {
        let (halves, rest) = bytes.as_chunks::<4>();
        for half in halves.iter().take(2 * self.words.len()) {
            self.put_half(u32::from_be_bytes(*half));
        }
        let mut half = [0; 4];
        half[..rest.len()].copy_from_slice(rest);
        self.put_half(u32::from_be_bytes(half));
    }
}

impl Kind {
    /// Appends the attribute that begins at `at`, or where its alignment says. Returns its end.
    fn put(self, key: &[u8], at: usize, output: &mut Output) -> Option<usize> {
        match self {
            Kind::Word8 => {
                let at = at.next_multiple_of(8);
                output.put(read_u64(key, at)? ^ 1 << 63);
                Some(at + 8)
            }
            Kind::Word4 => {
                let at = at.next_multiple_of(4);
                output.put_half(read_u32(key, at)? ^ 1 << 31);
                Some(at + 4)
            }
            Kind::Numeric => {
                let (number, end) = variable(key, at)?;
                output.put(numeric(number)?);
                Some(end)
            }
            Kind::Text => {
                let (text, end) = variable(key, at)?;
                output.put_bytes(text);
                Some(end)
            }
            Kind::Bytes => {
                output.put_bytes(key.get(at..)?);
                Some(key.len())
            }
        }
    }
}

/// The contents and the end of what has a variable length.
fn variable(key: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let first = *key.get(at)?;
    let (start, end) = match first & 1 {
        1 => (at + 1, at + usize::from(first >> 1)),
        _ => {
            let at = at.next_multiple_of(4);
            (at + 4, at + (read_u32(key, at)? >> 2) as usize)
        }
    };
    Some((key.get(start..end)?, end))
}

/// A number that is ordered as a numeric is: its weight, and its first three digits, of four decimals
/// each. What is less than zero is inverted.
fn numeric(number: &[u8]) -> Option<u64> {
    const SHORT: u16 = 0x8000;
    const SPECIAL: u16 = 0xC000;
    const ZERO: u64 = 1 << 63;
    const WEIGHT_END: i64 = 1 << 14;
    const DIGITS: usize = 3;
    const DIGIT_END: u16 = 10_000;
    let header = read_u16(number, 0)?;
    let (is_less, weight, digits) = match header & SPECIAL {
        SPECIAL => return None,
        // The weight has seven bits, with its sign.
        SHORT => {
            let weight = ((header << 9) as i16) >> 9;
            (header & 0x2000 != 0, weight, number.get(2..)?)
        }
        sign => (sign != 0, read_u16(number, 2)? as i16, number.get(4..)?),
    };
    let (digits, rest) = digits.as_chunks::<2>();
    let digits = digits.iter().take(DIGITS);
    let digits = digits.map(|digit| u16::from_le_bytes(*digit));
    if !rest.is_empty() || digits.clone().any(|digit| digit >= DIGIT_END) {
        return None;
    }
    if digits.len() == 0 {
        return Some(ZERO);
    }
    // 15 bits, which are more than any key's weight has.
    let weight = i64::from(weight).clamp(-WEIGHT_END, WEIGHT_END - 1) + WEIGHT_END;
    let size = digits
        .chain(std::iter::repeat(0))
        .take(DIGITS)
        .fold(weight as u64, |size, digit| size << 16 | u64::from(digit));
    match is_less {
        true => Some(ZERO - 1 - size),
        false => Some(ZERO + 1 + size),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::btree_page::{LEAF, Opaque, SPECIAL_LEN};
    use proptest::prelude::*;
    use walzip_pgformat::PAGE_SIZE;

    const HAS_VARIABLE: u16 = 0x4000;

    /// A tuple for the row with a number.
    pub fn tuple(key: &[u8], is_variable: bool, row: u16) -> Vec<u8> {
        let len = max_align(8 + key.len());
        let info = len as u16 | if is_variable { HAS_VARIABLE } else { 0 };
        let mut tuple = [[0; 2], [0; 2], row.to_le_bytes(), info.to_le_bytes()].concat();
        tuple.extend_from_slice(key);
        tuple.resize(len, 0);
        tuple
    }

    /// A leaf page of tuples, which has a high key where it has a right sibling.
    pub fn leaf(tuples: &[Vec<u8>], right: u32) -> Box<PageBytes> {
        let mut page = Box::new([0; PAGE_SIZE]);
        page.init(SPECIAL_LEN);
        Opaque::put(&mut page, 4, &right.to_le_bytes()).expect("fits");
        Opaque::put(&mut page, 12, &LEAF.to_le_bytes()).expect("fits");
        for (tuple, number) in tuples.iter().zip(1..) {
            page.add_shifting(tuple, number).expect("fits");
        }
        page
    }

    /// A numeric of digits as a short one of variable length.
    fn numeric_of(is_less: bool, weight: i8, digits: &[u16]) -> Vec<u8> {
        let header = 0x8000 | u16::from(is_less) << 13 | u16::from(weight as u8 & 0x7F);
        let words = std::iter::once(&header).chain(digits);
        let mut bytes = vec![((3 + 2 * digits.len()) << 1 | 1) as u8];
        bytes.extend(words.flat_map(|word| word.to_le_bytes()));
        bytes
    }

    /// Of units of a hundredth of a ten thousandth.
    fn numeric_of_value(value: i64) -> Vec<u8> {
        let size = value.unsigned_abs();
        let digits = [size / 100_000_000, size / 10_000 % 10_000, size % 10_000];
        let first = digits.iter().position(|digit| *digit != 0).unwrap_or(3);
        let digits = digits[first..].iter().map(|digit| *digit as u16);
        let mut digits: Vec<u16> = digits.collect();
        while digits.last() == Some(&0) {
            digits.pop();
        }
        numeric_of(value < 0, 1 - first as i8, &digits)
    }

    fn aligned(mut key: Vec<u8>, to: usize, more: &[u8]) -> Vec<u8> {
        key.resize(key.len().next_multiple_of(to), 0);
        key.extend_from_slice(more);
        key
    }

    /// Pages of tuples in the order of their keys, each of which has these many.
    fn pages(keys: Vec<Vec<u8>>, is_variable: bool, each: usize) -> Vec<Box<PageBytes>> {
        let tuples: Vec<Vec<u8>> = keys.iter().map(|key| tuple(key, is_variable, 1)).collect();
        tuples.chunks(each).map(|tuples| leaf(tuples, 0)).collect()
    }

    fn shape_of(keys: Vec<Vec<u8>>, is_variable: bool) -> Option<Vec<Kind>> {
        let pages = pages(keys, is_variable, 40);
        let pages: Vec<&PageBytes> = pages.iter().map(|page| &**page).collect();
        let shape = KeyShape::of(&pages)?;
        Some(shape.attributes.into_iter().flatten().collect())
    }

    fn scattered(number: u32) -> u32 {
        number.wrapping_mul(0x9E37_79B1)
    }

    #[test]
    fn tells_the_kinds_of_attributes() {
        let numbers = || (0..400_u32).map(|number| i64::from(number) * 977 - 90_000);
        let eight = numbers().map(|number| number.to_le_bytes().to_vec());
        assert_eq!(shape_of(eight.collect(), false), Some(vec![Kind::Word8]));

        let two =
            (0..400_u32).map(|number| [number / 9, number % 9].map(u32::to_le_bytes).concat());
        assert_eq!(
            shape_of(two.collect(), false),
            Some(vec![Kind::Word4, Kind::Word4])
        );

        let numerics = numbers().map(|number| numeric_of_value(number / 90 * 90));
        let followed = numerics.zip(0_u32..);
        let followed = followed.map(|(key, id)| aligned(key, 4, &(id / 3).to_le_bytes()));
        let shape = shape_of(followed.collect(), true).expect("a shape");
        assert_eq!(shape[0], Kind::Numeric);

        let mut texts: Vec<String> = (0..400)
            .map(|number| format!("{:x}{}", scattered(number), "x".repeat(number as usize % 9)))
            .collect();
        texts.sort();
        let texts = texts.iter().map(|text| {
            let header = ((text.len() + 1) << 1 | 1) as u8;
            [&[header], text.as_bytes()].concat()
        });
        assert_eq!(shape_of(texts.collect(), true), Some(vec![Kind::Text]));

        let mut uuids: Vec<Vec<u8>> = (0..400)
            .map(|number| {
                [number; 4]
                    .map(|word| scattered(word).to_be_bytes())
                    .concat()
            })
            .collect();
        uuids.sort();
        assert_eq!(shape_of(uuids, false), Some(vec![Kind::Bytes]));
    }

    #[test]
    fn tells_nothing_of_few_keys_and_of_keys_without_order() {
        let keys = |count: u32| (0..count).map(|key| scattered(key).to_le_bytes().to_vec());
        assert_eq!(shape_of(keys(7).collect(), false), None);
        assert_eq!(shape_of(keys(400).collect(), false), None);
    }

    proptest! {
        #[test]
        fn numerics_are_in_order(one in -(1_i64 << 39)..1 << 39, other in -(1_i64 << 39)..1 << 39) {
            let [first, second] = [one, other].map(|value| {
                let bytes = numeric_of_value(value);
                numeric(&bytes[1..])
            });
            prop_assert!(first.is_some() && second.is_some());
            prop_assert_eq!(first.cmp(&second), one.cmp(&other));
        }

        #[test]
        fn comparing_is_comparing_what_can_be_sorted(
            one in prop::collection::vec(any::<u8>(), 0..40),
            other in prop::collection::vec(any::<u8>(), 0..40),
            kinds in prop::collection::vec(0..KINDS.len(), 1..5),
        ) {
            let mut shape = KeyShape::default();
            for (attribute, kind) in shape.attributes.iter_mut().zip(kinds) {
                *attribute = Some(KINDS[kind]);
            }
            let sortable = shape.sortable(&other);
            prop_assert_eq!(shape.compare(&one, &sortable), shape.sortable(&one).cmp(&sortable));
        }

        #[test]
        fn takes_any_page(bytes in prop::collection::vec(any::<u8>(), PAGE_SIZE), items in 0_u16..300) {
            let mut page: PageBytes = bytes.try_into().expect("a page");
            page.put(12, &(24 + 4 * items).to_le_bytes());
            let _ = KeyShape::of(&[&page, &page]);
        }
    }
}
