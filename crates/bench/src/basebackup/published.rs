//! What was published about base backups: ranks over all data sets, and what was fastest and
//! smallest on each.
//!
//! Sizes are printed by PostgreSQL's `pg_size_pretty`, so "MB" and "GB" are of 1024.

use serde::Serialize;

/// Where the published figures come from, in one line.
pub const SOURCE: &str = "Kaarel Moppel, \"Best pg_basebackup compression settings for v15 and \
    above\", 2024-03-27: PostgreSQL 16.2, 4 processors, seven data sets of 107 GB together";

/// Methods and levels with their average rank among each other, of the table "By both speed + size
/// normalized scores avg rank per dataset", column avg_per_dataset_rank.
///
/// In the order of the published command line.
#[rustfmt::skip]
pub static PUBLISHED: &[(&str, u8, f64)] = &[
    ("gzip", 1, 5.0), ("gzip", 3, 6.7), ("gzip", 5, 8.7), ("gzip", 7, 11.3),
    ("lz4", 1, 1.3), ("lz4", 3, 4.0), ("lz4", 5, 6.3), ("lz4", 7, 9.0),
    ("zstd", 1, 1.7), ("zstd", 5, 3.1), ("zstd", 9, 9.1), ("zstd", 13, 11.7),
];

/// A data set, and what was published of its backups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedSet {
    /// Its name.
    pub name: &'static str,
    /// What it takes on the server, in GB.
    pub gigabytes: f64,
    /// The fastest backup: of the table "Fastest per dataset".
    pub fastest: PublishedBackup,
    /// The smallest: of the table "Smallest output per dataset".
    pub smallest: PublishedBackup,
    /// The mean time of the backups by all twelve methods and levels.
    pub average_seconds: f64,
    /// The mean size of all of them, as it was printed.
    pub average_size: &'static str,
}

impl PublishedSet {
    /// The published data set that one of this name and size is, if it is one.
    pub(super) fn same_as(name: &str, bytes: Option<u64>) -> Option<&'static PublishedSet> {
        let set = PUBLISHED_SETS.iter().find(|set| set.name == name)?;
        let published = set.gigabytes * f64::from(1_u32 << 30);
        // What was downloaded later has grown.
        let is_alike = |bytes: u64| (0.8..1.5).contains(&(bytes as f64 / published));
        bytes.is_some_and(is_alike).then_some(set)
    }
}

/// The best backup of a data set by one measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedBackup {
    /// The method.
    pub method: &'static str,
    /// The level.
    pub level: u8,
    /// The time that it took.
    pub seconds: f64,
    /// Its size, as it was printed.
    pub size: &'static str,
}

const fn set(
    name: &'static str,
    gigabytes: f64,
    (fastest_s, fastest_size): (f64, &'static str),
    (smallest_s, smallest_size): (f64, &'static str),
    (average_seconds, average_size): (f64, &'static str),
) -> PublishedSet {
    // The same method and level are in each row of either table.
    PublishedSet {
        name,
        gigabytes,
        fastest: PublishedBackup {
            method: "lz4",
            level: 1,
            seconds: fastest_s,
            size: fastest_size,
        },
        smallest: PublishedBackup {
            method: "zstd",
            level: 13,
            seconds: smallest_s,
            size: smallest_size,
        },
        average_seconds,
        average_size,
    }
}

/// Every published data set.
#[rustfmt::skip]
pub static PUBLISHED_SETS: &[PublishedSet] = &[
    set("imdb", 8.5, (15.6, "4088 MB"), (667.5, "1986 MB"), (222.2, "2812 MB")),
    set("mouse_genome", 65.0, (138.0, "21 GB"), (2970.1, "9021 MB"), (1136.9, "14 GB")),
    set("nyc_taxi_rides", 5.2, (12.5, "2061 MB"), (522.0, "1058 MB"), (140.0, "1448 MB")),
    set("osm_australia", 6.2, (11.5, "4633 MB"), (531.3, "3447 MB"), (192.2, "3748 MB")),
    set("pgbench", 15.0, (8.0, "1640 MB"), (234.5, "569 MB"), (92.1, "979 MB")),
    set("postgrespro_demodb_big", 2.6, (4.6, "875 MB"), (167.9, "468 MB"), (51.9, "624 MB")),
    set("stackexchange_askubuntu", 5.2, (11.1, "2411 MB"), (516.9, "1356 MB"), (132.6, "1778 MB")),
];
