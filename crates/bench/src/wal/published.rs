//! What was published: the measurements that people choose by, with where they come from.
//!
//! They were made once, on another machine and on segments that nobody else has. Beside them,
//! results show what the same programs do here.

use serde::Serialize;

use crate::contender::Selection;

/// Where the published figures come from, in one line.
pub const SOURCE: &str = "Greg Sabino Mullane, \"Postgres WAL files: best compression methods\", \
    End Point, 2017-03-28: the mean over 100 segments of 16 MB from production, on 16 cores";

/// How much was measured for a published pair.
pub(super) const VOLUME: &str = "100 segments of 16 MB, 1678 MB";
/// The size of each of these segments.
pub(super) const SEGMENT_BYTES: u64 = 16 << 20;

/// A program at a level, as it was published.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The command as it was published.
    pub label: &'static str,
    /// The mean wall time of compressing a segment.
    pub compress_s: f64,
    /// The mean size of a compressed segment.
    pub output_mb: f64,
    /// The contender that is the same program today.
    pub contender: &'static str,
    /// The level.
    pub level: u8,
}

impl Published {
    pub(super) fn selection(&self) -> Selection {
        Selection {
            name: self.contender,
            level: self.level,
        }
    }
}

/// Eleven of the 81 published pairs of time and size, in the order of the article: tables 1 to 3,
/// "Wall clock time (s)" and "File size (MB)". `7za -bd -mx=1 a test.7za` is shortened.
#[rustfmt::skip]
pub static PUBLISHED: &[Published] = &[
    Published { label: "gzip -1", compress_s: 0.271, output_mb: 4.927, contender: "gzip", level: 1 },
    Published { label: "gzip -6", compress_s: 0.734, output_mb: 4.250, contender: "gzip", level: 6 },
    Published { label: "bzip2 -9", compress_s: 1.784, output_mb: 3.541, contender: "bzip2", level: 9 },
    Published { label: "xz -2", compress_s: 1.186, output_mb: 3.066, contender: "xz", level: 2 },
    Published { label: "xz -9", compress_s: 9.164, output_mb: 2.597, contender: "xz", level: 9 },
    Published { label: "lrzip -l -L1", compress_s: 0.296, output_mb: 5.712, contender: "lrzip-l", level: 1 },
    Published { label: "lrzip -z -L9", compress_s: 33.171, output_mb: 2.482, contender: "lrzip-z", level: 9 },
    Published { label: "7za -mx=1", compress_s: 0.128, output_mb: 3.182, contender: "7za", level: 1 },
    Published { label: "pigz -1", compress_s: 0.051, output_mb: 4.904, contender: "pigz", level: 1 },
    Published { label: "lbzip2 -9", compress_s: 0.150, output_mb: 3.528, contender: "lbzip2", level: 9 },
    // pxz is no longer maintained; xz -T0 does what it did.
    Published { label: "pxz -2", compress_s: 0.175, output_mb: 3.095, contender: "xz-T0", level: 2 },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Contender;

    #[test]
    fn each_published_pair_is_a_contender_at_one_of_its_levels() {
        for pair in PUBLISHED {
            let contender = Contender::named(pair.contender).unwrap();
            assert!(contender.levels.contains(&pair.level), "{}", pair.label);
        }
    }
}
