//! What is left of records that prune a page of a table.
//!
//! A record has the line pointers that change, and the newest transaction that ended one of the versions that
//! go: the *horizon*. Where the page is known, the line pointers follow from it and the horizon, and the *rest*
//! of the record has none; nor their counts; and of the horizon only its place among the transactions of the page.

use walzip_pgformat::bytes::read_u32;
use walzip_pgformat::opcode::heap2;

use crate::heap_prune::{HAS_DEAD_ITEMS, HAS_FREEZE_PLANS, HAS_HORIZON, Kind, OPCODE, kind};
use crate::heap_pruning::{Pruning, Versions, expected, expected_of_vacuum};
use crate::line_changes::LineChanges;
use crate::page::PageBytes;
use crate::record::Record;

/// Whether a record has data that may follow from its page.
pub fn is_foretold(record: &Record<'_>) -> bool {
    match kind(record) {
        Some(Kind::Prune | Kind::Vacuum) => true,
        Some(Kind::Parts) => record
            .main_u8(1)
            .is_some_and(|flags| flags & HAS_FREEZE_PLANS == 0),
        _ => false,
    }
}

/// What is left of the main data of a record whose data follow.
pub enum MainLeft {
    /// All.
    All,
    /// These.
    Part(Vec<u8>),
}

/// What is left of a record, if its data follow from the page: [`whole`] makes the record of it again.
pub fn rest(record: &Record<'_>, page: &PageBytes) -> Option<MainLeft> {
    let versions = Versions::of(page);
    let main = record.main();
    let changes = changes(record, main, &versions)?;
    let is_expected = data(&changes, record, main)? == record.data(0);
    is_expected.then(|| {
        let rest = rest_of_main(record, &changes, &versions);
        rest.map_or(MainLeft::All, MainLeft::Part)
    })
}

/// The main data and the data of a record of which the rest is left. `has_all_main`: nothing was taken out of the
/// main data.
pub fn whole(
    record: &Record<'_>,
    page: &PageBytes,
    has_all_main: bool,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let versions = Versions::of(page);
    let mut main = record.main().to_vec();
    if !has_all_main && let Some(at) = horizon_at(record) {
        let horizon = match read_u32(&main, at)?.checked_sub(1) {
            None => 0,
            Some(place) => *horizons(record, &versions).get(place as usize)?,
        };
        put_u32(&mut main, at, horizon)?;
    }
    let changes = changes(record, &main, &versions)?;
    if !has_all_main {
        put_counts(record, &changes, &mut main)?;
    }
    let data = data(&changes, record, &main)?;
    Some((main, data))
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) -> Option<()> {
    bytes
        .get_mut(at..at + 4)?
        .copy_from_slice(&value.to_le_bytes());
    Some(())
}

/// The changes of a record with these main data, as they follow from the page.
fn changes(record: &Record<'_>, main: &[u8], versions: &Versions<'_>) -> Option<LineChanges> {
    let pruning = match kind(record).filter(|_| is_foretold(record))? {
        Kind::Freeze => return None,
        Kind::Vacuum => return Some(expected_of_vacuum(versions.page())),
        Kind::Prune if tells_vacuum_by_counts(record) && read_u32(main, 4)? == 0 => {
            return Some(expected_of_vacuum(versions.page()));
        }
        Kind::Prune => Pruning {
            horizon: read_u32(main, 0)?,
            chains_first: false,
            leaves_no_dead: false,
        },
        Kind::Parts if record.opcode(OPCODE) == heap2::PRUNE_VACUUM_CLEANUP => {
            return Some(expected_of_vacuum(versions.page()));
        }
        Kind::Parts => Pruning {
            horizon: horizon_at(record).map_or(Some(0), |at| read_u32(main, at))?,
            chains_first: true,
            leaves_no_dead: record.opcode(OPCODE) == heap2::PRUNE_VACUUM_SCAN
                && main.get(1)? & HAS_DEAD_ITEMS == 0,
        },
    };
    expected(versions, pruning)
}

fn data(changes: &LineChanges, record: &Record<'_>, main: &[u8]) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    changes.write(record, main, &mut data)?;
    Some(data)
}

/// Whether the second pass of a vacuum writes records of pruning too, without redirections and dead
/// line pointers.
fn tells_vacuum_by_counts(record: &Record<'_>) -> bool {
    record.rules.major() == 13
}

/// Where the main data have the horizon.
fn horizon_at(record: &Record<'_>) -> Option<usize> {
    match kind(record)? {
        Kind::Prune => Some(0),
        Kind::Parts if record.main_u8(1)? & HAS_HORIZON != 0 => Some(2),
        _ => None,
    }
}

/// The transactions that deleted or replaced tuples of a page, the newest first.
fn horizons(record: &Record<'_>, versions: &Versions<'_>) -> Vec<u32> {
    let mut ends: Vec<u32> = versions.all().filter_map(|one| one.ended_by()).collect();
    ends.sort_unstable_by_key(|xid| std::cmp::Reverse(xid.wrapping_sub(record.xid()) as i32));
    ends.dedup();
    ends
}

/// Where the main data have counts that follow.
fn counts_at(record: &Record<'_>) -> Option<std::ops::Range<usize>> {
    match kind(record)? {
        Kind::Prune if !tells_vacuum_by_counts(record) => Some(4..8),
        Kind::Vacuum => Some(0..2),
        _ => None,
    }
}

fn put_counts(record: &Record<'_>, changes: &LineChanges, main: &mut [u8]) -> Option<()> {
    let Some(at) = counts_at(record) else {
        return Some(());
    };
    let counts = match at.len() {
        2 => vec![changes.unused.len()],
        _ => vec![changes.redirected.len(), changes.dead.len()],
    };
    let counts = counts.iter().flat_map(|len| (*len as u16).to_le_bytes());
    let counts: Vec<u8> = counts.collect();
    main.get_mut(at)?.copy_from_slice(&counts);
    Some(())
}

/// The place of the horizon among those of the page instead of it, and no counts, if these are those of the changes.
fn rest_of_main(
    record: &Record<'_>,
    changes: &LineChanges,
    versions: &Versions<'_>,
) -> Option<Vec<u8>> {
    let mut main = record.main().to_vec();
    put_counts(record, changes, &mut main)?;
    if main != record.main() {
        return None;
    }
    if let Some(at) = horizon_at(record) {
        let horizon = read_u32(&main, at)?;
        let place = match horizon {
            0 => 0,
            _ => {
                let mut others = horizons(record, versions).into_iter();
                others.position(|other| other == horizon)? as u32 + 1
            }
        };
        put_u32(&mut main, at, place)?;
    }
    if let Some(counts) = counts_at(record) {
        main.get_mut(counts)?.fill(0);
    }
    Some(main)
}
