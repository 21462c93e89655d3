//! The first two pages of segments of every major, for tests that need no samples.

/// The workload and the pages; those of 19 are of its first release candidate.
pub const BEGINNINGS: &[(&str, &[u8])] = &[
    ("pg13-oltp", include_bytes!("../data/wal/pg13-oltp")),
    ("pg14-oltp-on", include_bytes!("../data/wal/pg14-oltp-on")),
    ("pgbench-lz4", include_bytes!("../data/wal/pgbench-lz4")),
    ("pg16-oltp", include_bytes!("../data/wal/pg16-oltp")),
    ("pg17-oltp", include_bytes!("../data/wal/pg17-oltp")),
    (
        "pg18-oltp-pglz",
        include_bytes!("../data/wal/pg18-oltp-pglz"),
    ),
    ("pg19-pgbench", include_bytes!("../data/wal/pg19-pgbench")),
];
