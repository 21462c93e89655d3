//! Every failure of the libraries, as a kind, a message and a hint: here those of the archive, in
//! `repository` those of its storage, and in `server` those of PostgreSQL.

mod repository;
mod server;

use std::cmp::Ordering;
use std::io;

use jiff::tz::TimeZone;
use walzip_archive::ArchiveError;
use walzip_archive::replication::ServerError;
use walzip_archive::restore::TimeError;
use walzip_codec::DecodeError;
use walzip_pgformat::TimelineId;
use walzip_repo::{ClusterIdentity, RepoError};

use crate::competing_timelines;
use crate::error::{CommandError, chain};
use crate::exit_code::Kind;
use crate::tablespace_hints;

impl From<ArchiveError> for CommandError {
    fn from(error: ArchiveError) -> CommandError {
        match error {
            ArchiveError::Repository(error) => error.into(),
            ArchiveError::Server(error) => error.into(),
            ArchiveError::NotEmpty { ref directories } => {
                let hint = tablespace_hints::not_empty(directories);
                CommandError::new(Kind::PathNotEmpty, &error).hint(hint)
            }
            ArchiveError::TablespaceInUse { .. } => {
                CommandError::new(Kind::PathNotEmpty, &error).hint(tablespace_hints::in_use())
            }
            ArchiveError::NoLocation { ref path, .. } => {
                let hint = tablespace_hints::no_location(path);
                CommandError::new(Kind::FileWrite, chain(&error)).hint(hint)
            }
            ArchiveError::Mismatch {
                found, repository, ..
            } => CommandError::new(Kind::ArchiveMismatch, &error).hint(mismatch(found, repository)),
            ArchiveError::OlderClusterWentOn { newest, other, .. } => {
                CommandError::new(Kind::BackupSetInvalid, &error).hint(format_args!(
                    "--cluster {} restores the older one, --cluster {} the newer.",
                    other.name(),
                    newest.name()
                ))
            }
            ArchiveError::BranchesCompete {
                timeline,
                ref put_away,
                ref others,
                ..
            } => {
                let hint = competing_timelines::hint(timeline, put_away, others);
                CommandError::new(Kind::TimelineAmbiguous, &error).hint(hint)
            }
            ArchiveError::AncestorConflict { ancestor, .. } => {
                CommandError::new(Kind::ArchiveDuplicate, &error).hint(ancestor_taken(ancestor))
            }
            ArchiveError::Time(error) => {
                CommandError::new(Kind::OptionInvalid, &error).hint(target_time(&error))
            }
            error => {
                let (kind, hint) = archive(&error);
                with_hint(CommandError::new(kind, chain(&error)), hint)
            }
        }
    }
}

impl From<RepoError> for CommandError {
    fn from(error: RepoError) -> CommandError {
        let (kind, hint) = repository::kind_and_hint(&error);
        with_hint(CommandError::new(kind, chain(&error)), hint)
    }
}

impl From<ServerError> for CommandError {
    fn from(error: ServerError) -> CommandError {
        let (kind, hint) = server::kind_and_hint(&error);
        let command_error = CommandError::new(kind, chain(&error));
        match &error {
            ServerError::Sql(sql) if sql.hint.is_some() => {
                with_hint(command_error, sql.hint.as_deref())
            }
            _ => with_hint(command_error, hint),
        }
    }
}

fn with_hint(error: CommandError, hint: Option<&str>) -> CommandError {
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// What to write instead of a time that was refused: what it may mean, ready to be copied.
fn target_time(error: &TimeError) -> String {
    let readings = error.readings(&TimeZone::system());
    if readings.is_empty() {
        return "Write the date, the time of day and the offset from UTC: \
                --target-time '2026-11-21 22:01:30+00'."
            .to_owned();
    }
    let readings = readings
        .iter()
        .map(|reading| format!("--target-time '{}' ({})", reading.time, reading.meaning));
    let readings: Vec<String> = readings.collect();
    format!("Say which is meant: {}.", readings.join(", or "))
}

/// What may have become of the repository's cluster, or that it is another one altogether.
fn mismatch(found: ClusterIdentity, repository: ClusterIdentity) -> &'static str {
    match found.major.cmp(&repository.major) {
        Ordering::Greater => {
            "If it is what pg_upgrade made of the repository's cluster, \"walzip upgrade\" registers \
             it. Another cluster needs a repository of its own."
        }
        Ordering::Equal => {
            "A new initdb (dump and restore) makes another cluster, which needs a repository of its \
             own. walzip upgrade --same-major is only for a pg_upgrade that was rolled back and done again."
        }
        Ordering::Less => {
            "If it is what the repository's cluster was before an upgrade, --cluster with its major version names it. \
             Another cluster needs a repository of its own. One that was registered by mistake, and has \
             neither WAL nor backups, is taken back by removing the last record that \"walzip repo ls \
             cluster\" shows: walzip repo rm KEY --force --confirm."
        }
    }
}

/// What to do where another cluster has taken the number of a timeline from which a server's own comes.
fn ancestor_taken(ancestor: TimelineId) -> String {
    format!(
        "Is this server a copy? Then stop its archiving. If it is the one to keep, and what the archive has of timeline \
         {ancestor} is abandoned, \"walzip timeline set-aside {ancestor}\" puts that away (with --confirm), and \
         PostgreSQL's next attempt succeeds."
    )
}

type KindAndHint = (Kind, Option<&'static str>);

/// The repository's own data are damaged.
const DAMAGED: &str = "\"walzip verify\" lists what is damaged. A restore can take an older backup \
     (--backup) or end before damaged WAL (--target-lsn, with a position that the server's log or \
     \"walzip inspect\" of the segment before it shows); docs/errors.md says under 26 how an object \
     comes back from another repository.";
/// Another cluster has taken the number of a timeline.
const NUMBER_TAKEN: &str = "Another cluster, such as a restored copy, has archived a timeline of this \
     number. If its branch is abandoned, \"walzip timeline set-aside\" puts it away (with --confirm), \
     and PostgreSQL's next attempt succeeds.";

/// Pages have wrong checksums.
const WRONG_PAGES: &str = "No backup was made. The warnings name the first pages, or the server's log; pg_amcheck \
     says more. Older backups may have them whole: keep those (walzip pin LABEL). \
     --no-verify-checksums takes a backup with the pages as they are.";

const NEEDED_LINK: &str = "No backup was made: it would lack what the link leads to. Stop the server, and move that back into the \
     place of the link. What is to lie on another disk goes into a tablespace (ALTER DATABASE ... SET TABLESPACE).";

/// What the server lists is not where it has to be.
const NOT_WHOLE: &str = "No backup was made: it would take the place of one that has the files. Mount the volume, or put the \
     directory back. If the files are lost, restore an older backup; what is not needed any more is dropped (DROP DATABASE, \
     DROP TABLESPACE).";

/// The test `majors` holds these against the majors that walzip knows.
const PGDATA_MAJORS: &str = "Is --pgdata a data directory of PostgreSQL 13 to 19?";

fn archive(error: &ArchiveError) -> KindAndHint {
    match error {
        ArchiveError::Request(_) => (Kind::OptionInvalid, None),
        ArchiveError::Name(_) => (Kind::ParamInvalid, None),
        ArchiveError::File { action, source, .. } => (
            file(action, source),
            error.is_full().then_some("Make room there."),
        ),
        ArchiveError::Invalid { .. } => (
            Kind::FileInvalid,
            Some("Nothing was archived; is this file from PostgreSQL's pg_wal?"),
        ),
        ArchiveError::ControlFile { .. } => (Kind::FileInvalid, Some(PGDATA_MAJORS)),
        ArchiveError::Duplicate { name } if name.ends_with(".history") => {
            (Kind::ArchiveDuplicate, Some(NUMBER_TAKEN))
        }
        ArchiveError::WithinRepository(_) => (
            Kind::OptionInvalid,
            Some(
                "A repository is for one cluster and what it is upgraded to: name a directory beside it.",
            ),
        ),
        ArchiveError::AmongClusterFiles(_) => (
            Kind::OptionInvalid,
            Some(
                "Base backups would contain the repository, and a restore or pg_rewind would \
                 remove it: name a place outside, best on another disk.",
            ),
        ),
        ArchiveError::Duplicate { .. } => (
            Kind::ArchiveDuplicate,
            Some(
                "Do two servers archive into this repository? Nothing was changed; \
                 \"walzip archive-get\" shows what the archive has. If it is another server's, as after a promotion, \
                 \"walzip timeline set-aside\" puts it away. If it was pushed by hand before it was finished, make room for \
                 the whole. docs/recovery.md says how.",
            ),
        ),
        ArchiveError::NotContinued { .. } => (
            Kind::ArchiveDuplicate,
            Some(
                "A copy of this server archives into this repository, or did; or this is the copy. Nothing was changed. \
                 Stop the one that is not to be kept, or its archiving. docs/recovery.md says how to put its WAL \
                 away. Then take a backup.",
            ),
        ),
        ArchiveError::FinishedElsewhere { .. } => (
            Kind::FileExists,
            Some("Two backups ran at the same time. There is nothing left to do."),
        ),
        ArchiveError::ForeignWal { .. } => (
            Kind::ArchiveDuplicate,
            Some(
                "A copy of this server archives into this repository, or did: stop it, or its archiving. \
                 docs/recovery.md says how to put its WAL away. Then take a backup.",
            ),
        ),
        ArchiveError::Unfinished { .. } => (
            Kind::FileInvalid,
            Some(
                "Nothing was archived. PostgreSQL archives it when it is full; SELECT pg_switch_wal() \
                 finishes it now.",
            ),
        ),
        ArchiveError::Undecodable { source, .. } => match decoding(source) {
            // What the repository has is walzip's: something else in its place is damage.
            Kind::Format if matches!(source, DecodeError::NotWalzip) => {
                (Kind::Damaged, Some(DAMAGED))
            }
            kind => (kind, (kind == Kind::Damaged).then_some(DAMAGED)),
        },
        ArchiveError::WrongPages(_) => (Kind::FileInvalid, Some(WRONG_PAGES)),
        ArchiveError::NeededLink(_) => (Kind::FileInvalid, Some(NEEDED_LINK)),
        ArchiveError::NotWhole(_) => (Kind::FileInvalid, Some(NOT_WHOLE)),
        ArchiveError::LeftOutDatabase(_) => (
            Kind::OptionInvalid,
            Some(
                "No backup was made: it would take the place of one that has the database. Drop the database, \
                 as the restore has said: its directory is named by its OID (SELECT oid, datname FROM pg_database).",
            ),
        ),
        ArchiveError::NoFile(_) => (Kind::FileMissing, None),
        ArchiveError::Damaged { .. } => (Kind::Damaged, Some(DAMAGED)),
        ArchiveError::PackGone(_) => (
            Kind::Damaged,
            Some("It was set aside, or has expired. Run this again."),
        ),
        ArchiveError::Encode { .. } => (
            Kind::Internal,
            Some("Nothing was archived. Please report this."),
        ),
        ArchiveError::Internal(_) => (
            Kind::Internal,
            Some("This is a fault in walzip. Please report it."),
        ),
        ArchiveError::ArchiveModeOff => (
            Kind::OptionInvalid,
            Some(
                "Where \"walzip receive\" takes its WAL, start that. Otherwise: ALTER SYSTEM SET \
                 archive_mode = on, and restart the server. A server that was restored has it off in \
                 postgresql.auto.conf.",
            ),
        ),
        ArchiveError::NoArchiveCommand => (
            Kind::OptionInvalid,
            Some(
                "Set archive_command = 'walzip archive-push --repo REPO %p' and reload the server.",
            ),
        ),
        ArchiveError::NotArchived { .. } => (
            Kind::ArchiveTimeout,
            Some("\"walzip check\" says more; the server's log has what archive_command said."),
        ),
        ArchiveError::NotAcknowledged { .. } => (
            Kind::ArchiveTimeout,
            Some(
                "PostgreSQL keeps its WAL until that succeeds; the server's log says why it fails.",
            ),
        ),
        ArchiveError::ArchivedElsewhere { .. } => (
            Kind::ArchiveTimeout,
            Some("Does archive_command lead to another repository? \"walzip check\" says more."),
        ),
        ArchiveError::SwitchRefused(_) => (
            Kind::DbQuery,
            Some(
                "GRANT EXECUTE ON FUNCTION pg_create_restore_point(text), pg_switch_wal() TO the \
                 role, in the database that it connects to.",
            ),
        ),
        ArchiveError::ClockBehind { .. } => (
            Kind::ClockBehind,
            Some(
                "Nothing was removed. Set the clock. If it is right, and was wrong when that was \
                 made, --ignore-clock goes on.",
            ),
        ),
        ArchiveError::BeingExpired { .. } => (
            Kind::BeingExpired,
            Some("Run this again when \"walzip expire\" has ended."),
        ),
        ArchiveError::ExpiredMeanwhile(_) => (
            Kind::BeingExpired,
            Some(
                "No server recovers in this directory. Repeat the command with --delta, which takes a backup that is \
                 there still.",
            ),
        ),
        ArchiveError::NoBackup(_) => (
            Kind::BackupSetInvalid,
            Some("\"walzip info\" lists the backups; a restore takes another one by --backup."),
        ),
        ArchiveError::NoSuchBackup(_) => (
            Kind::BackupSetInvalid,
            Some("\"walzip info\" lists them; expire may have removed it."),
        ),
        ArchiveError::TooEarly { .. } => (
            Kind::BackupSetInvalid,
            Some("Name that moment or a later one; \"walzip info\" lists the backups."),
        ),
        ArchiveError::HistoryLost { .. } => (
            Kind::Damaged,
            Some(
                "Push it from the pg_wal of a server on that timeline or a later one: walzip \
                 archive-push pg_wal/0000000N.history. Where no server has it, \"walzip timeline \
                 rebuild-history N\" makes it from that of a later timeline, or from the archived WAL. One that is damaged has to be removed \
                 first: walzip repo rm KEY --force --confirm. Where neither can be had, \"walzip timeline set-aside N \
                 --confirm\" puts away what is left of that timeline, and the others can be restored.",
            ),
        ),
        ArchiveError::HistoryConflict { .. } => (Kind::ArchiveDuplicate, Some(NUMBER_TAKEN)),
        ArchiveError::BackupUnusable { .. } => (
            Kind::BackupSetInvalid,
            Some("--backup names an older one; \"walzip verify\" shows what is wrong."),
        ),
        ArchiveError::WalMissing { .. } => (
            Kind::WalMissing,
            Some(
                "Find the segments (pg_wal of the server, a copy of the archive) and push them, or \
                 restore up to the hole: --target-lsn with the position that the message names.",
            ),
        ),
        ArchiveError::EndedEarly { .. } => (
            Kind::WalMissing,
            Some(
                "It was there when the cluster was restored. Where it was expired or set aside since, restore \
                 again; where it was lost, restore with --target-lsn and a position before that, which the server's \
                 log names.",
            ),
        ),
        ArchiveError::OwnCopyHasMore { .. } => (
            Kind::NotInArchive,
            Some("Archive the file that goes on, if what it has is to be in restores."),
        ),
        ArchiveError::BeyondArchive { .. } => (
            Kind::TargetNotArchived,
            Some(
                "What the server wrote last is not archived yet: \"walzip check\" makes it end its \
                 segment and waits for it. Without a target, and with --target-timeline, all that \
                 is archived of that timeline is restored. What was set aside (\"walzip info\" shows it) comes back by \
                 \"walzip timeline put-back\".",
            ),
        ),
        ArchiveError::NotOfCluster { .. } => (
            Kind::PathNotEmpty,
            Some(
                "Nothing was changed in it. Name the cluster's data directory, or an empty or a new \
                 directory.",
            ),
        ),
        ArchiveError::ServerRunning { .. } => (
            Kind::PgRunning,
            Some(
                "Stop the server: pg_ctl stop. If none runs there, remove postmaster.pid. Nothing \
                 was changed.",
            ),
        ),
        ArchiveError::WalNotArchived { .. } => (
            Kind::WalNotArchived,
            Some(
                "If this is a copy that was restored, and is to be thrown away, add --force, and do not push its WAL. If it \
                 is a standby whose primary runs, run \"walzip check\" there, and repeat this; do not push its WAL. If it \
                 was production, push each of them (walzip archive-push FILE), and do not start this server again: it would \
                 go on writing into the last one. Where a push is refused (exit code 45), another server has archived \
                 under that name: \"walzip timeline set-aside\" puts its WAL away. Nothing was changed.",
            ),
        ),
        ArchiveError::DamagedThere { .. } => (
            Kind::Damaged,
            Some(
                "Remove the damaged object (\"walzip repo ls wal --recurse\" shows its key): walzip repo rm KEY \
                 --force --confirm. PostgreSQL's next attempt archives this server's own again.",
            ),
        ),
        ArchiveError::DirectoryAhead { .. } => (
            Kind::WalNotArchived,
            Some(
                "What the cluster did after that would be lost. Keep the directory: restore into another one, and \
                 compare. To go back to what is archived: --force. Nothing was changed.",
            ),
        ),
        ArchiveError::AnotherCluster { .. } => (
            Kind::ArchiveMismatch,
            Some("Name another --directory for this server. Nothing was changed."),
        ),
        ArchiveError::WalRemoved { .. } => (
            Kind::WalMissing,
            Some(
                "Nothing was skipped. Where that WAL is archived otherwise, or is given up, --accept-gap \
                 goes on behind it: then take a backup at once, since no restore gets across the gap. \
                 Drop a slot that is lost and make it again (--create-slot), and raise \
                 max_slot_wal_keep_size.",
            ),
        ),
        ArchiveError::NoSlot { .. } => (
            Kind::DbQuery,
            Some(
                "--create-slot makes a slot. Drop one that is lost first: SELECT \
                 pg_drop_replication_slot('NAME'). Where the server still has the WAL, receiving goes \
                 on; otherwise it says what is missing.",
            ),
        ),
        ArchiveError::Diverged(_) => (
            Kind::TimelineAmbiguous,
            Some(
                "What was received is kept, and may have commits that this server does not have. If it is the old \
                 primary of a failover, stop it, and receive from the new one. To follow this server, name \
                 another --directory; then take a backup.",
            ),
        ),
        ArchiveError::TargetNotFound { .. } => (
            Kind::TargetNotArchived,
            Some(
                "If it is on another timeline, --target-timeline names that: \"walzip info\" lists \
                 them. If it is recent, \"walzip check\" brings in what is not archived yet. The number in a \
                 row's xmin may be that of a subtransaction, which no recovery ends at.",
            ),
        ),
        _ => (Kind::Internal, None),
    }
}

fn file(action: &str, source: &io::Error) -> Kind {
    match (action, source.kind()) {
        (_, io::ErrorKind::NotFound) => Kind::FileMissing,
        ("read", _) => Kind::FileRead,
        _ => Kind::FileWrite,
    }
}

/// A newer file needs a newer walzip; anything else that cannot be decoded is damage.
pub fn decoding(error: &DecodeError) -> Kind {
    match error {
        DecodeError::NotWalzip | DecodeError::UnsupportedVersion { .. } => Kind::Format,
        DecodeError::Disproportionate { .. } => Kind::FileInvalid,
        _ => Kind::Damaged,
    }
}
