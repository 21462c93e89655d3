//! How a command fails: a kind with its exit code, a message and, where one helps, a hint.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use crate::exit_code::Kind;
use crate::log::Failure;

/// The failure of a command, ready to be shown.
#[derive(Debug)]
pub struct CommandError {
    kind: Kind,
    message: Option<String>,
    hint: Option<String>,
}

impl CommandError {
    /// A failure with a message that starts in lower case and has no full stop.
    pub fn new(kind: Kind, message: impl fmt::Display) -> CommandError {
        CommandError {
            kind,
            message: Some(message.to_string()),
            hint: None,
        }
    }

    /// A failure with nothing (more) to say: only the exit code is left to be set.
    pub fn silent(kind: Kind) -> CommandError {
        CommandError {
            kind,
            message: None,
            hint: None,
        }
    }

    /// A failure caused by another error, whose whole chain is shown.
    pub fn caused(kind: Kind, context: impl fmt::Display, cause: &dyn Error) -> CommandError {
        CommandError::new(kind, format_args!("{context}: {}", chain(cause)))
    }

    /// The system did not give what every command needs.
    pub fn of_system(context: impl fmt::Display, cause: &io::Error) -> CommandError {
        match cause.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => {
                CommandError::caused(Kind::FileRead, context, cause).hint(
                    "The limit of open files is used up: raise it (ulimit -n, or LimitNOFILE= of the service).",
                )
            }
            _ => CommandError::caused(Kind::Internal, context, cause),
        }
    }

    /// A file whose name is shown by the caller could not be read.
    pub fn cannot_read(cause: &io::Error) -> CommandError {
        let kind = match cause.kind() {
            io::ErrorKind::NotFound => Kind::FileMissing,
            _ => Kind::FileRead,
        };
        CommandError::caused(kind, "cannot read", cause)
    }

    /// A file or directory could not be written.
    pub fn write(path: &Path, cause: &io::Error) -> CommandError {
        let kind = match cause.kind() {
            io::ErrorKind::AlreadyExists => Kind::FileExists,
            _ => Kind::FileWrite,
        };
        CommandError::caused(kind, format_args!("cannot write {}", path.display()), cause)
    }

    /// Standard output could not be written. A reader that went away (`walzip info | head`)
    /// needs no message.
    pub fn stdout(cause: io::Error) -> CommandError {
        match cause.kind() {
            io::ErrorKind::BrokenPipe => CommandError::silent(Kind::FileWrite),
            _ => CommandError::caused(Kind::FileWrite, "cannot write to standard output", &cause),
        }
    }

    /// Adds what to do about it: a sentence.
    pub fn hint(mut self, hint: impl fmt::Display) -> CommandError {
        self.hint = Some(hint.to_string());
        self
    }

    /// Puts the place in front of the message.
    pub fn at(mut self, place: impl fmt::Display) -> CommandError {
        self.message = self.message.map(|message| format!("{place}: {message}"));
        self
    }

    /// What to do about it.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The kind of failure.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The message, empty where only the exit code says something.
    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    /// Shows the failure on standard error.
    pub fn report(&self) {
        if let Some(message) = &self.message {
            let failure = Failure {
                message,
                kind: self.kind.name(),
                code: self.kind.code(),
                hint: self.hint.as_deref(),
            };
            failure.show();
        }
    }
}

/// An error and its causes in one line; a cause that its parent already quotes is left out.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}
