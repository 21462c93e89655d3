//! Whether a server's `archive_command` leads to the repository that this command was given.
//!
//! Paths are those of the server's host and this one: a repository may have another name there.
//! So a difference explains why a segment is missing, and is never itself a reason to fail.

use std::fmt;
use std::path::Path;

use walzip_archive::archive_command::{ExitCode, PushCommand, Word};
use walzip_archive::{ArchiveError, Archiver};
use walzip_repo::Location;

use crate::config::{Config, DEFAULT_PATH};
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::{ConfigFile, Place, is_number};

/// Where a server archives to, as far as its settings say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The repository of this command.
    Here,
    /// Another one, by its name in `archive_command`.
    Elsewhere(String),
    /// walzip archives, and its repository cannot be told from the setting: why not.
    Unclear(String),
    /// Another program archives.
    OtherProgram,
    /// `archive_library` archives, not `archive_command`.
    Library,
}

impl Destination {
    /// Reads the server's settings.
    pub fn of(archiver: &Archiver, repository: &Location) -> Destination {
        if !archiver.library.is_empty() {
            return Destination::Library;
        }
        match PushCommand::find(&archiver.command) {
            None => Destination::OtherProgram,
            Some(PushCommand {
                repo: Some(repo), ..
            }) => destination(&repo, repository),
            Some(PushCommand {
                config: Some(file), ..
            }) => in_file(&file, repository),
            Some(_) => Destination::Unclear(format!(
                "the server takes it from its WALZIP_REPO, or from the file of its WALZIP_CONFIG, or {DEFAULT_PATH}"
            )),
        }
    }
}

fn destination(repo: &Word, repository: &Location) -> Destination {
    let name = &repo.text;
    if !repo.is_literal {
        return Destination::Unclear(format!("the server's shell makes it of {name}"));
    }
    if is_number(name) {
        return Destination::Unclear(format!(
            "{name} is a number in the server's configuration file"
        ));
    }
    if !name.contains("://") && !Path::new(name).is_absolute() {
        return Destination::Unclear(format!("{name} is in the server's data directory"));
    }
    match Location::parse(name) {
        Ok(location) if is_same(&location, repository) => Destination::Here,
        _ => Destination::Elsewhere(name.clone()),
    }
}

fn in_file(file: &Word, repository: &Location) -> Destination {
    let unclear = || Destination::Unclear(format!("the server takes it from {}", file.text));
    if !file.is_literal || !Path::new(&file.text).is_absolute() {
        return unclear();
    }
    let Ok(config) = Config::load(Some(Path::new(&file.text))) else {
        return unclear();
    };
    let numbers = config.repositories().into_iter();
    let named = numbers.filter_map(|number| config.of_repository(number).ok()?.repo);
    let is_literal = true;
    let destinations = named.map(|text| destination(&Word { text, is_literal }, repository));
    let mut destinations: Vec<Destination> = destinations.collect();
    // It pushes to all of them.
    match destinations.iter().position(|to| *to == Destination::Here) {
        Some(_) => Destination::Here,
        None if destinations.is_empty() => unclear(),
        None => destinations.swap_remove(0),
    }
}

/// Whether two names lead to one location: links are followed where they can be.
fn is_same(one: &Location, other: &Location) -> bool {
    let resolved = |location: &Location| match location {
        Location::Local(path) => path.canonicalize().ok(),
        _ => None,
    };
    one.is_same_place(other) || resolved(one).is_some_and(|path| resolved(other) == Some(path))
}

/// The setting that archives, as it stands in `postgresql.conf`.
pub struct Setting<'a>(pub &'a Archiver);

impl fmt::Display for Setting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.library.as_str() {
            "" => write!(
                f,
                "archive_command = '{}'",
                self.0.command.replace('\'', "''")
            ),
            library => write!(f, "archive_library = '{library}'"),
        }
    }
}

/// The failure of a check, with what the server's settings say of its reason.
pub fn explain(error: ArchiveError, repository: &Place) -> CommandError {
    match error {
        ArchiveError::NoArchiveCommand => CommandError::new(Kind::OptionInvalid, &error).hint(
            format_args!(
                "Set {} and reload the server. Where \"walzip receive\" is to archive alone, set archive_mode = off \
                 and restart it: PostgreSQL keeps all its WAL for an archive_command that is empty.",
                own(repository)
            ),
        ),
        ArchiveError::NotArchived { by_primary: true, .. } => {
            CommandError::new(Kind::ArchiveTimeout, &error).hint(
                "SELECT pg_switch_wal() on the primary finishes a segment in which nothing more is written; \
                 \"walzip check\" there does so too, and says whether it is archived. With archive_timeout set \
                 on the primary, an idle one finishes its segments by itself.",
            )
        }
        ArchiveError::NotArchived {
            segment,
            waited_seconds,
            failure,
            archiver: Some(archiver),
            by_primary: false,
        } => {
            let head = format!("{segment} was not archived within {waited_seconds} seconds");
            let state = match failure {
                Some(_) => State::Failing,
                None => State::Silent,
            };
            missing(head, failure, state, &archiver, repository)
        }
        ArchiveError::ArchivedElsewhere { segment, archiver } => {
            let head = format!(
                "the server reports {segment} as archived, and {repository} does not have it"
            );
            missing(head, None, State::Reported, &archiver, repository)
        }
        ArchiveError::NotAcknowledged {
            segment,
            waited_seconds,
            failure,
            archiver,
        } => {
            let head = format!(
                "{segment} is in {repository}, but the server's own archiving has not succeeded \
                 within {waited_seconds} seconds"
            );
            missing(head, failure, State::Unacknowledged, &archiver, repository)
        }
        error => error.into(),
    }
}

/// Whether a failure is of a segment that does not arrive, though nothing says that the server archives elsewhere.
pub fn is_late(error: &ArchiveError, repository: &Place) -> bool {
    match error {
        ArchiveError::NotArchived {
            by_primary: false,
            archiver: Some(archiver),
            ..
        } => matches!(
            Destination::of(archiver, repository),
            Destination::Here | Destination::Unclear(_)
        ),
        ArchiveError::NotArchived { by_primary, .. } => !by_primary,
        _ => false,
    }
}

/// What the archiver says of a segment that is not in the repository.
#[derive(Clone, Copy)]
enum State {
    Failing,
    Reported,
    Silent,
    /// Something else brought the segment.
    Unacknowledged,
}

fn missing(
    head: String,
    failure: Option<String>,
    state: State,
    archiver: &Archiver,
    repository: &Place,
) -> CommandError {
    let destination = Destination::of(archiver, repository);
    let mut message = head;
    if let Some(cause) = cause(&destination, repository) {
        message.push_str(": ");
        message.push_str(&cause);
    }
    let past = archiver.past_failure().filter(|_| failure.is_none());
    let past = past.map(|failed| format!("an earlier failure, at {}, is past", failed.time));
    let waiting = archiver.waiting.filter(|&count| count > 0);
    let waiting = waiting.map(|count| match count {
        1 => "1 file waits to be archived".to_owned(),
        count => format!("{count} files wait to be archived"),
    });
    for fact in failure.into_iter().chain(past).chain(waiting) {
        message.push_str("; ");
        message.push_str(&fact);
    }
    CommandError::new(Kind::ArchiveTimeout, message).hint(way_out(
        &destination,
        state,
        archiver,
        repository,
    ))
}

fn cause(destination: &Destination, repository: &Place) -> Option<String> {
    match destination {
        Destination::Elsewhere(other) => Some(format!(
            "archive_command names another repository, {other} instead of {repository}"
        )),
        Destination::OtherProgram => Some("archive_command is not walzip's".to_owned()),
        Destination::Library => Some("archive_library archives, not archive_command".to_owned()),
        Destination::Here | Destination::Unclear(_) => None,
    }
}

fn way_out(
    destination: &Destination,
    state: State,
    archiver: &Archiver,
    repository: &Place,
) -> String {
    let setting = Setting(archiver);
    let own = own(repository);
    if let Some(flaw) = flaw(archiver) {
        return format!("The server has {setting}: {flaw}. Set {own} and reload it.");
    }
    if let (State::Unacknowledged, Destination::Here | Destination::Unclear(_)) =
        (state, destination)
    {
        return format!(
            "PostgreSQL keeps it until its own command succeeds: pg_wal grows. Where that archives into several \
             repositories, it succeeds when all of them have the file: see whether another one does not. The server \
             has {setting}; its log says why that fails."
        );
    }
    if let State::Unacknowledged = state {
        return format!(
            "Something else brings WAL here, and PostgreSQL keeps it until its own command succeeds: \
             pg_wal grows. The server has {setting}; its log says why that fails."
        );
    }
    match destination {
        Destination::Elsewhere(other) => format!(
            "Set {own} and reload the server, then take a backup, since WAL is missing here; or \
             check the other one: walzip check --repo {other}"
        ),
        Destination::OtherProgram | Destination::Library if matches!(state, State::Failing) => {
            format!(
                "The server has {setting}.{} PostgreSQL keeps its WAL meanwhile. Set {own} and reload it.",
                last_failure(archiver)
            )
        }
        Destination::OtherProgram | Destination::Library => format!(
            "The server has {setting}; set {own} and reload it, then take a backup, since WAL is \
             missing here."
        ),
        // The same words lead elsewhere there, or fail there.
        Destination::Unclear(why) if setting.to_string() == own => format!(
            "The server has {setting}: {why}, which may name another repository there. Its log says what failed."
        ),
        Destination::Unclear(why) => {
            format!("The server has {setting}, which names no repository: {why}. Set {own}.")
        }
        Destination::Here => match state {
            State::Failing => format!("The server's log says why this failed: {setting}."),
            State::Reported => format!(
                "Is the server in a container or on another host, where {repository} is another \
                 directory, or does this hide a failure: {setting}?"
            ),
            State::Silent | State::Unacknowledged => format!(
                "The archiver has counted neither a success nor a failure. PostgreSQL counts none where the command \
                 is not found or not executable (exit codes 126 and 127), or is killed: the server's log says so. \
                 Name walzip by its full path then. Where nothing is in the log, see whether it hangs, or wait \
                 longer with --archive-timeout: {setting}."
            ),
        },
    }
}

/// When something failed, where that is known. The setting may have been changed since.
fn last_failure(archiver: &Archiver) -> String {
    let failed = archiver.failed.as_ref();
    failed.map_or_else(String::new, |failed| {
        format!(
            " The last failure was at {}, and may have been of an earlier command.",
            failed.time
        )
    })
}

/// What is wrong with walzip's own command, wherever it leads.
fn flaw(archiver: &Archiver) -> Option<&'static str> {
    let push = PushCommand::find(&archiver.command).filter(|_| archiver.library.is_empty())?;
    match push.repo {
        Some(repo) if repo.text == "%p" => Some("--repo has no value, and takes %p for it"),
        _ if !push.has_path => Some("it has no %p, the file to archive"),
        _ => None,
    }
}

/// Fails where PostgreSQL does not see whether walzip failed: it removes WAL then that was never archived.
pub fn check_exit_code(archiver: &Archiver, repository: &Place) -> Result<(), CommandError> {
    let push = PushCommand::find(&archiver.command).filter(|_| archiver.library.is_empty());
    let setting = Setting(archiver);
    match push.map(|push| push.exit_code) {
        Some(ExitCode::Hidden) => Err(CommandError::new(
            Kind::OptionInvalid,
            format_args!(
                "what follows \"walzip archive-push\" hides its exit code, and PostgreSQL removes WAL that could not be \
                 archived: {setting}"
            ),
        )
        .hint(format_args!("Set {} and reload the server.", own(repository)))),
        Some(ExitCode::MayBeHidden) => {
            tracing::warn!(
                "where what follows \"walzip archive-push\" succeeds after it failed, PostgreSQL removes WAL that \
                 was not archived: {setting}"
            );
            Ok(())
        }
        Some(ExitCode::Seen) | None => Ok(()),
    }
}

/// The setting that archives into a repository: named as it is here, since a file may have several.
fn own(repository: &Place) -> String {
    let argument = match &repository.named_in {
        Some(ConfigFile::Usual) => String::new(),
        Some(ConfigFile::Given(file)) => {
            let whole = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            format!("--config {} ", quoted(&whole.to_string_lossy()))
        }
        None => format!("--repo {} ", quoted(&repository.to_string())),
    };
    format!("archive_command = 'walzip archive-push {argument}%p'")
}

/// A word in a setting that PostgreSQL gives to a shell.
fn quoted(word: &str) -> String {
    let word = word.replace('%', "%%");
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:%".contains(c);
    match word.chars().all(plain) {
        true => word,
        false => format!("\"{word}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use walzip_archive::Attempt;

    fn destination(command: &str, repository: &Path) -> Destination {
        let archiver = Archiver {
            command: command.to_owned(),
            ..Archiver::default()
        };
        let location = repository.to_str().expect("UTF-8");
        Destination::of(&archiver, &Location::parse(location).expect("a path"))
    }

    #[test]
    fn a_failure_is_not_said_to_be_of_the_command_that_is_set_now() {
        let wal = "000000010000000000000005".to_owned();
        let archiver = Archiver {
            command: "/bin/true".to_owned(),
            failed: Some(Attempt {
                wal,
                time: Timestamp::UNIX_EPOCH,
            }),
            ..Archiver::default()
        };
        let place = Place::named("/r").expect("a path");
        let hint = way_out(
            &Destination::OtherProgram,
            State::Failing,
            &archiver,
            &place,
        );
        assert!(hint.contains("1970-01-01T00:00:00Z"), "{hint}");
        assert!(
            hint.contains("may have been of an earlier command"),
            "{hint}"
        );
        assert!(!hint.contains("which fails"), "{hint}");
    }

    #[test]
    fn a_repository_is_known_by_any_of_its_names() {
        let directory = tempfile::tempdir().expect("a directory");
        let (ours, other) = (
            directory.path().join("ours"),
            directory.path().join("other"),
        );
        std::fs::create_dir(&ours).expect("made");
        std::fs::create_dir(&other).expect("made");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&ours, &link).expect("linked");
        let file = directory.path().join("walzip.toml");
        std::fs::write(&file, format!("repo = \"{}\"\n", other.display())).expect("written");
        for (command, expected) in [
            (
                format!("walzip archive-push --repo {} %p", ours.display()),
                Destination::Here,
            ),
            (
                format!("walzip archive-push --repo {} %p", link.display()),
                Destination::Here,
            ),
            (
                format!("walzip archive-push --repo file://{} %p", ours.display()),
                Destination::Here,
            ),
            (
                format!("walzip archive-push --repo {} %p", other.display()),
                Destination::Elsewhere(other.display().to_string()),
            ),
            (
                format!("walzip archive-push --config {} %p", file.display()),
                Destination::Elsewhere(other.display().to_string()),
            ),
            ("cp %p /x/%f".to_owned(), Destination::OtherProgram),
        ] {
            assert_eq!(destination(&command, &ours), expected, "{command}");
        }
        for command in [
            "walzip archive-push %p",
            "walzip archive-push --repo $R %p",
            "walzip archive-push --repo ours %p",
            "walzip archive-push --config /nowhere/walzip.toml %p",
        ] {
            let unclear = destination(command, &ours);
            assert!(
                matches!(unclear, Destination::Unclear(_)),
                "{command}: {unclear:?}"
            );
        }
    }
}
