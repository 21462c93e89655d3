//! What replay goes by.

use walzip_pgformat::Version;

/// What replay does to pages is part of a format. Where it comes to do something else, that is a
/// new revision, and files of the ones before are replayed by theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// Items of a page are moved together in the order of their offsets, whatever the server does.
    First,
    /// Items are moved together as the server does it, and pruning leaves the hints that it does.
    Second,
    /// Records of other indexes than B-trees are replayed too.
    Third,
}

/// The server that wrote records, and the revision that they are replayed by.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The major version of the server.
    pub version: &'static Version,
    /// The revision.
    pub revision: Revision,
}

impl Rules {
    /// The number of the major version.
    pub fn major(&self) -> u32 {
        self.version.major
    }

    /// Items whose offsets are not in the order of their numbers are moved together in the order
    /// of their numbers. Before 14 the server sorted them by their offsets.
    pub fn compacts_by_number(&self) -> bool {
        self.revision >= Revision::Second && self.major() >= 14
    }

    /// One or two items that are removed from an index page leave the others in the order of their
    /// offsets.
    pub fn removes_few_one_by_one(&self) -> bool {
        self.revision >= Revision::Second
    }

    /// Records of other indexes than B-trees are replayed.
    pub fn replays_all(&self) -> bool {
        self.revision >= Revision::Third
    }

    /// Pruning leaves hints.
    pub fn prunes_with_hints(&self) -> bool {
        self.revision >= Revision::Second
    }
}
