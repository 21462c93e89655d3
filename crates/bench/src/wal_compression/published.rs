//! What was published about `wal_compression`, with where it comes from: two articles.
//!
//! The first gives a "moderate ~6%" and a "255% difference" of the WAL with and without
//! `wal_compression`, and does not say of which. As a share of the larger, 255 %
//! is impossible, so both are taken as what off has beyond on. The other has them in its table 4,
//! "Total size of WAL files (MB)".

use serde::Serialize;

/// A figure as it was published.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// What it is a figure of.
    pub what: &'static str,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Where it was published.
    pub source: &'static str,
}

/// pgbench at scale 100 and 200,000 transactions, on a server as it was set up.
const CYBERTEC: &str = "Cybertec, \"PostgreSQL underused features - WAL compression\"";
/// Under the article: one machine, four times, and not said with what data.
const READER: &str = "a reader's comment on Cybertec's \"PostgreSQL underused features - WAL \
    compression\"";
const END_POINT: &str = "End Point, \"Postgres WAL files: best compression methods\", 2017-03-28";

/// How much more WAL loading wrote without compression: "~6%".
pub(super) const LOAD: Published = Published {
    what: "loading: WAL without compression, beyond that with pglz (about)",
    value: 6.0,
    unit: "%",
    source: CYBERTEC,
};
/// How much more WAL random updates wrote without compression: "255%".
pub(super) const TRANSACTIONS: Published = Published {
    what: "transactions: WAL without compression, beyond that with pglz",
    value: 255.0,
    unit: "%",
    source: CYBERTEC,
};
/// WAL that nothing compressed: row "No modifications".
pub(super) const PLAIN: Published = Published {
    what: "WAL without any compression",
    value: 208.1,
    unit: "MB",
    source: END_POINT,
};
/// The same with wal_compression: row "wal_compression enabled".
pub(super) const BY_SERVER: Published = Published {
    what: "the same with wal_compression",
    value: 81.0,
    unit: "MB",
    source: END_POINT,
};
/// The same by a program: row "xz -2".
pub(super) const BY_PROGRAM: Published = Published {
    what: "the same by xz -2 alone",
    value: 8.6,
    unit: "MB",
    source: END_POINT,
};
/// The same by both: row "wal_compression enabled PLUS xz -2".
pub(super) const BY_BOTH: Published = Published {
    what: "the same by both",
    value: 9.4,
    unit: "MB",
    source: END_POINT,
};

/// How much faster a reader's inserts were with it: "INSERT were 22% faster".
pub(super) const INSERTS: Published = Published {
    what: "a reader's inserts: faster with wal_compression",
    value: 22.0,
    unit: "%",
    source: READER,
};
/// How much faster a reader's updates were with it: "UPDATES were 31% faster".
pub(super) const UPDATES: Published = Published {
    what: "a reader's updates: faster with wal_compression",
    value: 31.0,
    unit: "%",
    source: READER,
};

/// How many rows the reader inserted and updated: "15,00,000 rows".
pub const READERS_ROWS: u64 = 1_500_000;

/// Every published figure.
pub static PUBLISHED: &[Published] = &[
    LOAD,
    TRANSACTIONS,
    PLAIN,
    BY_SERVER,
    BY_PROGRAM,
    BY_BOTH,
    INSERTS,
    UPDATES,
];
