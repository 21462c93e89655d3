//! Errors, told apart by what the caller can do about them.

mod lost_histories;
mod made_of;
mod occupied_directory;
pub(crate) mod other_branch;
mod shown;
pub(crate) mod time_error;

use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use walzip_codec::{DecodeError, EncodeError};
use walzip_pgformat::control_file::ControlFileError;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileNameError};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{BackupLabel, ClusterIdentity, RepoError};

use crate::error::other_branch::{OtherBranch, PutAway, went_on};
use crate::error::shown::{because, born_at, missing, shown_files, until};
use crate::error::time_error::TimeError;
use crate::server::archiver::Archiver;
use crate::server::replication::ServerError;
use crate::server::tablespace_record::TablespaceRecord;
use crate::wal::wal_end::{WalEnd, shown};

pub use lost_histories::LostHistories;
pub use occupied_directory::OccupiedDirectory;
use occupied_directory::listed;

/// Why an operation on the archive failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The request contradicts itself or the state of things: ask for something else.
    #[error("{0}")]
    Request(String),

    /// A text does not say at which moment recovery is to end.
    #[error(transparent)]
    Time(#[from] TimeError),

    /// The name is none that PostgreSQL archives.
    #[error(transparent)]
    Name(#[from] WalFileNameError),

    /// A local file or directory could not be used.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    File {
        /// What was tried: "read", "write", "rename".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A local file is not what its name says, or changed while it was read.
    #[error("{path} cannot be archived: {reason}", path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What contradicts what.
        reason: String,
    },

    /// The control file of a data directory cannot be believed.
    #[error("{path}: {source}", path = path.display())]
    ControlFile {
        /// The control file.
        path: PathBuf,
        /// What is wrong with it.
        source: ControlFileError,
    },

    /// The repository belongs to another cluster.
    #[error("{what} belongs to {found}, the repository to {repository}")]
    Mismatch {
        /// What was compared: a file, a data directory, a server.
        what: String,
        /// Its cluster.
        found: ClusterIdentity,
        /// The repository's cluster; the last one, if it was kept through upgrades.
        repository: ClusterIdentity,
    },

    /// An older cluster of the repository was written to after the newest one was backed up: it
    /// may be the one to restore.
    #[error(
        "{other} went on{} after the last backup of {newest}, which is newer: which of them is \
         to be restored?",
        until(.last)
    )]
    OlderClusterWentOn {
        /// The cluster that was registered last.
        newest: ClusterIdentity,
        /// The older one.
        other: ClusterIdentity,
        /// The last commit or backup of it that is known.
        last: Option<Timestamp>,
    },

    /// The repository and the cluster's own files lie in one another: what removes the one
    /// removes the other.
    #[error("{0}")]
    AmongClusterFiles(String),

    /// A new repository would lie within another one.
    #[error("{0}")]
    WithinRepository(String),

    /// A directory or a file of the cluster was replaced by a link.
    #[error("{0} is no file and no directory, and the cluster is not whole without it")]
    NeededLink(String),

    /// A tablespace or a database has no files, though the server has it.
    #[error("{0}")]
    NotWhole(String),

    /// The cluster has a database without content, since a restore has left it out.
    #[error("{0}: the restore of this cluster has left the database out, and it has no content")]
    LeftOutDatabase(String),

    /// The archive has other content under this name. Nothing was changed.
    #[error("{name} is in the archive already, with different content")]
    Duplicate {
        /// The WAL file's name.
        name: String,
    },

    /// The archive has another server's segment before or after one that is pushed. Nothing was changed.
    #[error("{segment} does not continue {before}: {why}")]
    NotContinued {
        /// A segment, and whether that is the archived one.
        segment: String,
        /// The one before it, and whether that is.
        before: String,
        /// What shows it.
        why: String,
    },

    /// An attempt at a backup failed, and another one has finished it.
    #[error("{source}; another attempt has finished backup {label}, which can be restored")]
    FinishedElsewhere {
        /// The backup's label.
        label: String,
        /// Why this attempt failed.
        source: Box<ArchiveError>,
    },

    /// The archive has another server's WAL under the names of this server's.
    #[error("{segment} in the repository is not what this server wrote: it lacks {lacks}")]
    ForeignWal {
        /// The name of a segment.
        segment: String,
        /// What this server has written into it.
        lacks: String,
    },

    /// An object in the repository cannot be decoded.
    #[error("{object} in the repository cannot be decoded: {source}")]
    Undecodable {
        /// The WAL file's name, or the backup's label and object.
        object: String,
        /// Why not.
        source: DecodeError,
    },

    /// An object in the repository is not what it has to be.
    #[error("{object} in the repository is damaged: {reason}")]
    Damaged {
        /// The WAL file's name, or the backup's label and object.
        object: String,
        /// What contradicts what.
        reason: String,
    },

    /// An object of a segment's own came after a pack that has the segment, and is not the same.
    #[error(
        "{key} is not the {name} that pack {pack} has, and came after the pack, which is whole: it was put late. It is not \
         read; \"walzip repo rm {key} --confirm\" removes it"
    )]
    PutLate {
        /// Its key.
        key: String,
        /// The segment.
        name: String,
        /// The pack.
        pack: String,
    },

    /// A pack was there a moment ago: its timeline was set aside, or it has expired.
    #[error("pack {0} in the repository disappeared while it was read")]
    PackGone(String),

    /// The file could not be encoded; nothing was archived.
    #[error("{name} could not be encoded: {source}")]
    Encode {
        /// The WAL file's name.
        name: String,
        /// Why not.
        source: EncodeError,
    },

    /// The server archives nothing.
    #[error(
        "archive_mode is off on the server, and nobody receives its WAL: none of it is archived"
    )]
    ArchiveModeOff,

    /// Nothing is set that would archive.
    #[error("archive_command is empty on the server: its WAL waits in pg_wal for one")]
    NoArchiveCommand,

    /// The server took a segment for archived that is not in the repository.
    #[error("the server reports {segment} as archived, and the repository does not have it")]
    ArchivedElsewhere {
        /// The segment.
        segment: String,
        /// What the server said.
        archiver: Box<Archiver>,
    },

    /// WAL did not arrive in the archive in time.
    #[error("{segment} was not archived within {waited_seconds} seconds{}", because(.failure))]
    NotArchived {
        /// The first segment that is missing.
        segment: String,
        /// How long the repository was watched.
        waited_seconds: u64,
        /// The last failure that the server's archiver reports, if it is not past.
        failure: Option<String>,
        /// What the server said, if it could be asked; nothing where its primary has to archive.
        archiver: Option<Box<Archiver>>,
        /// Whether the server is a standby that leaves archiving to its primary.
        by_primary: bool,
    },

    /// WAL is in the archive, and the server's archiver does not succeed all the same.
    #[error("{segment} is in the archive, but the server's archive_command has not succeeded within {waited_seconds} seconds{}", because(.failure))]
    NotAcknowledged {
        /// The segment.
        segment: String,
        /// How long the server was asked.
        waited_seconds: u64,
        /// The last failure that the server's archiver reports, if it is not past.
        failure: Option<String>,
        /// What the server said.
        archiver: Box<Archiver>,
    },

    /// A segment is pushed that the server still writes.
    #[error("{}: the server that runs there has not finished this segment", .path.display())]
    Unfinished {
        /// The segment.
        path: PathBuf,
    },

    /// The role may not make the server end a segment, so that nothing shows that WAL arrives.
    #[error("whether WAL arrives cannot be checked: {0}")]
    SwitchRefused(ServerError),

    /// Pages in the data directory are damaged.
    #[error("{0} pages of the data directory have a wrong checksum: they are damaged")]
    WrongPages(u64),

    /// A backup does not have the file that was asked for.
    #[error("{0}")]
    NoFile(String),

    /// Something in the repository is younger than it can be.
    #[error("the clock says {}, and {object} is of {}: one of them is wrong", shown(*.now), shown(*.newest))]
    ClockBehind {
        /// What the clock says.
        now: Timestamp,
        /// The time of the newest object.
        newest: Timestamp,
        /// Which that is.
        object: String,
    },

    /// A backup that is needed is being expired.
    #[error("backup {label} is being expired")]
    BeingExpired {
        /// Its label.
        label: String,
    },

    /// WAL that a restore needs has gone while it ran.
    #[error("{0}, with which the recovery begins, has left the archive during the restore")]
    ExpiredMeanwhile(String),

    /// No backup in the repository serves the request.
    #[error("no backup to restore: {0}")]
    NoBackup(String),

    /// A backup that was named is not there.
    #[error("there is no finished backup {0}")]
    NoSuchBackup(BackupLabel),

    /// The target lies before the end of every backup.
    #[error(
        "no backup to restore: all ended after the target, {target}; the earliest moment that can be restored is \
         {earliest} (backup {label})"
    )]
    TooEarly {
        /// The target.
        target: Timestamp,
        /// When the first backup ended.
        earliest: Timestamp,
        /// Which that is.
        label: String,
    },

    /// Two timelines were written to at the same time: two clusters, and which of them is meant is
    /// for people to say.
    #[error("timeline {timeline}{} is not the only one that went on{}", born_at(.born), went_on(.others))]
    BranchesCompete {
        /// The one that was born last.
        timeline: TimelineId,
        /// How it is put away, should it be the one that was abandoned.
        put_away: PutAway,
        /// When it was born, as far as that can be read.
        born: Option<Timestamp>,
        /// Those that went on beside it.
        others: Vec<OtherBranch>,
    },

    /// The archive has lost the histories of timelines that it leads to.
    #[error("{lost}{}", because(.damage))]
    HistoryLost {
        /// The timelines.
        lost: LostHistories,
        /// Why the first one's history cannot be read, where it is there.
        damage: Option<String>,
    },

    /// A history contradicts the WAL of its timeline that is archived. Nothing was changed.
    #[error(
        "{name} says that the timeline begins at {says}; in the archive it begins {found}: \
         it is the history of another cluster's timeline"
    )]
    HistoryConflict {
        /// The history's name.
        name: String,
        /// Where it says that the timeline begins.
        says: Lsn,
        /// Where the archived WAL shows it to begin.
        found: String,
        /// The archive only lacks the timeline's beginning, and shows nothing else.
        is_gap: bool,
    },

    /// A history names a timeline which is not the archive's of that number. Nothing was changed.
    #[error(
        "{name} comes from a timeline {ancestor} that is not the one in the archive: another server has taken that \
         number as well"
    )]
    AncestorConflict {
        /// The history's name.
        name: String,
        /// The timeline that it names.
        ancestor: TimelineId,
    },

    /// The newest backup that serves a target cannot be used; an older one might.
    #[error("the newest backup cannot be used: {problem}")]
    BackupUnusable {
        /// Which backups, and why.
        problem: String,
        /// The next older one that serves.
        older: BackupLabel,
    },

    /// Segments are missing before the target.
    #[error(
        "WAL is missing before the target: {}; recovery gets no further than {end}",
        missing(.first, .last, *.segments)
    )]
    WalMissing {
        /// The first missing segment.
        first: String,
        /// The last one of the hole.
        last: String,
        /// How many they are.
        segments: u64,
        /// The end of what comes before the hole.
        end: Box<WalEnd>,
    },

    /// A recovery has come to the end of its WAL before it came to where it was expected to.
    #[error(
        "the recovery has ended before {expected}, where it was expected to end: the WAL after {last} is not in the \
         archive any more"
    )]
    EndedEarly {
        /// The last segment that it has got.
        last: SegmentName,
        /// The segment after it.
        next: SegmentName,
        /// Where it was expected to end.
        expected: Lsn,
    },

    /// The server that asks for a segment has a file of it that goes on after what is archived.
    #[error("the archive has only the beginning of {}, which goes on", path.display())]
    OwnCopyHasMore {
        /// The server's file.
        path: PathBuf,
    },

    /// The target lies after everything that is archived.
    #[error("the target, {target}, is not in the archived WAL, which ends at {end}")]
    BeyondArchive {
        /// The target.
        target: String,
        /// The end of the archived WAL.
        end: Box<WalEnd>,
    },

    /// A transaction or a restore point is in no WAL after a backup.
    #[error(
        "the target, {target}, is nowhere in the archived WAL of timeline {timeline} after a \
         backup{}{}",
        hole.as_ref().map(|hole| format!("; {hole} is missing there")).unwrap_or_default(),
        superseded.iter().map(|other| format!("; timeline {other} was given up for it"))
            .collect::<String>()
    )]
    TargetNotFound {
        /// The target.
        target: String,
        /// The timeline that was searched.
        timeline: TimelineId,
        /// The first missing segment, where there is a hole.
        hole: Option<String>,
        /// Timelines that were given up for that one, with commits that it lacks.
        superseded: Vec<TimelineId>,
    },

    /// Directories to restore into hold something. Nothing was written.
    #[error("{} not empty: {}", if .directories.len() == 1 { "a directory to restore into is" }
        else { "directories to restore into are" }, listed(.directories))]
    NotEmpty {
        /// All of them.
        directories: Vec<OccupiedDirectory>,
    },

    /// A directory to restore over is, for all that is known, not the cluster's. It was not changed.
    #[error("{} is not a data directory of the cluster: {reason}", path.display())]
    NotOfCluster {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },

    /// A server uses a directory to restore over.
    #[error("a server uses {}, {why}", directory.display())]
    ServerRunning {
        /// The data directory.
        directory: PathBuf,
        /// By what that is known.
        why: String,
    },

    /// A restore would remove WAL that is nowhere else.
    #[error("{} not archived, and would be lost: {}",
        if .files.len() == 1 { "a WAL file is" } else { "WAL files are" }, shown_files(.files))]
    WalNotArchived {
        /// The files in `pg_wal`.
        files: Vec<PathBuf>,
    },

    /// What is archived under the name of a file that is pushed is damaged.
    #[error("{name} is archived already, and damaged there: {error}")]
    DamagedThere {
        /// The file's name.
        name: String,
        /// What is wrong with the archived one.
        error: Box<ArchiveError>,
    },

    /// A data directory has come further than the archived WAL, and what is between them is nowhere.
    #[error(
        "{} has come to {at}, and the archived WAL ends at {end}; the WAL between them is neither archived nor in \
         pg_wal", .path.display()
    )]
    DirectoryAhead {
        /// The data directory.
        path: PathBuf,
        /// How far it has come.
        at: Lsn,
        /// The end of the archived WAL.
        end: Box<WalEnd>,
    },

    /// A directory in which the replay will create a tablespace is missing, and cannot be made.
    #[error("the replay will create {tablespace} in {path}, which cannot be made: {source}",
        path = path.display())]
    NoLocation {
        /// The tablespace.
        tablespace: TablespaceRecord,
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A segment creates a tablespace where another data directory has its files.
    #[error("{segment} creates tablespace {oid} in {location}, where {found} belongs to another \
             data directory: replaying it would change those files", location = location.display(),
             found = found.display())]
    TablespaceInUse {
        /// The segment, which was not delivered.
        segment: String,
        /// The tablespace.
        oid: u32,
        /// Its directory.
        location: PathBuf,
        /// What is in it.
        found: PathBuf,
    },

    /// A directory of received WAL is another cluster's than the server is.
    #[error("{} has WAL of {holds}, and the server is {found}", directory.display())]
    AnotherCluster {
        /// The directory.
        directory: PathBuf,
        /// Whose WAL it has.
        holds: ClusterIdentity,
        /// Whose the server is.
        found: ClusterIdentity,
    },

    /// A server has removed the WAL that is to be received next.
    #[error("the server no longer has {segment}, from which on WAL is to be received: {source}")]
    WalRemoved {
        /// The first segment that is missing.
        segment: String,
        /// What the server said.
        source: Box<ServerError>,
    },

    /// The server does not let the slot be used.
    #[error("the slot {slot} cannot be used: {source}")]
    NoSlot {
        /// The slot.
        slot: String,
        /// What the server said.
        source: Box<ServerError>,
    },

    /// What was received is not part of the server's WAL.
    #[error("{0}: the server has gone another way")]
    Diverged(String),

    /// A fault in walzip or a library below it.
    #[error("internal error: {0}")]
    Internal(String),

    /// The repository failed.
    #[error(transparent)]
    Repository(RepoError),

    /// The server failed.
    #[error(transparent)]
    Server(#[from] ServerError),
}
