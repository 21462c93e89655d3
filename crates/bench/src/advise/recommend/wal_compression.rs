//! `wal_compression`: what the server does to full-page images before it writes them.

use super::{Recommendation, Saves, percent};
use crate::advise::{Advice, Server, WhatIf};
use crate::text::bytes;

/// Below this share of images there is hardly anything to compress.
const SHARE_MIN: f64 = 0.05;
/// Archives that differ by no more count as equal.
const EQUAL_ARCHIVE: f64 = 1.05;
/// WAL that is no more larger is worth the processor time that it saves.
const EQUAL_WAL: f64 = 1.10;

impl Advice {
    pub(super) fn wal_compression(&self) -> Recommendation {
        let subject = "wal_compression";
        let share = self.wal.image_share();
        let present = self.what_if.iter().find(|what_if| what_if.present);
        let mut reasons = vec![self.what_images_are(share)];
        let best = self.best_setting_behind(self.chosen_or_default());
        let (Some(best), Some(present)) = (best, present) else {
            return Recommendation {
                subject,
                advice: "nothing to say: no segment could be rewritten".to_owned(),
                reasons,
                ..Recommendation::default()
            };
        };
        if !self.has_images() {
            reasons.push("so the setting hardly matters".to_owned());
            return Recommendation {
                subject,
                advice: format!("leave it as it is ({})", present.setting),
                reasons,
                ..Recommendation::default()
            };
        }
        reasons.extend(
            self.what_if
                .iter()
                .map(|what_if| self.outcome(what_if, present)),
        );
        reasons.push(
            "measured by compressing the very images of the sample and writing its records again"
                .to_owned(),
        );
        let is_known = |server: &Server| server.wal_compression_values.is_some();
        if !matches!(best.setting, "off" | "pglz") && !self.server.as_ref().is_some_and(is_known) {
            reasons.push(format!(
                "the server has to be built with {}; most packages are",
                best.setting
            ));
        }
        let saved_share = 1.0 - best.wal_bytes as f64 / present.wal_bytes.max(1) as f64;
        let per_day = self.wal_bytes_per_day();
        Recommendation {
            subject,
            advice: self.spelled(best),
            change: best.setting != present.setting,
            reasons,
            saves_bytes_per_day: per_day.map(|per_day| per_day * saved_share),
            saves_of: Saves::Written,
            saves_per_month: None,
        }
    }

    /// Whether the setting matters.
    pub(in crate::advise) fn has_images(&self) -> bool {
        self.wal.image_share() >= SHARE_MIN
    }

    /// Before 15, the setting knows only off and on.
    pub(in crate::advise) fn spelled(&self, what_if: &WhatIf) -> String {
        match (what_if.setting, self.wal.majors.last()) {
            ("pglz", Some(..15)) => "on (pglz)".to_owned(),
            (setting, _) => setting.to_owned(),
        }
    }

    fn what_images_are(&self, share: f64) -> String {
        let mut kinds: Vec<_> = self.wal.contents.images.iter().collect();
        kinds.sort_by_key(|(kind, _)| *kind);
        let kinds: Vec<String> = kinds
            .iter()
            .map(|(kind, counts)| format!("{} {}", counts.images, kind.compression))
            .collect();
        let methods = match kinds.is_empty() {
            true => String::new(),
            false => format!(" (images by compression: {})", kinds.join(", ")),
        };
        format!("{} of the WAL is full-page images{methods}", percent(share))
    }

    /// Of what the server can do, by what the archive would be; where that is equal, by the WAL; where that is, by time.
    pub(in crate::advise) fn best_setting_behind(&self, label: Option<&str>) -> Option<&WhatIf> {
        let is_possible = |what_if: &&WhatIf| {
            let server = self.server.as_ref();
            server.is_none_or(|server| server.can_compress(what_if.setting))
        };
        let settings = || self.what_if.iter().filter(is_possible);
        let archive = |what_if: &WhatIf| match label {
            Some(label) => Some(what_if.archived_by(label)?.bytes as f64),
            // Nothing compresses: the archive is the WAL.
            None => Some(what_if.wal_bytes as f64),
        };
        let smallest = settings().filter_map(archive).fold(f64::INFINITY, f64::min);
        let equal: Vec<&WhatIf> = settings()
            .filter(|what_if| {
                archive(what_if).is_some_and(|bytes| bytes <= smallest * EQUAL_ARCHIVE)
            })
            .collect();
        let least = equal.iter().map(|what_if| what_if.wal_bytes).min()? as f64;
        let good = equal
            .iter()
            .filter(|what_if| what_if.wal_bytes as f64 <= least * EQUAL_WAL);
        good.min_by(|a, b| a.compress_cpu_s.total_cmp(&b.compress_cpu_s))
            .copied()
    }

    fn chosen_or_default(&self) -> Option<&str> {
        let chosen = self.chosen_program().map(|program| program.label.as_str());
        chosen.or_else(|| self.programs.first().map(|program| program.label.as_str()))
    }

    fn outcome(&self, what_if: &WhatIf, present: &WhatIf) -> String {
        let relative = what_if.wal_bytes as f64 / present.wal_bytes.max(1) as f64;
        let archived: Vec<String> = what_if
            .archived
            .iter()
            .map(|archived| {
                format!(
                    "{} {} ({:.2} s)",
                    archived.label,
                    bytes(archived.bytes as f64),
                    archived.compress_cpu_s
                )
            })
            .collect();
        format!(
            "{}{}: {} of WAL ({} of today's), {:.2} s of processor time for the images; archived with: {}",
            what_if.setting,
            if what_if.present { " (today)" } else { "" },
            bytes(what_if.wal_bytes as f64),
            percent(relative),
            what_if.compress_cpu_s,
            archived.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::advise::text::fixture::advice;
    use crate::advise::{Advice, Archived, Server, WhatIf};

    /// Half of the WAL is images; settings with bytes of WAL, processor time and archive.
    fn with_settings(settings: &[(&'static str, u64, f64, u64)]) -> Advice {
        let mut example = advice(|_| {});
        example.wal.bytes = 100;
        example.wal.contents.before.image_bytes = 50;
        let what_if = |&(setting, wal_bytes, compress_cpu_s, bytes): &_| WhatIf {
            setting,
            present: setting == "off",
            wal_bytes,
            compress_cpu_s,
            archived: vec![Archived {
                label: "walzip -3".to_owned(),
                bytes,
                compress_cpu_s: 1.0,
            }],
            files: Vec::new(),
        };
        example.what_if = settings.iter().map(what_if).collect();
        example
    }

    #[test]
    fn where_archives_are_equal_the_wal_decides_and_then_the_processor() {
        let example = with_settings(&[
            ("off", 100, 0.0, 10),
            ("pglz", 70, 1.0, 10),
            ("lz4", 60, 0.1, 10),
            ("zstd", 58, 0.5, 10),
        ]);
        let found = example.wal_compression();
        assert_eq!(found.advice, "lz4");
        assert!(found.change);
        assert_eq!(found.saves_bytes_per_day, Some(4e9));
    }

    #[test]
    fn what_the_server_was_built_without_is_not_advised() {
        let mut example = with_settings(&[
            ("off", 100, 0.0, 10),
            ("pglz", 70, 1.0, 10),
            ("zstd", 50, 0.1, 10),
        ]);
        assert_eq!(example.wal_compression().advice, "zstd");
        let caveat = "has to be built with";
        assert!(
            example
                .wal_compression()
                .reasons
                .join("\n")
                .contains(caveat)
        );
        let values = ["pglz", "lz4", "on", "off"].map(str::to_owned);
        example.server = Some(Server {
            wal_compression_values: Some(values.to_vec()),
            ..Server::default()
        });
        let found = example.wal_compression();
        assert_eq!(found.advice, "pglz");
        assert!(!found.reasons.join("\n").contains(caveat), "{found:?}");
    }

    #[test]
    fn a_setting_that_spoils_the_archive_is_not_advised() {
        let example = with_settings(&[("off", 100, 0.0, 10), ("zstd", 50, 0.5, 20)]);
        let found = example.wal_compression();
        assert_eq!((found.advice.as_str(), found.change), ("off", false));
    }

    #[test]
    fn without_images_nothing_is_changed() {
        let mut example = with_settings(&[("off", 100, 0.0, 10), ("lz4", 99, 0.1, 10)]);
        example.wal.contents.before.image_bytes = 1;
        assert!(
            example
                .wal_compression()
                .advice
                .starts_with("leave it as it is")
        );
    }
}
