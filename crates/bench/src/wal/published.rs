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
    /// Whether a quick look takes it.
    pub(super) fn is_quick(&self) -> bool {
        QUICK.contains(&(self.contender, self.level))
    }

    pub(super) fn selection(&self) -> Selection {
        Selection {
            name: self.contender,
            level: self.level,
        }
    }
}

/// What a program at a level took where everything that `time -verbose` prints was published: the
/// article's example, of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimedExample {
    /// The command as it was published, without the file.
    pub label: &'static str,
    /// Wall, user and system time.
    pub seconds: [f64; 3],
    /// "Maximum resident set size (kbytes)".
    pub peak_kilobytes: u64,
    /// Page faults that read from a device, and others.
    pub page_faults: [u64; 2],
    /// Context switches, voluntary and not.
    pub context_switches: [u64; 2],
    /// The contender that is the same program today.
    pub contender: &'static str,
    /// The level.
    pub level: u8,
}

impl TimedExample {
    /// Seconds in all, in user mode and in the kernel; the peak in MB; page faults and context
    /// switches.
    pub(super) fn values(&self) -> [f64; 8] {
        let [wall, user, system] = self.seconds;
        let [major, minor] = self.page_faults.map(|faults| faults as f64);
        let [voluntary, involuntary] = self.context_switches.map(|switches| switches as f64);
        let peak = self.peak_kilobytes as f64 * 1024.0 / 1e6;
        [
            wall,
            user,
            system,
            peak,
            major,
            minor,
            voluntary,
            involuntary,
        ]
    }
}

/// The only example of what `time -verbose` printed.
pub const TIMED_EXAMPLE: TimedExample = TimedExample {
    label: "bzip2 -4",
    seconds: [1.66, 1.65, 0.01],
    peak_kilobytes: 3612,
    page_faults: [0, 938],
    context_switches: [1, 13],
    contender: "bzip2",
    level: 4,
};

/// What a quick look takes of the published pairs: the first and the default level of gzip, and
/// what the article recommends or warns of.
const QUICK: [(&str, u8); 11] = [
    ("gzip", 1),
    ("gzip", 6),
    ("bzip2", 9),
    ("xz", 2),
    ("xz", 9),
    ("lrzip-l", 1),
    ("lrzip-z", 9),
    ("7za", 1),
    ("pigz", 1),
    ("lbzip2", 9),
    ("xz-T0", 2),
];

const fn pair(
    label: &'static str,
    compress_s: f64,
    output_mb: f64,
    contender: &'static str,
    level: u8,
) -> Published {
    Published {
        label,
        compress_s,
        output_mb,
        contender,
        level,
    }
}

/// All published pairs of time and size, in the order of the article: tables 1 to 3, "Wall clock
/// time (s)" and "File size (MB)". `7za -bd -mx=1 a test.7za` is shortened. pxz is no longer
/// maintained; xz -T0 does what it did.
#[rustfmt::skip]
pub static PUBLISHED: &[Published] = &[
    pair("gzip -1", 0.271, 4.927, "gzip", 1),
    pair("gzip -2", 0.292, 4.777, "gzip", 2),
    pair("gzip -3", 0.366, 4.667, "gzip", 3),
    pair("gzip -4", 0.381, 4.486, "gzip", 4),
    pair("gzip -5", 0.492, 4.318, "gzip", 5),
    pair("gzip -6", 0.734, 4.250, "gzip", 6),
    pair("gzip -7", 0.991, 4.235, "gzip", 7),
    pair("gzip -8", 2.042, 4.228, "gzip", 8),
    pair("gzip -9", 3.626, 4.227, "gzip", 9),
    pair("bzip2 -1", 1.540, 3.817, "bzip2", 1),
    pair("bzip2 -2", 1.531, 3.688, "bzip2", 2),
    pair("bzip2 -3", 1.570, 3.638, "bzip2", 3),
    pair("bzip2 -4", 1.625, 3.592, "bzip2", 4),
    pair("bzip2 -5", 1.667, 3.587, "bzip2", 5),
    pair("bzip2 -6", 1.707, 3.566, "bzip2", 6),
    pair("bzip2 -7", 1.731, 3.559, "bzip2", 7),
    pair("bzip2 -8", 1.752, 3.557, "bzip2", 8),
    pair("bzip2 -9", 1.784, 3.541, "bzip2", 9),
    pair("xz -1", 0.962, 3.174, "xz", 1),
    pair("xz -2", 1.186, 3.066, "xz", 2),
    pair("xz -3", 5.911, 2.711, "xz", 3),
    pair("xz -4", 6.292, 2.682, "xz", 4),
    pair("xz -5", 6.694, 2.666, "xz", 5),
    pair("xz -6", 8.988, 2.608, "xz", 6),
    pair("xz -7", 9.194, 2.592, "xz", 7),
    pair("xz -8", 9.117, 2.596, "xz", 8),
    pair("xz -9", 9.164, 2.597, "xz", 9),
    pair("lrzip -l -L1", 0.296, 5.712, "lrzip-l", 1),
    pair("lrzip -l -L2", 0.319, 5.686, "lrzip-l", 2),
    pair("lrzip -l -L3", 0.341, 5.645, "lrzip-l", 3),
    pair("lrzip -l -L4", 0.370, 5.639, "lrzip-l", 4),
    pair("lrzip -l -L5", 0.389, 5.627, "lrzip-l", 5),
    pair("lrzip -l -L6", 0.901, 5.501, "lrzip-l", 6),
    pair("lrzip -l -L7", 2.090, 5.462, "lrzip-l", 7),
    pair("lrzip -l -L8", 2.829, 5.471, "lrzip-l", 8),
    pair("lrzip -l -L9", 5.983, 5.463, "lrzip-l", 9),
    pair("lrzip -z -L1", 3.582, 3.353, "lrzip-z", 1),
    pair("lrzip -z -L2", 3.577, 3.342, "lrzip-z", 2),
    pair("lrzip -z -L3", 3.601, 3.326, "lrzip-z", 3),
    pair("lrzip -z -L4", 11.971, 2.799, "lrzip-z", 4),
    pair("lrzip -z -L5", 11.890, 2.741, "lrzip-z", 5),
    pair("lrzip -z -L6", 11.971, 2.751, "lrzip-z", 6),
    pair("lrzip -z -L7", 12.861, 2.750, "lrzip-z", 7),
    pair("lrzip -z -L8", 30.080, 2.483, "lrzip-z", 8),
    pair("lrzip -z -L9", 33.171, 2.482, "lrzip-z", 9),
    pair("7za -mx=1", 0.128, 3.182, "7za", 1),
    pair("7za -mx=2", 0.139, 3.116, "7za", 2),
    pair("7za -mx=3", 0.301, 3.059, "7za", 3),
    pair("7za -mx=4", 1.251, 3.001, "7za", 4),
    pair("7za -mx=5", 3.821, 2.620, "7za", 5),
    pair("7za -mx=6", 3.841, 2.629, "7za", 6),
    pair("7za -mx=7", 4.631, 2.591, "7za", 7),
    pair("7za -mx=8", 4.671, 2.590, "7za", 8),
    pair("7za -mx=9", 4.663, 2.599, "7za", 9),
    pair("pigz -1", 0.051, 4.904, "pigz", 1),
    pair("pigz -2", 0.051, 4.755, "pigz", 2),
    pair("pigz -3", 0.051, 4.645, "pigz", 3),
    pair("pigz -4", 0.051, 4.472, "pigz", 4),
    pair("pigz -5", 0.051, 4.304, "pigz", 5),
    pair("pigz -6", 0.060, 4.255, "pigz", 6),
    pair("pigz -7", 0.081, 4.225, "pigz", 7),
    pair("pigz -8", 0.140, 4.212, "pigz", 8),
    pair("pigz -9", 0.251, 4.214, "pigz", 9),
    pair("lbzip2 -1", 0.135, 3.801, "lbzip2", 1),
    pair("lbzip2 -2", 0.151, 3.664, "lbzip2", 2),
    pair("lbzip2 -3", 0.151, 3.615, "lbzip2", 3),
    pair("lbzip2 -4", 0.151, 3.586, "lbzip2", 4),
    pair("lbzip2 -5", 0.151, 3.562, "lbzip2", 5),
    pair("lbzip2 -6", 0.151, 3.545, "lbzip2", 6),
    pair("lbzip2 -7", 0.150, 3.538, "lbzip2", 7),
    pair("lbzip2 -8", 0.151, 3.524, "lbzip2", 8),
    pair("lbzip2 -9", 0.150, 3.528, "lbzip2", 9),
    pair("pxz -1", 0.135, 3.266, "xz-T0", 1),
    pair("pxz -2", 0.175, 3.095, "xz-T0", 2),
    pair("pxz -3", 1.244, 2.746, "xz-T0", 3),
    pair("pxz -4", 2.528, 2.704, "xz-T0", 4),
    pair("pxz -5", 5.115, 2.679, "xz-T0", 5),
    pair("pxz -6", 9.116, 2.604, "xz-T0", 6),
    pair("pxz -7", 9.255, 2.599, "xz-T0", 7),
    pair("pxz -8", 9.267, 2.595, "xz-T0", 8),
    pair("pxz -9", 9.355, 2.591, "xz-T0", 9),
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

    #[test]
    fn nine_programs_were_published_at_nine_levels_each() {
        let mut of_program = std::collections::BTreeMap::new();
        for pair in PUBLISHED {
            let levels: &mut Vec<u8> = of_program.entry(pair.contender).or_default();
            levels.push(pair.level);
        }
        assert_eq!(of_program.len(), 9);
        for (program, levels) in of_program {
            assert_eq!(levels, [1, 2, 3, 4, 5, 6, 7, 8, 9], "{program}");
        }
        let quick = PUBLISHED.iter().filter(|pair| pair.is_quick());
        assert_eq!(quick.count(), QUICK.len());
    }
}
