//! What an administrator does next, in lines that can be pasted: with walzip, and with what is
//! there already.
//!
//! The two are apart, because the best `wal_compression` depends on the program behind it: images
//! that the server compressed are hard to compress again for a program that does not look into
//! them.

mod settings;

use serde::Serialize;

use super::rate::spoken;
use super::{Advice, DEFAULT_LEVEL, Program};
use crate::contender::{Contender, WALZIP};
use crate::text::bytes;

/// Where a program that is not walzip would archive to.
const EXAMPLE_DIRECTORY: &str = "/mnt/archive";

/// One way to go on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// With what.
    pub title: String,
    /// The program that compresses segments; none where nothing does.
    pub program: Option<String>,
    /// Lines for a shell that come first.
    pub shell: Vec<String>,
    /// Lines for psql, in their order; what needs a restart says so.
    pub sql: Vec<String>,
    /// Lines for a shell that come after the server was reloaded or restarted.
    pub shell_then: Vec<String>,
    /// Why, and what it costs.
    pub reasons: Vec<String>,
    /// Bytes a day in the archive, from the least to the most that two standard errors allow.
    pub archived_bytes_per_day: Option<[f64; 2]>,
    /// The same for all days that are kept.
    pub kept_bytes: Option<[f64; 2]>,
    /// Seconds that unpacking a day of WAL takes, one segment after the other.
    pub restore_day_s: Option<f64>,
    /// Seconds that the server replays a day of WAL for, where it is known how fast it does.
    pub replay_day_s: Option<f64>,
}

impl Advice {
    /// With walzip, where it was measured, with what is recommended, and with what is there already.
    pub(super) fn plan(&self) -> Vec<Plan> {
        let mut plans = Vec::new();
        if let Some(walzip) = self.best_walzip() {
            plans.push(self.with_walzip(walzip));
        }
        if let Some(other) = self.recommended_other() {
            plans.push(self.with_other(other));
        }
        if self.program_now().is_none_or(|now| !now.is_walzip()) {
            plans.push(self.as_it_is());
        }
        plans
    }

    /// The recommended level, or the one that the settings were asked with, or the default.
    fn best_walzip(&self) -> Option<&Program> {
        let is_ours = |program: &&Program| program.contender == WALZIP;
        let was_asked = |program: &&Program| {
            let mut settings = self.what_if.iter();
            settings.any(|what_if| what_if.archived_by(&program.label).is_some())
        };
        let ours = || self.programs.iter().filter(is_ours);
        let is_default = |program: &&Program| program.level == DEFAULT_LEVEL;
        let chosen = self.chosen_program().filter(is_ours);
        chosen
            .or_else(|| ours().find(was_asked))
            .or_else(|| ours().find(is_default))
            .or_else(|| ours().next())
    }

    /// What is recommended, where that is neither walzip nor what is there already.
    fn recommended_other(&self) -> Option<&Program> {
        let is_other = |program: &&Program| !program.is_walzip() && self.now != self.chosen;
        self.chosen_program().filter(is_other)
    }

    fn with_walzip(&self, walzip: &Program) -> Plan {
        let shell = ["walzip init --repo /var/lib/walzip -D \"$PGDATA\""];
        let shell_then = [
            "walzip check --repo /var/lib/walzip",
            "walzip backup --repo /var/lib/walzip",
        ];
        let mut sql = self.archiving();
        if self.number("max_wal_senders") == Some(0.0) {
            sql.push(
                "ALTER SYSTEM SET max_wal_senders = 10; -- needs a restart; walzip backup uses one"
                    .to_owned(),
            );
        }
        sql.push(format!(
            "ALTER SYSTEM SET archive_command = 'walzip archive-push -{} --repo /var/lib/walzip %p';",
            walzip.level
        ));
        let mut plan = Plan {
            title: "With walzip".to_owned(),
            program: Some(walzip.label.clone()),
            shell: shell.map(str::to_owned).to_vec(),
            sql,
            shell_then: shell_then.map(str::to_owned).to_vec(),
            reasons: Vec::new(),
            ..self.amounts(Some(walzip))
        };
        if let Some(reason) = &walzip.exceeds {
            plan.reasons
                .push(format!("exceeds a limit: {} {reason}", walzip.label));
        }
        plan.reasons
            .push("the commands for the shell are for the user that runs the server".to_owned());
        self.add_settings(&mut plan, Some(walzip));
        plan
    }

    /// As PostgreSQL's documentation archives: a file that is there is refused, and a file has its
    /// name only when it is complete.
    fn with_other(&self, other: &Program) -> Plan {
        let suffix = Contender::named(other.contender).map_or("", |of| of.suffix);
        let file = format!("{EXAMPLE_DIRECTORY}/%f.{suffix}");
        let part = format!("{file}.part");
        // Some programs add to a file that is there, or refuse it.
        let compress = other
            .compress
            .replace("INPUT", "%p")
            .replace("OUTPUT", &part);
        let restore = other
            .decompress
            .replace("INPUT", &file)
            .replace("OUTPUT", "%p");
        let mut sql = self.archiving();
        sql.push(format!(
            "ALTER SYSTEM SET archive_command = 'test ! -f {file} && rm -f {part} && {compress} && \
             mv {part} {file}';"
        ));
        let mut plan = Plan {
            title: format!("With {}", other.label),
            program: Some(other.label.clone()),
            sql,
            reasons: vec![
                format!(
                    "{EXAMPLE_DIRECTORY} is an example: name a directory that is not lost with the \
                     server's disk, and make it first"
                ),
                "nothing here syncs the file to its disk: a crash of the archive's machine can lose \
                 segments that the server has removed; walzip archive-push syncs them"
                    .to_owned(),
                "a file that is in the archive is refused, also where the server archives it again \
                 after a crash: see then that it is the same, and remove it there"
                    .to_owned(),
                format!("restore_command is then '{restore}'"),
            ],
            ..self.amounts(Some(other))
        };
        self.add_settings(&mut plan, Some(other));
        plan
    }

    /// What lets a server archive. It does not start with archive_mode where wal_level is minimal.
    fn archiving(&self) -> Vec<String> {
        let mut sql = Vec::new();
        if self.setting("wal_level") == Some("minimal") {
            sql.push("ALTER SYSTEM SET wal_level = replica; -- needs a restart".to_owned());
        }
        let comment = match self.setting("archive_mode") {
            Some("off") => "needs a restart",
            None => {
                "needs a restart, if it is off today; the server does not start with it while \
                 wal_level is minimal"
            }
            Some(_) => return sql,
        };
        sql.push(format!("ALTER SYSTEM SET archive_mode = on; -- {comment}"));
        sql
    }

    fn as_it_is(&self) -> Plan {
        let now = self.program_now();
        let mut plan = Plan {
            title: "Staying with what you have".to_owned(),
            program: now.map(|now| now.label.clone()),
            ..self.amounts(now)
        };
        plan.reasons.push(match now {
            Some(now) => format!("what archives today stays, with {}", now.label),
            None if self.archives_nothing(None) => {
                "archive_mode is off: nothing is archived, and this leaves it so".to_owned()
            }
            None => {
                "what compresses segments today is not known: this is for archive_command as it \
                     is, without any program (--now names one)"
                    .to_owned()
            }
        });
        self.add_settings(&mut plan, now);
        plan
    }

    /// Neither the server nor, as far as the user said, anything else archives.
    fn archives_nothing(&self, program: Option<&Program>) -> bool {
        program.is_none() && self.setting("archive_mode") == Some("off")
    }

    /// What is stored, and how long it takes to read.
    fn amounts(&self, program: Option<&Program>) -> Plan {
        let ratio = program.map_or(1.0, |program| program.ratio);
        let error = program.and_then(|program| program.ratio_error);
        // Without a program the size is certain; with one, a single segment tells no range.
        let around = match (program, error) {
            (None, _) => Some(0.0),
            (Some(_), error) => error.map(|error| 2.0 * error),
        };
        let day = self.wal_bytes_per_day();
        let archived = day.filter(|_| !self.archives_nothing(program));
        let per_day = archived.zip(around).map(|(day, around)| {
            [1.0 - around, 1.0 + around].map(|share| (day * ratio * share).max(0.0))
        });
        let kept = self.limits.retention_days;
        let rate = self.rate.as_ref();
        let segments = rate.and_then(|rate| rate.segments_per_day(self.wal.segment_size_bytes));
        Plan {
            title: String::new(),
            program: None,
            shell: Vec::new(),
            sql: Vec::new(),
            shell_then: Vec::new(),
            reasons: Vec::new(),
            archived_bytes_per_day: per_day,
            kept_bytes: per_day
                .zip(kept)
                .map(|(day, days)| day.map(|day| day * days)),
            restore_day_s: segments
                .zip(program)
                .map(|(segments, program)| segments * program.judged_unpack_s),
            replay_day_s: day
                .zip(self.limits.replay_bytes_per_second)
                .map(|(day, rate)| day / rate),
        }
    }
}

impl Plan {
    fn amounts_in_words(&self, retention_days: Option<f64>) -> Vec<String> {
        let mut said = Vec::new();
        match self.archived_bytes_per_day {
            Some([low, high]) => said.push(format!("a day of WAL as it is written today takes {} in the archive", between(low, high))),
            None => said.push(
                "what a day takes in the archive is not known: it needs the WAL of an hour and more \
                 than one measured segment"
                    .to_owned(),
            ),
        }
        match (self.kept_bytes, retention_days) {
            (Some([low, high]), Some(days)) => {
                said.push(format!("{days} days of it take {}", between(low, high)));
            }
            (None, None) if self.archived_bytes_per_day.is_some() => {
                said.push("--retention-days says for how many days that is".to_owned());
            }
            _ => {}
        }
        if let Some(seconds) = self.restore_day_s {
            let replay = match self.replay_day_s {
                Some(replay) => format!("replaying it takes the server {}", spoken(replay)),
                None => "how long the server replays it is not known (--replay-rate)".to_owned(),
            };
            said.push(format!(
                "unpacking the WAL of a day takes {}, one segment after the other; {replay}",
                spoken(seconds)
            ));
        }
        said
    }
}

fn between(low: f64, high: f64) -> String {
    match bytes(low) == bytes(high) {
        true => bytes(low),
        false => format!("{} to {}", bytes(low), bytes(high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::text::fixture::advice;
    use crate::advise::{Archived, Server, WhatIf};

    /// walzip sees through images that the server compressed, zstd does not.
    pub(super) fn example() -> Advice {
        let mut example = advice(|limits| limits.retention_days = Some(7.0));
        example.wal.bytes = 100;
        example.wal.contents.before.image_bytes = 50;
        let what_if = |setting, wal_bytes, of_walzip, of_zstd| WhatIf {
            setting,
            present: setting == "off",
            wal_bytes,
            compress_cpu_s: 0.1,
            archived: [("walzip -3", of_walzip), ("zstd -1", of_zstd)]
                .map(|(label, bytes)| Archived {
                    label: label.to_owned(),
                    bytes,
                    compress_cpu_s: 1.0,
                })
                .to_vec(),
            files: Vec::new(),
        };
        example.what_if = vec![what_if("off", 100, 10, 20), what_if("lz4", 50, 10, 30)];
        example.now = example.programs.iter().position(|of| of.label == "zstd -1");
        let settings = [
            ("archive_mode", "off"),
            ("checkpoint_timeout", "300"),
            ("max_wal_size", "1073741824"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        example.server = Some(Server {
            settings: settings.into(),
            ..Server::default()
        });
        example
    }

    #[test]
    fn the_best_wal_compression_is_that_behind_the_program() {
        let plans = example().plan();
        let titles: Vec<&str> = plans.iter().map(|plan| plan.title.as_str()).collect();
        assert_eq!(titles, ["With walzip", "Staying with what you have"]);
        let [ours, theirs] = [&plans[0], &plans[1]].map(|plan| plan.sql.join("\n"));
        assert!(ours.contains("SET wal_compression = 'lz4';"), "{ours}");
        assert!(!theirs.contains("wal_compression"), "{theirs}");
        let said = plans[1].reasons.join("\n");
        assert!(said.contains("off is the best behind zstd -1"), "{said}");
    }

    #[test]
    fn lines_can_be_pasted_and_say_what_needs_a_restart() {
        let plans = example().plan();
        let sql = &plans[0].sql;
        assert!(sql[0].contains("archive_mode = on; -- needs a restart"));
        let push = "ALTER SYSTEM SET archive_command = 'walzip archive-push -3 --repo /var/lib/walzip %p';";
        assert_eq!(sql[1], push);
        assert_eq!(sql.last().unwrap(), "SELECT pg_reload_conf();");
        let ends = |line: &String| line.contains(';');
        assert!(sql.iter().all(ends), "{sql:?}");
        assert!(plans[1].shell.is_empty());
    }

    #[test]
    fn a_server_at_wal_level_minimal_starts_again() {
        let mut example = example();
        let set = |example: &mut Advice, name: &str, value: &str| {
            let server = example.server.as_mut().unwrap();
            server.settings.insert(name.to_owned(), value.to_owned());
        };
        set(&mut example, "wal_level", "minimal");
        set(&mut example, "max_wal_senders", "0");
        let sql = &example.plan()[0].sql;
        let first = [
            "ALTER SYSTEM SET wal_level = replica; -- needs a restart",
            "ALTER SYSTEM SET archive_mode = on; -- needs a restart",
            "ALTER SYSTEM SET max_wal_senders = 10; -- needs a restart; walzip backup uses one",
        ];
        assert_eq!(sql[..3], first);
        set(&mut example, "wal_level", "replica");
        let sql = example.plan()[0].sql.join("\n");
        assert!(!sql.contains("wal_level"), "{sql}");
        example.server = None;
        let sql = example.plan()[0].sql.join("\n");
        assert!(
            sql.contains("does not start with it while wal_level"),
            "{sql}"
        );
    }

    #[test]
    fn a_recommended_program_has_a_plan_and_walzip_beyond_a_limit_says_so() {
        let example = advice(|limits| limits.seconds_per_segment = Some(0.3));
        let plans = example.plan();
        let titles: Vec<&str> = plans.iter().map(|plan| plan.title.as_str()).collect();
        let expected = ["With walzip", "With zstd -1", "Staying with what you have"];
        assert_eq!(titles, expected);
        assert_eq!(
            plans[0].reasons[0],
            "exceeds a limit: walzip -3 takes 0.500 s, more than 0.3 s (--max-seconds-per-segment)"
        );
        let command = "ALTER SYSTEM SET archive_command = 'test ! -f /mnt/archive/%f.zst && \
            rm -f /mnt/archive/%f.zst.part && program -1 -T1 -q -c %p > /mnt/archive/%f.zst.part && \
            mv /mnt/archive/%f.zst.part /mnt/archive/%f.zst';";
        assert!(
            plans[1].sql.contains(&command.to_owned()),
            "{:?}",
            plans[1].sql
        );
        let said = plans[1].reasons.join("\n");
        assert!(
            said.contains("is an example") && said.contains("nothing here syncs"),
            "{said}"
        );
        assert!(
            said.contains("'program -d -q -c /mnt/archive/%f.zst > %p'"),
            "{said}"
        );
    }

    #[test]
    fn a_day_is_a_range_and_is_multiplied_by_the_days_that_are_kept() {
        let mut example = example();
        for program in &mut example.programs {
            program.ratio_error = Some(0.05);
        }
        let plan = &example.plan()[0];
        let [low, high] = plan.archived_bytes_per_day.unwrap();
        assert!((high / low - 1.1 / 0.9).abs() < 1e-9);
        assert_eq!(plan.kept_bytes.unwrap(), [low * 7.0, high * 7.0]);
        let said = plan.reasons.join("\n");
        assert!(said.contains("7 days of it take"), "{said}");
        assert!(said.contains("unpacking the WAL of a day takes"), "{said}");
        example.rate = None;
        let plan = &example.plan()[0];
        assert_eq!(
            (plan.archived_bytes_per_day, plan.restore_day_s),
            (None, None)
        );
        assert!(plan.reasons.join("\n").contains("is not known"));
    }
}
