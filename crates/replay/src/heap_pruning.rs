//! Which line pointers pruning changes (`heap_page_prune`, `heap_prune_chain` in
//! access/heap/pruneheap.c, 13 to 18), as far as the page and the record's horizon tell.
//!
//! A version is taken to be dead if its insertion is known to be aborted, or if the transaction that
//! deleted or replaced it is not after the horizon: the record has the newest one of those.

use walzip_pgformat::bytes::{read_u16, read_u32};

use crate::line_changes::LineChanges;
use crate::page::{LinePointer, Page, PageBytes, State, precedes};
use crate::tuple;

/// Items of chains that are looked at besides twice those of the page.
const SPARE: usize = 16;

/// What is known of pruning besides the page.
#[derive(Clone, Copy)]
pub struct Pruning {
    /// The newest transaction that deleted or replaced what goes; 0 if there is none.
    pub horizon: u32,
    /// Versions that are in no chain come after the chains, and not in between (17 and later).
    pub chains_first: bool,
    /// Line pointers that no index refers to are not dead, but unused.
    pub leaves_no_dead: bool,
}

/// A version as pruning sees it.
struct Version {
    is_dead: bool,
    is_heap_only: bool,
    xmin: u32,
    /// The next version in the chain and the transaction that made it.
    next: Option<(u16, u32)>,
}

/// What is pruned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// The first item of a chain of versions.
    Chain,
    /// A version to which only a chain leads.
    Alone,
}

struct Pruned<'p> {
    page: &'p PageBytes,
    pruning: Pruning,
    /// What was pruned already.
    is_done: Vec<bool>,
    changes: LineChanges,
    /// Items of chains that may still be looked at: those of a table are in one chain each.
    left: usize,
}

/// The changes that pruning makes. `None` where the page is none.
pub fn expected(page: &PageBytes, pruning: Pruning) -> Option<LineChanges> {
    let mut state = Pruned {
        page,
        pruning,
        is_done: vec![false; usize::from(page.items()) + 1],
        changes: LineChanges::default(),
        left: 2 * usize::from(page.items()) + SPARE,
    };
    if pruning.leaves_no_dead {
        state.changes = expected_of_vacuum(page);
        state.changes.unused.reverse();
    }
    let turns: &[&[Sort]] = match pruning.chains_first {
        true => &[&[Sort::Chain], &[Sort::Alone]],
        false => &[&[Sort::Chain, Sort::Alone]],
    };
    for turn in turns {
        for number in 1..=page.items() {
            match state.sort(number)? {
                Some(Sort::Chain) if turn.contains(&Sort::Chain) => state.prune_chain(number)?,
                Some(Sort::Alone) if turn.contains(&Sort::Alone) => state.prune_alone(number)?,
                _ => {}
            }
        }
    }
    Some(state.changes)
}

/// The line pointers that vacuum's second pass changes: all dead ones.
pub fn expected_of_vacuum(page: &PageBytes) -> LineChanges {
    let is_dead = |number: &u16| page.line_pointer(*number) == Some(LinePointer::DEAD);
    LineChanges {
        unused: (1..=page.items()).filter(is_dead).collect(),
        ..LineChanges::default()
    }
}

impl Pruned<'_> {
    fn state(&self, number: u16) -> Option<State> {
        self.page.line_pointer(number).map(|pointer| pointer.state)
    }

    fn version(&self, number: u16) -> Option<Version> {
        let tuple = self.page.item(number)?;
        let fate = tuple::fate(tuple)?;
        let ended = fate.ended_by.filter(|_| self.pruning.horizon != 0);
        let is_past = ended.is_some_and(|xmax| !precedes(self.pruning.horizon, xmax));
        Some(Version {
            is_dead: fate.is_aborted || is_past,
            is_heap_only: fate.is_heap_only,
            xmin: read_u32(tuple, 0)?,
            next: match fate.ended_by {
                Some(xmax) if fate.is_hot_updated && !fate.is_aborted => {
                    Some((read_u16(tuple, 16)?, xmax))
                }
                _ => None,
            },
        })
    }

    /// What an item is that was not pruned yet.
    fn sort(&self, number: u16) -> Option<Option<Sort>> {
        Some(match self.state(number)? {
            _ if self.is_done[usize::from(number)] => None,
            State::Unused | State::Dead => None,
            State::Redirect => Some(Sort::Chain),
            State::Normal if self.version(number)?.is_heap_only => Some(Sort::Alone),
            State::Normal => Some(Sort::Chain),
        })
    }

    /// Prunes a version that no chain has led to.
    fn prune_alone(&mut self, number: u16) -> Option<()> {
        let version = self.version(number)?;
        if version.is_dead && version.next.is_none() {
            self.set_unused(number);
        }
        Some(())
    }

    fn prune_chain(&mut self, root: u16) -> Option<()> {
        let (chain, dead) = self.chain(root)?;
        let is_redirect = self.state(root)? == State::Redirect;
        if dead == 0 {
            if is_redirect && chain.len() < 2 {
                self.set_dead(root);
            }
            return Some(());
        }
        match chain.get(dead) {
            Some(next) => {
                self.changes.redirected.push((root, *next));
                self.is_done[usize::from(root)] = true;
                self.is_done[usize::from(*next)] = true;
            }
            None => self.set_dead(root),
        }
        for number in &chain[1..dead] {
            self.set_unused(*number);
        }
        Some(())
    }

    /// The items of a chain, up to the first version that lives, and how many of them end with the
    /// last dead one.
    fn chain(&mut self, root: u16) -> Option<(Vec<u16>, usize)> {
        let (mut chain, mut dead) = (Vec::new(), 0);
        let (mut number, mut made_by) = (root, None);
        loop {
            let is_done = self.is_done.get(usize::from(number)).copied();
            if is_done != Some(false) || number == 0 {
                break;
            }
            self.left = self.left.checked_sub(1)?;
            match self.state(number) {
                Some(State::Redirect) if chain.is_empty() => {
                    chain.push(number);
                    number = self.page.line_pointer(number)?.offset;
                    continue;
                }
                Some(State::Normal) => {}
                _ => break,
            }
            let version = self.version(number)?;
            if made_by.is_some_and(|xid| xid != version.xmin) {
                break;
            }
            chain.push(number);
            if !version.is_dead {
                break;
            }
            dead = chain.len();
            let Some((next, xid)) = version.next else {
                break;
            };
            (number, made_by) = (next, Some(xid));
        }
        Some((chain, dead))
    }

    fn set_unused(&mut self, number: u16) {
        self.changes.unused.push(number);
        self.is_done[usize::from(number)] = true;
    }

    fn set_dead(&mut self, number: u16) {
        if self.pruning.leaves_no_dead {
            return self.set_unused(number);
        }
        self.changes.dead.push(number);
        self.is_done[usize::from(number)] = true;
    }
}
