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

use crate::line_changes::LineChanges;
use crate::page::{HAS_FREE_LINES, PAGE_FULL, Page, PageBytes, State, precedes};
use crate::record::Record;
use crate::tuple;

/// Info bits of the type of a record.
pub const OPCODE: u8 = 0x70;
const FREEZE_TUPLE_LEN: usize = 12;
const FROZEN_XID: u32 = 2;
/// `XLH_FREEZE_XVAC`
const FREEZE_XVAC: u8 = 0x02;
/// `XLH_INVALID_XVAC`
const INVALID_XVAC: u8 = 0x04;

/// Flags of `xl_heap_prune` from 17 on (`XLHP_*`).
const CLEANUP_LOCK: u8 = 1 << 2;
pub const HAS_HORIZON: u8 = 1 << 3;
pub const HAS_FREEZE_PLANS: u8 = 1 << 4;
const HAS_REDIRECTIONS: u8 = 1 << 5;
pub const HAS_DEAD_ITEMS: u8 = 1 << 6;
const HAS_NOW_UNUSED_ITEMS: u8 = 1 << 7;

/// What a record does to a page.
pub enum Kind {
    Prune,
    Vacuum,
    Freeze,
    /// All of it, from 17 on.
    Parts,
}

/// What a record does, if it is one of these.
pub fn kind(record: &Record<'_>) -> Option<Kind> {
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

    /// Writes the changes as a record with these main data has them. What it freezes is left out.
    pub fn write(&self, record: &Record<'_>, main: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let pairs = self.redirected.iter();
        let pairs: Vec<u16> = pairs.flat_map(|&(from, to)| [from, to]).collect();
        match kind(record)? {
            Kind::Freeze => return None,
            Kind::Vacuum => write_numbers(&self.unused, out),
            Kind::Prune => {
                let counts = (read_u16(main, 4)?, read_u16(main, 6)?);
                if counts != (self.redirected.len() as u16, self.dead.len() as u16) {
                    return None;
                }
                for numbers in [&pairs, &self.dead, &self.unused] {
                    write_numbers(numbers, out);
                }
            }
            Kind::Parts => {
                let flags = *main.get(1)?;
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

/// What a record with an image leaves out: how line pointers changed. What was frozen is seen in
/// the difference.
pub fn omitted(
    record: &Record<'_>,
    before: &PageBytes,
    image: &PageBytes,
    out: &mut Vec<u8>,
) -> Option<()> {
    LineChanges::between(before, image)?.write(record, record.main(), out)
}
