//! What is left of GIN entries that get more rows.
//!
//! The server writes the whole new entry. Where the old one is known, it follows from the rows that
//! were added: the *rest* of the entry is one with the same flags, no key, and only those rows; and not even
//! them where they are expected.

use walzip_pgformat::bytes::read_u16;

use crate::gin_entry::{Entry, entry, key};
use crate::gin_insertion::{ENTRY_HEADER_LEN, NewEntry};
use crate::gin_posting::without;
use crate::gin_rows::GinRows;
use crate::index_tuple::LEN_MASK;
use crate::page::{Page, PageBytes};
use crate::record::Record;

/// What is left of the data of a record with an entry: of one that replaces another, no key, and only the rows
/// that the page has not; no rows if those, or the first ones of them, are expected, and else the key.
/// Returns also whether they are.
pub fn rest(record: &Record<'_>, page: &PageBytes, rows: &GinRows) -> Option<(bool, Vec<u8>)> {
    let insertion = NewEntry::of(record.data(0))?;
    let new = Entry::of(insertion.tuple)?;
    let (key, added) = match insertion.replaces {
        false => (new.key, new.tids),
        true => {
            let old = Entry::of(page.item(insertion.number)?)?;
            if new.flags != old.flags || new.key != old.key {
                return None;
            }
            (&[][..], without(&new.tids, &old.tids)?)
        }
    };
    let mut expected = rows.expected(record, new.key);
    expected.truncate(added.len());
    expected.sort_unstable();
    if !added.is_empty() && expected == added {
        let rest = without_list(new.flags, key, added.len())?;
        return Some((true, with_entry(record, &rest)?));
    }
    match key {
        [] => Some((false, with_entry(record, &entry(new.flags, &[], &added)?)?)),
        _ => None,
    }
}

/// An entry that has the number of its rows, and not the rows.
fn without_list(flags: u16, key: &[u8], rows: usize) -> Option<Vec<u8>> {
    let mut rest = entry(flags, key, &[])?;
    rest.get_mut(4..6)?
        .copy_from_slice(&u16::try_from(rows).ok()?.to_le_bytes());
    Some(rest)
}

/// The reverse of [`rest`]: the data.
pub fn data(
    record: &Record<'_>,
    page: &PageBytes,
    rows: &GinRows,
    is_expected: bool,
) -> Option<Vec<u8>> {
    let new = NewEntry::of(record.data(0))?;
    let flags = read_u16(new.tuple, 6)? & !LEN_MASK;
    let own_key = key(new.tuple)?;
    let (key, mut tids) = match new.replaces {
        true => {
            let old = Entry::of(page.item(new.number)?)?;
            (old.key, old.tids)
        }
        false => (own_key, Vec::new()),
    };
    match is_expected {
        true => {
            let expected = rows.expected(record, key);
            tids.extend_from_slice(expected.get(..read_u16(new.tuple, 4)?.into())?);
        }
        false => tids.extend_from_slice(&Entry::of(new.tuple)?.tids),
    }
    tids.sort_unstable();
    tids.dedup();
    with_entry(record, &entry(flags, key, &tids)?)
}

/// The data of a record, with another entry.
fn with_entry(record: &Record<'_>, entry: &[u8]) -> Option<Vec<u8>> {
    let header = record.data(0).get(..ENTRY_HEADER_LEN)?;
    Some([header, entry].concat())
}
