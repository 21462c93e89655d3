//! What a restored server calls for its WAL.

use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::SegmentName;

use crate::wal::expected_end::ExpectedEnd;

/// A `restore_command`.
#[derive(Clone, Debug)]
pub struct RestoreCommand {
    command: String,
    /// What comes after the options that a restore adds, if it may add any.
    arguments: Option<String>,
}

impl RestoreCommand {
    /// The whole of it, with `%f` and `%p`.
    pub fn new(command: impl Into<String>) -> RestoreCommand {
        RestoreCommand {
            command: command.into(),
            arguments: None,
        }
    }

    /// walzip's own `archive-get` with its options, and from `%f` on the rest. Where the recovery is expected to end,
    /// and what it must not get, is said between them.
    pub fn of_walzip(get: impl Into<String>, arguments: impl Into<String>) -> RestoreCommand {
        RestoreCommand {
            command: get.into(),
            arguments: Some(arguments.into()),
        }
    }

    pub(super) fn text(
        &self,
        timeline: TimelineId,
        expected_end: Option<&ExpectedEnd>,
        own_from: Option<SegmentName>,
    ) -> String {
        let Some(arguments) = &self.arguments else {
            return self.command.clone();
        };
        let mut text = self.command.clone();
        if let Some(end) = expected_end {
            text = format!("{text} {end} --to-timeline {timeline}");
        }
        if let Some(segment) = own_from {
            text = format!("{text} --own-from {segment}");
        }
        format!("{text} {arguments}")
    }
}
