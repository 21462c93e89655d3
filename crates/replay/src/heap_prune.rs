//! Pruning, vacuum's second pass, and freezing (access/heap/pruneheap.c, vacuumlazy.c).
//!
//! | records | main data | data of the block |
//! |---|---|---|
//! | 13 CLEAN, 14–16 PRUNE | xid u32, redirections u16, dead u16 | pairs, dead, then unused u16 |
//! | 14–16 VACUUM | unused u16 | unused u16 |
//! | 13–15 FREEZE_PAGE | xid u32, tuples u16 | xl_heap_freeze_tuple of 12 bytes each |
//! | 16 FREEZE_PAGE | xid u32, plans u16 | xl_heap_freeze_plan of 12 bytes each, then numbers u16 |
//! | from 17 PRUNE_* | reason u8, flags u8 | parts that the flags name (`xlhp_*`) |

use walzip_pgformat::bytes::{read_u16, read_u32};
use walzip_pgformat::opcode::heap2;

use crate::heap_pruning::{self, Pruning};
use crate::line_changes::LineChanges;
use crate::page::{HAS_FREE_LINES, PAGE_FULL, Page, PageBytes, State, precedes};
use crate::record::Record;
use crate::tuple;

const OPCODE: u8 = 0x70;
const FREEZE_TUPLE_LEN: usize = 12;
const FROZEN_XID: u32 = 2;
/// `XLH_FREEZE_XVAC`
const FREEZE_XVAC: u8 = 0x02;
/// `XLH_INVALID_XVAC`
const INVALID_XVAC: u8 = 0x04;

/// Flags of `xl_heap_prune` from 17 on (`XLHP_*`).
const CLEANUP_LOCK: u8 = 1 << 2;
const HAS_HORIZON: u8 = 1 << 3;
const HAS_FREEZE_PLANS: u8 = 1 << 4;
const HAS_REDIRECTIONS: u8 = 1 << 5;
const HAS_DEAD_ITEMS: u8 = 1 << 6;
const HAS_NOW_UNUSED_ITEMS: u8 = 1 << 7;

/// What a record does to a page.
enum Kind {
    Prune,
    Vacuum,
    Freeze,
    /// All of it, from 17 on.
    Parts,
}

fn kind(record: &Record<'_>) -> Option<Kind> {
    match (record.rules.major(), record.opcode(OPCODE)) {
        (13, heap2::PRUNE) => Some(Kind::Prune),
        (13, heap2::PRUNE_VACUUM_SCAN) => Some(Kind::Freeze),
        (14..=16, heap2::PRUNE) => Some(Kind::Prune),
        (14..=16, heap2::PRUNE_VACUUM_SCAN) => Some(Kind::Vacuum),
        (14..=16, heap2::PRUNE_VACUUM_CLEANUP) => Some(Kind::Freeze),
        (17..=18, heap2::PRUNE..=heap2::PRUNE_VACUUM_CLEANUP) => Some(Kind::Parts),
        _ => None,
    }
}

/// Replays a record on its page.
pub fn redo(record: &Record<'_>, page: &mut PageBytes) -> Option<()> {
    let data = record.data(0);
    match kind(record)? {
        Kind::Prune => {
            let changes = LineChanges::of_prune(record, data)?;
            changes.apply(page)?;
            repair_fragmentation(record, page)
        }
        Kind::Vacuum => {
            let unused = numbers(data)?;
            LineChanges {
                unused,
                ..LineChanges::default()
            }
            .apply(page)?;
            forget_unused(page)
        }
        Kind::Freeze if record.rules.major() < 16 => freeze_tuples(data, page),
        Kind::Freeze => {
            let plans = usize::from(record.main_u16(4)?);
            let (plans, numbers) = data.split_at_checked(plans * FREEZE_TUPLE_LEN)?;
            freeze_plans(plans, numbers, page)
        }
        Kind::Parts => redo_parts(record, data, page),
    }
}

fn numbers(data: &[u8]) -> Option<Vec<u16>> {
    let (numbers, rest) = data.as_chunks::<2>();
    let numbers = numbers.iter().map(|number| u16::from_le_bytes(*number));
    rest.is_empty().then(|| numbers.collect())
}

impl LineChanges {
    fn of_prune(record: &Record<'_>, data: &[u8]) -> Option<LineChanges> {
        let redirected = usize::from(record.main_u16(4)?);
        let dead = usize::from(record.main_u16(6)?);
        let (pairs, rest) = data.split_at_checked(4 * redirected)?;
        let (dead, unused) = rest.split_at_checked(2 * dead)?;
        Some(LineChanges {
            redirected: pairs_of(pairs)?,
            dead: numbers(dead)?,
            unused: numbers(unused)?,
        })
    }

    /// Writes the changes as a record has them. What it freezes is left out.
    fn write(&self, record: &Record<'_>, out: &mut Vec<u8>) -> Option<()> {
        let pairs = self.redirected.iter();
        let pairs: Vec<u16> = pairs.flat_map(|&(from, to)| [from, to]).collect();
        match kind(record)? {
            Kind::Freeze => return None,
            Kind::Vacuum => write_numbers(&self.unused, out),
            Kind::Prune => {
                let counts = (record.main_u16(4)?, record.main_u16(6)?);
                if counts != (self.redirected.len() as u16, self.dead.len() as u16) {
                    return None;
                }
                for numbers in [&pairs, &self.dead, &self.unused] {
                    write_numbers(numbers, out);
                }
            }
            Kind::Parts => {
                let flags = record.main_u8(1)?;
                if flags & HAS_FREEZE_PLANS != 0 {
                    out.extend_from_slice(&[0; 4]);
                }
                for (flag, numbers, each) in [
                    (HAS_REDIRECTIONS, &pairs, 2),
                    (HAS_DEAD_ITEMS, &self.dead, 1),
                    (HAS_NOW_UNUSED_ITEMS, &self.unused, 1),
                ] {
                    if flags & flag != 0 {
                        let count = (numbers.len() / each) as u16;
                        out.extend_from_slice(&count.to_le_bytes());
                        write_numbers(numbers, out);
                    }
                }
            }
        }
        Some(())
    }
}

fn write_numbers(numbers: &[u16], out: &mut Vec<u8>) {
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn pairs_of(data: &[u8]) -> Option<Vec<(u16, u16)>> {
    let numbers = numbers(data)?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    let pairs = pairs.iter().map(|&[from, to]| (from, to));
    rest.is_empty().then(|| pairs.collect())
}

/// `PageRepairFragmentation`
fn repair_fragmentation(record: &Record<'_>, page: &mut PageBytes) -> Option<()> {
    page.compact(record.rules.compacts_by_number())?;
    if record.rules.major() >= 16 {
        page.truncate_line_pointers()?;
    }
    mark_free_lines(page);
    // The server clears it when it prunes; replay does not.
    page.change_flags(0, PAGE_FULL);
    match record.rules.prunes_with_hints() {
        true => leave_hints(record.xid(), page),
        false => Some(()),
    }
}

/// What the server leaves on a page when it prunes it, beside what it logs (`heap_page_prune`): it
/// has looked at each tuple, and knows when pruning may be worth it again. Its own transaction
/// has not ended; others are taken to be.
fn leave_hints(xid: u32, page: &mut PageBytes) -> Option<()> {
    let mut prunable = 0;
    for number in 1..=page.items() {
        if page.line_pointer(number)?.state != State::Normal {
            continue;
        }
        let tuple = page.item_mut(number)?;
        if let Some(xmax) = tuple::leave_hints(tuple, xid)?
            && (prunable == 0 || precedes(xmax, prunable))
        {
            prunable = xmax;
        }
    }
    page.set_prune_xid(prunable);
    Some(())
}

/// `PageTruncateLinePointerArray`
fn forget_unused(page: &mut PageBytes) -> Option<()> {
    page.truncate_line_pointers()?;
    mark_free_lines(page);
    Some(())
}

fn mark_free_lines(page: &mut PageBytes) {
    match page.has_unused() {
        true => page.change_flags(HAS_FREE_LINES, 0),
        false => page.change_flags(0, HAS_FREE_LINES),
    }
}

/// A plan to freeze tuples: xmax u32, infomask2 u16, infomask u16, flags u8.
struct FreezePlan {
    xmax: u32,
    infomask2: u16,
    infomask: u16,
    flags: u8,
}

impl FreezePlan {
    fn apply(&self, page: &mut PageBytes, number: u16) -> Option<()> {
        let tuple = page.item_mut(number)?;
        tuple::set_xmax(tuple, self.xmax)?;
        if self.flags & FREEZE_XVAC != 0 {
            tuple::set_cid(tuple, FROZEN_XID)?;
        }
        if self.flags & INVALID_XVAC != 0 {
            tuple::set_cid(tuple, 0)?;
        }
        tuple::set_masks(tuple, self.infomask2, self.infomask)
    }
}

/// `xl_heap_freeze_tuple`: the number stands behind xmax.
fn freeze_tuples(data: &[u8], page: &mut PageBytes) -> Option<()> {
    for tuple in data.chunks_exact(FREEZE_TUPLE_LEN) {
        let plan = FreezePlan {
            xmax: read_u32(tuple, 0)?,
            infomask2: read_u16(tuple, 6)?,
            infomask: read_u16(tuple, 8)?,
            flags: *tuple.get(10)?,
        };
        plan.apply(page, read_u16(tuple, 4)?)?;
    }
    Some(())
}

/// `xl_heap_freeze_plan`, `xlhp_freeze_plan`: with the count of their tuples, whose numbers follow.
fn freeze_plans(plans: &[u8], numbers_of_all: &[u8], page: &mut PageBytes) -> Option<()> {
    let mut left = numbers(numbers_of_all)?.into_iter();
    for plan in plans.chunks_exact(FREEZE_TUPLE_LEN) {
        let count = read_u16(plan, 10)?;
        let plan = FreezePlan {
            xmax: read_u32(plan, 0)?,
            infomask2: read_u16(plan, 4)?,
            infomask: read_u16(plan, 6)?,
            flags: *plan.get(8)?,
        };
        for number in left.by_ref().take(count.into()) {
            plan.apply(page, number)?;
        }
    }
    Some(())
}

/// Takes the counted parts of a record of 17 and later off the data.
struct Parts<'d>(&'d [u8]);

impl<'d> Parts<'d> {
    fn items(&mut self, is_there: bool, len: usize) -> Option<&'d [u8]> {
        if !is_there {
            return Some(&[]);
        }
        let count = usize::from(read_u16(self.0, 0)?);
        let (items, rest) = self.0.get(2..)?.split_at_checked(count * len)?;
        self.0 = rest;
        Some(items)
    }

    fn plans(&mut self, is_there: bool) -> Option<&'d [u8]> {
        if !is_there {
            return Some(&[]);
        }
        let count = usize::from(read_u16(self.0, 0)?);
        let plans = self.0.get(4..)?;
        let (plans, rest) = plans.split_at_checked(count * FREEZE_TUPLE_LEN)?;
        self.0 = rest;
        Some(plans)
    }
}

fn redo_parts(record: &Record<'_>, data: &[u8], page: &mut PageBytes) -> Option<()> {
    let flags = record.main_u8(1)?;
    let has = |flag| flags & flag != 0;
    let mut parts = Parts(data);
    let plans = parts.plans(has(HAS_FREEZE_PLANS))?;
    let changes = LineChanges {
        redirected: pairs_of(parts.items(has(HAS_REDIRECTIONS), 4)?)?,
        dead: numbers(parts.items(has(HAS_DEAD_ITEMS), 2)?)?,
        unused: numbers(parts.items(has(HAS_NOW_UNUSED_ITEMS), 2)?)?,
    };
    if changes != LineChanges::default() {
        changes.apply(page)?;
        match has(CLEANUP_LOCK) {
            true => repair_fragmentation(record, page)?,
            false => forget_unused(page)?,
        }
    }
    freeze_plans(plans, parts.0, page)
}

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

/// Where the main data have the horizon.
fn horizon_at(record: &Record<'_>) -> Option<usize> {
    match kind(record)? {
        Kind::Prune => Some(0),
        Kind::Parts if record.main_u8(1)? & HAS_HORIZON != 0 => Some(2),
        _ => None,
    }
}

/// The transactions that deleted or replaced tuples of a page, the newest first.
fn horizons(record: &Record<'_>, page: &PageBytes) -> Vec<u32> {
    let tuples = (1..=page.items()).filter_map(|number| page.item(number));
    let ends = tuples.filter_map(|tuple| tuple::fate(tuple)?.ended_by);
    let mut ends: Vec<u32> = ends.collect();
    ends.sort_unstable_by_key(|xid| std::cmp::Reverse(xid.wrapping_sub(record.xid()) as i32));
    ends.dedup();
    ends
}

/// What is left of the main data of a record whose data follow from the page: the place of its horizon
/// among those of the page, and no counts.
pub fn rest_of_main(record: &Record<'_>, page: &PageBytes) -> Option<Vec<u8>> {
    let mut main = record.main().to_vec();
    if let Some(at) = horizon_at(record) {
        let horizon = record.main_u32(at)?;
        let place = match horizon {
            0 => 0,
            _ => {
                horizons(record, page)
                    .iter()
                    .position(|&other| other == horizon)? as u32
                    + 1
            }
        };
        main.get_mut(at..at + 4)?
            .copy_from_slice(&place.to_le_bytes());
    }
    let counts = match kind(record)? {
        Kind::Prune if !tells_vacuum_by_counts(record) => 4..8,
        Kind::Vacuum => 0..2,
        _ => 0..0,
    };
    main.get_mut(counts)?.fill(0);
    Some(main)
}

/// The main data of which [`rest_of_main`] is left.
pub fn whole_main(record: &Record<'_>, page: &PageBytes) -> Option<Vec<u8>> {
    let mut main = record.main().to_vec();
    if let Some(at) = horizon_at(record) {
        let horizon = match record.main_u32(at)?.checked_sub(1) {
            None => 0,
            Some(place) => *horizons(record, page).get(place as usize)?,
        };
        main.get_mut(at..at + 4)?
            .copy_from_slice(&horizon.to_le_bytes());
    }
    let counts = |numbers: &[usize]| {
        let numbers = numbers.iter().flat_map(|len| (*len as u16).to_le_bytes());
        numbers.collect::<Vec<u8>>()
    };
    match kind(record)? {
        Kind::Prune if !tells_vacuum_by_counts(record) => {
            let changes = expected_of_prune(record, read_u32(&main, 0)?, page)?;
            let counts = counts(&[changes.redirected.len(), changes.dead.len()]);
            main.get_mut(4..8)?.copy_from_slice(&counts);
        }
        Kind::Vacuum => {
            let changes = heap_pruning::expected_of_vacuum(page);
            main.get_mut(..2)?
                .copy_from_slice(&counts(&[changes.unused.len()]));
        }
        _ => {}
    }
    Some(main)
}

/// Whether the second pass of a vacuum writes records of pruning too, without redirections and dead
/// line pointers.
fn tells_vacuum_by_counts(record: &Record<'_>) -> bool {
    record.rules.major() == 13
}

/// What pruning changes, up to 16.
fn expected_of_prune(record: &Record<'_>, horizon: u32, page: &PageBytes) -> Option<LineChanges> {
    if tells_vacuum_by_counts(record) && record.main_u32(4)? == 0 {
        return Some(heap_pruning::expected_of_vacuum(page));
    }
    let pruning = Pruning {
        horizon,
        chains_first: false,
        leaves_no_dead: false,
    };
    heap_pruning::expected(page, pruning)
}

/// The data of a record that prunes its page, as they follow from it.
pub fn expected_data(record: &Record<'_>, page: &PageBytes) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    match kind(record).filter(|_| is_foretold(record))? {
        Kind::Prune => {
            let changes = expected_of_prune(record, record.main_u32(0)?, page)?;
            changes.write(record, &mut data)?;
        }
        Kind::Vacuum => heap_pruning::expected_of_vacuum(page).write(record, &mut data)?,
        Kind::Parts => {
            let flags = record.main_u8(1)?;
            let pruning = Pruning {
                horizon: match flags & HAS_HORIZON {
                    0 => 0,
                    _ => record.main_u32(2)?,
                },
                chains_first: true,
                leaves_no_dead: record.opcode(OPCODE) == heap2::PRUNE_VACUUM_SCAN
                    && flags & HAS_DEAD_ITEMS == 0,
            };
            let changes = match record.opcode(OPCODE) {
                heap2::PRUNE_VACUUM_CLEANUP => heap_pruning::expected_of_vacuum(page),
                _ => heap_pruning::expected(page, pruning)?,
            };
            changes.write(record, &mut data)?;
        }
        Kind::Freeze => return None,
    }
    Some(data)
}

/// What a record with an image leaves out: how line pointers changed. What was frozen is seen in
/// the difference.
pub fn omitted(
    record: &Record<'_>,
    before: &PageBytes,
    image: &PageBytes,
    out: &mut Vec<u8>,
) -> Option<()> {
    LineChanges::between(before, image)?.write(record, out)
}
