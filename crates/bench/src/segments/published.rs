//! What was published: the reference that people quote, with where it comes from.
//!
//! The article has no table. Each figure is the line "real" that `time` printed for a loop over
//! all files: cp 0m17.444s and 0m5.365s, scp 2m51.708s and 1m23.326s, rsync 0m51.624s and
//! 0m34.342s. The second loop of cp names the directory of the 16 MB files and runs over the 25
//! names of the large ones: 400 MB, a quarter of what the others copied.

use serde::Serialize;

/// Where the published figures come from, in one line.
pub const SOURCE: &str = "Daniel Westermann, \"Does the wal segment size matter in PostgreSQL?\", \
    dbi services: zeros, 100 files of 16 MB against 25 of 64 MB, cp locally, scp and rsync to a \
    host that is not named. cp of 64 MB has no figure: its loop copied 25 of the 16 MB files, a \
    quarter of the bytes, in 5.4 s";

/// How many bytes were archived by each method and size.
pub(super) const TOTAL_BYTES: u64 = 1600 << 20;

/// What a method took for all files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The method.
    #[serde(rename = "way")]
    pub method: &'static str,
    /// Seconds for 100 files of 16 MB.
    pub seconds_16: f64,
    /// Seconds for 25 files of 64 MB, where that was measured.
    pub seconds_64: Option<f64>,
}

/// Every published pair.
pub static PUBLISHED: &[Published] = &[
    Published {
        method: "cp",
        seconds_16: 17.4,
        seconds_64: None,
    },
    Published {
        method: "scp",
        seconds_16: 171.7,
        seconds_64: Some(83.3),
    },
    Published {
        method: "rsync",
        seconds_16: 51.6,
        seconds_64: Some(34.3),
    },
];
