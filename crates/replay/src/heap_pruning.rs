//! Which line pointers pruning changes (`heap_page_prune`, `heap_prune_chain` in
//! access/heap/pruneheap.c, 13 to 18), as far as the page and the record's horizon tell.
//!
//! A version is taken to be dead if its insertion is known to be aborted, or if the transaction that
//! deleted or replaced it is not after the horizon: the record has the newest one of those.

use std::cell::OnceCell;

use walzip_pgformat::bytes::{read_u16, read_u32};

use crate::line_changes::LineChanges;
use crate::page::{LinePointer, Page, PageBytes, State, precedes};
use crate::tuple::{self, Fate};

/// Items of chains that are looked at besides twice those of the page.
const SPARE: usize = 16;

/// Tuples that are fetched before they are read.
const FETCHED_AHEAD: u16 = 8;

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

/// What pruning asks of a tuple.
pub struct Version {
    fate: Fate,
    xmin: u32,
    /// The number in `t_ctid`.
    ctid_number: u16,
}

impl Version {
    fn of(tuple: &[u8]) -> Option<Version> {
        Some(Version {
            fate: tuple::fate(tuple)?,
            xmin: read_u32(tuple, 0)?,
            ctid_number: read_u16(tuple, 16)?,
        })
    }

    /// The transaction that deleted or replaced it.
    pub fn ended_by(&self) -> Option<u32> {
        self.fate.ended_by
    }

    fn is_dead(&self, horizon: u32) -> bool {
        let ended = self.fate.ended_by.filter(|_| horizon != 0);
        self.fate.is_aborted || ended.is_some_and(|xmax| !precedes(horizon, xmax))
    }

    /// The next version in the chain and the transaction that made it.
    fn next(&self) -> Option<(u16, u32)> {
        match self.fate.ended_by {
            Some(xmax) if self.fate.is_hot_updated && !self.fate.is_aborted => {
                Some((self.ctid_number, xmax))
            }
            _ => None,
        }
    }
}

/// A page, and the versions on it, which are read once.
pub struct Versions<'p> {
    page: &'p PageBytes,
    read: OnceCell<Vec<Option<Version>>>,
}

impl<'p> Versions<'p> {
    /// Those of a page.
    pub fn of(page: &'p PageBytes) -> Versions<'p> {
        Versions {
            page,
            read: OnceCell::new(),
        }
    }

    /// The page.
    pub fn page(&self) -> &'p PageBytes {
        self.page
    }

    fn read(&self) -> &[Option<Version>] {
        self.read.get_or_init(|| {
            let numbers = 1..=self.page.items();
            let versions = numbers.map(|number| {
                self.page.prefetch_item(number + FETCHED_AHEAD);
                Version::of(self.page.item(number)?)
            });
            versions.collect()
        })
    }

    /// All of them, in the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = &Version> {
        self.read().iter().flatten()
    }

    fn get(&self, number: u16) -> Option<&Version> {
        let place = usize::from(number).checked_sub(1)?;
        self.read().get(place)?.as_ref()
    }
}

/// What is pruned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// The first item of a chain of versions.
    Chain,
    /// A version to which only a chain leads.
    Alone,
    /// It was pruned already, or there is nothing to prune.
    Done,
}

struct Pruned<'v> {
    versions: &'v Versions<'v>,
    pruning: Pruning,
    /// What was pruned already.
    is_done: Vec<bool>,
    changes: LineChanges,
    /// Items of chains that may still be looked at: those of a table are in one chain each.
    left: usize,
    /// The chain that is pruned.
    chain: Vec<u16>,
}

/// The changes that pruning makes. `None` where the page is none.
pub fn expected(versions: &Versions<'_>, pruning: Pruning) -> Option<LineChanges> {
    let page = versions.page();
    let mut state = Pruned {
        versions,
        pruning,
        is_done: vec![false; usize::from(page.items()) + 1],
        changes: LineChanges::default(),
        left: 2 * usize::from(page.items()) + SPARE,
        chain: Vec::new(),
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
                Sort::Chain if turn.contains(&Sort::Chain) => state.prune_chain(number)?,
                Sort::Alone if turn.contains(&Sort::Alone) => state.prune_alone(number)?,
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
        let pointer = self.versions.page().line_pointer(number);
        pointer.map(|pointer| pointer.state)
    }

    fn is_dead(&self, version: &Version) -> bool {
        version.is_dead(self.pruning.horizon)
    }

    /// What an item is.
    fn sort(&self, number: u16) -> Option<Sort> {
        Some(match self.state(number)? {
            _ if self.is_done[usize::from(number)] => Sort::Done,
            State::Unused | State::Dead => Sort::Done,
            State::Redirect => Sort::Chain,
            State::Normal if self.versions.get(number)?.fate.is_heap_only => Sort::Alone,
            State::Normal => Sort::Chain,
        })
    }

    /// Prunes a version that no chain has led to.
    fn prune_alone(&mut self, number: u16) -> Option<()> {
        let version = self.versions.get(number)?;
        if self.is_dead(version) && version.next().is_none() {
            self.set_unused(number);
        }
        Some(())
    }

    fn prune_chain(&mut self, root: u16) -> Option<()> {
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        let dead = self.follow(root, &mut chain)?;
        self.prune_followed(root, &chain, dead)?;
        self.chain = chain;
        Some(())
    }

    /// Prunes a chain that was followed, of which so many items end with the last dead version.
    fn prune_followed(&mut self, root: u16, chain: &[u16], dead: usize) -> Option<()> {
        if dead == 0 {
            if self.state(root)? == State::Redirect && chain.len() < 2 {
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

    /// Finds the items of a chain, up to the first version that lives. Returns how many of them end with the
    /// last dead one.
    fn follow(&mut self, root: u16, chain: &mut Vec<u16>) -> Option<usize> {
        let mut dead = 0;
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
                    number = self.versions.page().line_pointer(number)?.offset;
                    continue;
                }
                Some(State::Normal) => {}
                _ => break,
            }
            let version = self.versions.get(number)?;
            if made_by.is_some_and(|xid| xid != version.xmin) {
                break;
            }
            chain.push(number);
            if !self.is_dead(version) {
                break;
            }
            dead = chain.len();
            let Some((next, xid)) = version.next() else {
                break;
            };
            (number, made_by) = (next, Some(xid));
        }
        Some(dead)
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
