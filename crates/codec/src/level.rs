//! How hard to try.

use std::fmt;

/// A compression level: 1 is the fastest, 9 the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    /// The fastest level.
    pub const MIN: Level = Level(1);
    /// The smallest one that is fast.
    pub const STRONG: Level = Level(6);
    /// The smallest level.
    pub const MAX: Level = Level(9);

    /// The level of a number from 1 to 9.
    pub fn new(level: u8) -> Option<Level> {
        (1..=9).contains(&level).then_some(Level(level))
    }

    /// The next faster level; the fastest one's own.
    pub const fn below(self) -> Level {
        match self.0 {
            0 | 1 => Level::MIN,
            level => Level(level - 1),
        }
    }

    /// The next slower level; the slowest one's own.
    pub const fn above(self) -> Level {
        match self.0 {
            9.. => Level::MAX,
            level => Level(level + 1),
        }
    }

    /// Whether chunks of an index are worth the time that it takes to sort the rows of its table.
    pub fn tells_indexes(self) -> bool {
        self.0 >= 3
    }

    /// The level's number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for Level {
    fn default() -> Self {
        Level(3)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
