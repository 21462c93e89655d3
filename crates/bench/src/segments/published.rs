//! What was published: the reference that people quote, with where it comes from.
//!
//! The article has no table. Each figure is a line that `time` printed for a loop over all files:
//! "real", "user" and "sys". The second loop of cp names the directory of the 16 MB files and runs
//! over the 25 names of the large ones: 400 MB, a quarter of what the others copied.

use serde::Serialize;

/// Where the published figures come from, in one line.
pub const SOURCE: &str = "Daniel Westermann, \"Does the wal segment size matter in PostgreSQL?\", \
    dbi services: zeros, 100 files of 16 MB against 25 of 64 MB, cp locally, scp and rsync to a \
    host that is not named. cp of 64 MB has no figure: its loop copied 25 of the 16 MB files, a \
    quarter of the bytes, in 5.4 s";

/// How many bytes were archived by each method and size.
pub(super) const TOTAL_BYTES: u64 = 1600 << 20;

/// What `time` printed for one loop, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timed {
    /// "real".
    pub wall_s: f64,
    /// "user".
    pub user_s: f64,
    /// "sys".
    pub system_s: f64,
}

/// What a method took for all files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The method.
    #[serde(rename = "way")]
    pub method: &'static str,
    /// For 100 files of 16 MB.
    pub of_16_mb: Timed,
    /// For 25 files of 64 MB, where that was measured.
    pub of_64_mb: Option<Timed>,
}

impl Published {
    /// What was published for a size of segments, in MB.
    pub(super) fn timed(&self, megabytes: u64) -> Option<Timed> {
        match megabytes {
            16 => Some(self.of_16_mb),
            64 => self.of_64_mb,
            _ => None,
        }
    }
}

const fn timed(wall_s: f64, user_s: f64, system_s: f64) -> Timed {
    Timed {
        wall_s,
        user_s,
        system_s,
    }
}

/// Every published pair.
pub static PUBLISHED: &[Published] = &[
    Published {
        method: "cp",
        of_16_mb: timed(17.444, 0.275, 8.569),
        of_64_mb: None,
    },
    Published {
        method: "scp",
        of_16_mb: timed(171.708, 14.136, 35.292),
        of_64_mb: Some(timed(83.326, 10.353, 30.814)),
    },
    Published {
        method: "rsync",
        of_16_mb: timed(51.624, 4.488, 10.247),
        of_64_mb: Some(timed(34.342, 3.623, 9.685)),
    },
];
