//! What was seen of WAL files that were proven, and has to be known of others.

use std::collections::{BTreeMap, BTreeSet};

use walzip_pgformat::Lsn;
use walzip_pgformat::wal::SegmentEdges;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};

use crate::archived::neighbours::Neighbours;
use crate::archived::wal_object::Proven;

/// What was seen of files that were proven.
#[derive(Default)]
pub(super) struct Seen {
    /// Those that are whole.
    pub(super) whole: BTreeSet<String>,
    /// Those of which no other object has to be read again.
    pub(super) neighbours: Neighbours,
    /// Where the server changed to `wal_level = minimal`.
    pub(super) minimal_wal: Vec<MinimalWal>,
    /// Objects of segments' own that came after a pack: they count where the pack cannot be decoded.
    pub(super) late: BTreeMap<String, Proven>,
}

/// A change to `wal_level = minimal`. What a server changes after it is not all in the WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MinimalWal {
    pub(super) segment: SegmentName,
    pub(super) lsn: Lsn,
}

impl Seen {
    /// Takes an object that was proven, and came after a pack.
    pub(super) fn add_late(&mut self, name: &str, proven: Proven) {
        self.whole.insert(name.to_owned());
        self.late.insert(name.to_owned(), proven);
    }

    /// Takes those of which no pack gave the segment.
    pub(super) fn add_those_left(&mut self) {
        for (name, proven) in std::mem::take(&mut self.late) {
            self.add(&name, proven.edges, &proven.minimal_wal);
        }
    }

    /// Takes a file that was proven.
    pub(super) fn add(&mut self, name: &str, edges: Option<SegmentEdges>, minimal_wal: &[Lsn]) {
        self.whole.insert(name.to_owned());
        self.neighbours.add(name, edges);
        if let Ok(WalFileName::Segment(segment)) = name.parse() {
            let found = minimal_wal.iter();
            self.minimal_wal
                .extend(found.map(|&lsn| MinimalWal { segment, lsn }));
        }
    }
}
