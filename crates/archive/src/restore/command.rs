//! What a restored server calls for its WAL.

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

    /// walzip's own `archive-get` with its options, and from `%f` on the rest. Where the recovery is expected to end
    /// is said between them.
    pub fn of_walzip(get: impl Into<String>, arguments: impl Into<String>) -> RestoreCommand {
        RestoreCommand {
            command: get.into(),
            arguments: Some(arguments.into()),
        }
    }

    pub(super) fn text(&self, expected_end: Option<&ExpectedEnd>) -> String {
        match (&self.arguments, expected_end) {
            (None, _) => self.command.clone(),
            (Some(arguments), None) => format!("{} {arguments}", self.command),
            (Some(arguments), Some(end)) => format!("{} {end} {arguments}", self.command),
        }
    }
}
