//! To which moment a cluster is restored, and how PostgreSQL is told.

use std::fmt::{self, Write};
use std::str::FromStr;

use jiff::Timestamp;
use walzip_pgformat::{Lsn, TimelineId};

use super::target_time;
use crate::error::ArchiveError;
use crate::wal::wal_end::shown;

/// The targets. A server refuses to start with two, and takes one from any configuration file.
const TARGET_SETTINGS: [&str; 5] = [
    "recovery_target",
    "recovery_target_time",
    "recovery_target_lsn",
    "recovery_target_name",
    "recovery_target_xid",
];

/// The settings of recovery; what an earlier restore left of them is removed.
const RECOVERY_SETTINGS: [&str; 9] = [
    "restore_command",
    "recovery_target",
    "recovery_target_time",
    "recovery_target_lsn",
    "recovery_target_name",
    "recovery_target_xid",
    "recovery_target_inclusive",
    "recovery_target_timeline",
    "recovery_target_action",
];

/// A standby may stay behind on purpose. What is restored to be used must not wait for that.
const NO_DELAY: &str = "recovery_min_apply_delay = '0'\n";

/// What a restore of some databases sets besides.
pub(super) const IGNORE_INVALID_PAGES: &str = "ignore_invalid_pages";

/// Where recovery ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecoveryTarget {
    /// At the end of the archived WAL.
    #[default]
    Latest,
    /// As soon as the backup is consistent.
    Immediate,
    /// At the last commit up to this time.
    Time(Timestamp),
    /// At this position.
    Lsn(Lsn),
    /// At a point that `pg_create_restore_point` named.
    Name(String),
    /// At the end of this transaction.
    Xid(u64),
}

/// Along which timeline recovery goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetTimeline {
    /// The one that was alive at the target, where there was only one.
    #[default]
    Sole,
    /// The one with the highest number, as PostgreSQL has it.
    Latest,
    /// The backup's own.
    Current,
    /// This one.
    Id(TimelineId),
}

/// What the server does when it reaches the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetAction {
    /// Ends recovery and accepts connections that write.
    #[default]
    Promote,
    /// Waits, and can be looked at.
    Pause,
    /// Shuts down.
    Shutdown,
}

/// Everything about the end of recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Where it ends.
    pub target: RecoveryTarget,
    /// Whether a target's own transaction or record is replayed.
    pub inclusive: bool,
    /// Along which timeline it goes.
    pub timeline: TargetTimeline,
    /// What the server does then.
    pub action: TargetAction,
}

impl Default for Recovery {
    fn default() -> Self {
        Recovery {
            target: RecoveryTarget::default(),
            inclusive: true,
            timeline: TargetTimeline::default(),
            action: TargetAction::default(),
        }
    }
}

impl fmt::Display for RecoveryTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryTarget::Latest => f.write_str("the end of the WAL"),
            RecoveryTarget::Immediate => f.write_str("the end of the backup"),
            RecoveryTarget::Time(time) => write!(f, "time {}", shown(*time)),
            RecoveryTarget::Lsn(lsn) => write!(f, "position {lsn}"),
            RecoveryTarget::Name(name) => write!(f, "restore point \"{}\"", name.escape_debug()),
            RecoveryTarget::Xid(xid) => write!(f, "transaction {xid}"),
        }
    }
}

impl RecoveryTarget {
    /// The setting that names it.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            RecoveryTarget::Latest => None,
            RecoveryTarget::Immediate => Some("recovery_target"),
            RecoveryTarget::Time(_) => Some("recovery_target_time"),
            RecoveryTarget::Lsn(_) => Some("recovery_target_lsn"),
            RecoveryTarget::Name(_) => Some("recovery_target_name"),
            RecoveryTarget::Xid(_) => Some("recovery_target_xid"),
        }
    }

    /// Its value.
    fn value(&self) -> String {
        match self {
            RecoveryTarget::Latest => String::new(),
            RecoveryTarget::Immediate => "immediate".to_owned(),
            RecoveryTarget::Time(time) => shown(*time),
            RecoveryTarget::Lsn(lsn) => lsn.to_string(),
            RecoveryTarget::Name(name) => name.clone(),
            RecoveryTarget::Xid(xid) => xid.to_string(),
        }
    }

    /// Reads a time with its zone, such as `2026-11-21 22:01:30.439 UTC`.
    ///
    /// A time without one is refused: the server would read it in its own time zone, and the
    /// choice of the backup would have to guess which that is.
    pub fn time(text: &str) -> Result<RecoveryTarget, ArchiveError> {
        Ok(RecoveryTarget::Time(target_time::read(text)?))
    }
}

impl FromStr for TargetTimeline {
    type Err = ArchiveError;

    /// `latest`, `current` or a number, decimal or `0x` and hexadecimal, as PostgreSQL reads it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = match text {
            "latest" => return Ok(TargetTimeline::Latest),
            "current" => return Ok(TargetTimeline::Current),
            _ => match text.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            },
        };
        match id {
            Some(id) if id > 0 => Ok(TargetTimeline::Id(TimelineId(id))),
            _ => Err(ArchiveError::Request(format!(
                "\"{text}\" is not a timeline: latest, current or a number"
            ))),
        }
    }
}

impl FromStr for TargetAction {
    type Err = ArchiveError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "promote" => Ok(TargetAction::Promote),
            "pause" => Ok(TargetAction::Pause),
            "shutdown" => Ok(TargetAction::Shutdown),
            _ => Err(ArchiveError::Request(format!(
                "\"{text}\" is not a target action: promote, pause or shutdown"
            ))),
        }
    }
}

impl Recovery {
    /// The lines for `postgresql.auto.conf`.
    ///
    /// Every setting of recovery is among them, so that none takes effect that somebody once put
    /// into `postgresql.conf`. The targets that are not wanted come first: setting one to nothing
    /// takes back whatever target there is (the assign hooks in access/transam/xlog.c).
    ///
    /// The timeline is a number: whatever is archived meanwhile, the server goes where it was said
    /// that it would. A standby is to follow promotions, unless somebody says along which timeline it
    /// goes.
    pub(super) fn settings(
        &self,
        restore_command: &str,
        timeline: TimelineId,
        standby: bool,
    ) -> Result<String, ArchiveError> {
        let timeline = match (standby, self.timeline) {
            (true, TargetTimeline::Latest) => "latest".to_owned(),
            _ => timeline.to_string(),
        };
        let wanted = self.target.setting();
        let target = wanted.map(|name| (name, self.target.value()));
        let others = TARGET_SETTINGS
            .into_iter()
            .filter(|name| Some(*name) != wanted);
        let inclusive = if self.inclusive { "on" } else { "off" };
        let action = match self.action {
            TargetAction::Promote => "promote",
            TargetAction::Pause => "pause",
            TargetAction::Shutdown => "shutdown",
        };
        let own = [
            ("restore_command", restore_command.to_owned()),
            ("recovery_target_timeline", timeline),
            ("recovery_target_inclusive", inclusive.to_owned()),
            ("recovery_target_action", action.to_owned()),
        ];
        let mut lines = String::new();
        for (name, value) in others
            .map(|name| (name, String::new()))
            .chain(target)
            .chain(own)
        {
            let value = quoted(&value)?;
            writeln!(lines, "{name} = '{value}'")
                .map_err(|error| ArchiveError::Internal(error.to_string()))?;
        }
        if !standby {
            lines.push_str(NO_DELAY);
        }
        Ok(lines)
    }
}

/// A configuration file without the settings of recovery. Any encoding passes unchanged.
pub(super) fn without_recovery_settings(content: &[u8]) -> Vec<u8> {
    let lines = content.split_inclusive(|&byte| byte == b'\n');
    let names = RECOVERY_SETTINGS.iter().chain([&IGNORE_INVALID_PAGES]);
    let is_ours = |line: &[u8]| line == NO_DELAY.as_bytes();
    let is_of_recovery = |line: &[u8]| names.clone().any(|name| sets(line, name));
    let kept = lines.filter(|line| !is_of_recovery(line) && !is_ours(line));
    kept.flatten().copied().collect()
}

/// Whether a line of a configuration file sets this parameter.
fn sets(line: &[u8], name: &str) -> bool {
    let line = line.trim_ascii_start();
    let Some((start, rest)) = line.split_at_checked(name.len()) else {
        return false;
    };
    let ends = rest
        .first()
        .is_none_or(|&byte| byte.is_ascii_whitespace() || byte == b'=');
    start.eq_ignore_ascii_case(name.as_bytes()) && ends
}

/// A value for between the quotes of a configuration file (guc-file.l).
fn quoted(value: &str) -> Result<String, ArchiveError> {
    if value.contains(['\n', '\r', '\0']) {
        let reason = format!("\"{}\" has a line break in it", value.escape_debug());
        return Err(ArchiveError::Request(reason));
    }
    Ok(value.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_times_that_a_server_prints() {
        let expected: Timestamp = "2026-11-21T22:01:30.5Z".parse().expect("valid");
        for text in [
            "2026-11-21 22:01:30.5+00",
            "2026-11-21 22:01:30.500000+00",
            "2026-11-21T22:01:30.5Z",
            "2026-11-21 23:01:30.5+01:00",
            "2026-11-21 16:31:30.5-05:30",
        ] {
            let target = RecoveryTarget::time(text).expect(text);
            assert_eq!(target, RecoveryTarget::Time(expected), "{text}");
        }
        for text in ["2026-11-21 22:01:30", "yesterday", ""] {
            assert!(RecoveryTarget::time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn writes_the_settings_of_a_target() {
        let recovery = Recovery {
            target: RecoveryTarget::time("2026-11-21 22:01:30.25+00").expect("valid"),
            inclusive: false,
            timeline: TargetTimeline::default(),
            action: TargetAction::Pause,
        };
        let settings = recovery
            .settings(
                r"walzip --repo '/a\b' archive-get %f %p",
                TimelineId(2),
                false,
            )
            .expect("valid");
        assert_eq!(
            settings,
            "recovery_target = ''\n\
             recovery_target_lsn = ''\n\
             recovery_target_name = ''\n\
             recovery_target_xid = ''\n\
             recovery_target_time = '2026-11-21 22:01:30.250000+00'\n\
             restore_command = 'walzip --repo ''/a\\\\b'' archive-get %f %p'\n\
             recovery_target_timeline = '2'\n\
             recovery_target_inclusive = 'off'\n\
             recovery_target_action = 'pause'\n\
             recovery_min_apply_delay = '0'\n"
        );
    }

    #[test]
    fn takes_back_every_target_where_none_is_wanted() {
        let settings = Recovery::default()
            .settings("get %f %p", TimelineId(1), false)
            .expect("valid");
        for name in TARGET_SETTINGS {
            assert!(settings.contains(&format!("{name} = ''\n")), "{settings}");
        }
        for name in RECOVERY_SETTINGS {
            let lines = settings.lines().filter(|line| sets(line.as_bytes(), name));
            assert_eq!(lines.count(), 1, "{name} in {settings}");
        }
    }

    #[test]
    fn a_standby_follows_promotions_unless_it_is_told_its_timeline() {
        let line = |timeline, standby| {
            let recovery = Recovery {
                timeline,
                ..Recovery::default()
            };
            let settings = recovery.settings("get %f %p", TimelineId(3), standby);
            let settings = settings.expect("valid");
            let mut lines = settings.lines();
            let found = lines.find_map(|line| line.strip_prefix("recovery_target_timeline = "));
            found.expect("a timeline").to_owned()
        };
        assert_eq!(line(TargetTimeline::Latest, true), "'latest'");
        assert_eq!(line(TargetTimeline::Id(TimelineId(3)), true), "'3'");
        assert_eq!(line(TargetTimeline::Current, true), "'3'");
        assert_eq!(line(TargetTimeline::Latest, false), "'3'");
    }

    #[test]
    fn refuses_a_value_that_would_end_its_line() {
        assert!(
            Recovery::default()
                .settings("get\nfsync = off", TimelineId(1), false)
                .is_err()
        );
    }

    #[test]
    fn removes_what_an_earlier_restore_left_and_nothing_else() {
        let content = b"work_mem = '1MB'\nrestore_command = 'x'\n RECOVERY_TARGET='immediate'\n\
            recovery_target_names = 'kept'\nport = 1 \xff\n\
            ignore_invalid_pages = 'on'\nrecovery_target_time";
        let kept = without_recovery_settings(content);
        assert_eq!(
            kept,
            b"work_mem = '1MB'\nrecovery_target_names = 'kept'\nport = 1 \xff\n"
        );
    }

    #[test]
    fn reads_timelines_as_postgresql_does() {
        assert_eq!(
            "0x1F".parse::<TargetTimeline>().unwrap(),
            TargetTimeline::Id(TimelineId(31))
        );
        assert_eq!(
            "7".parse::<TargetTimeline>().unwrap(),
            TargetTimeline::Id(TimelineId(7))
        );
        for text in ["", "0", "newest", "-1"] {
            assert!(text.parse::<TargetTimeline>().is_err(), "{text}");
        }
    }
}
