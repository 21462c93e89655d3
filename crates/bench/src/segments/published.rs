//! What was published: the reference that people quote, with where it comes from.

use serde::Serialize;

/// Where the published figures come from, in one line.
pub const SOURCE: &str = "Daniel Westermann, \"Does the wal segment size matter in PostgreSQL?\", \
    dbi services: zeros, 100 files of 16 MB against 25 of 64 MB, scp and rsync to another machine. \
    The loop for cp copied the 16 MB files again instead of the 64 MB ones";

/// How many bytes were archived in each way and size.
pub(super) const TOTAL_BYTES: u64 = 1600 << 20;

/// What a way took for all files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The way.
    pub way: &'static str,
    /// Seconds for 100 files of 16 MB.
    pub seconds_16: f64,
    /// Seconds for 25 files of 64 MB.
    pub seconds_64: f64,
}

/// Every published pair.
pub static PUBLISHED: &[Published] = &[
    Published {
        way: "cp",
        seconds_16: 17.4,
        seconds_64: 5.4,
    },
    Published {
        way: "scp",
        seconds_16: 171.7,
        seconds_64: 83.3,
    },
    Published {
        way: "rsync",
        seconds_16: 51.6,
        seconds_64: 34.3,
    },
];
