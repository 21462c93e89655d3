//! `walzip info`: what is in the repository.

mod one_backup;

use std::fmt;
use std::io::Write;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use walzip_archive::info::{BackupInfo, ClusterContent, Info, info};
use walzip_archive::receive::{ReceiveState, receive_state};
use walzip_archive::{DamagedObject, Growth, RecoveryWindow, TimelineWal};
use walzip_repo::BackupLabel;

use crate::each_repository::each;
use crate::error::CommandError;
use crate::repo_args::{self, Place, RepoArgs};
use crate::runtime;
use crate::table::write_section;

/// Show the backups and the WAL in the repository
///
/// Gaps in the WAL are shown, backups that cannot be restored because WAL is missing, and how far
/// each timeline can be restored. Of the WAL, only the segments at the ends of each range are read:
/// "walzip verify" reads everything. Without --repo, all repositories of the configuration file are
/// shown. With --backup, a backup is shown with its databases and tablespaces.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip info --repo /var/lib/walzip --json | jq '.backups[-1].label'")]
pub struct InfoArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// Show the local directory of "walzip receive" too
    #[arg(
        long,
        value_name = "DIR",
        env = "WALZIP_RECEIVE_DIRECTORY",
        hide_env_values = true
    )]
    receive_directory: Option<PathBuf>,

    /// Show this backup only, with its databases and tablespaces
    #[arg(long, value_name = "LABEL", conflicts_with_all = ["json", "receive_directory"])]
    backup: Option<BackupLabel>,

    /// Print JSON, whose fields are stable
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: InfoArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let places = args.repo.places(&config, None)?;
    if let Some(label) = &args.backup {
        return one_backup::run(label, &places);
    }
    let received = args.receive_directory.or(config.receive_directory);
    let received = received.map(|directory| receive_state(&directory));
    let mut is_first = true;
    let infos = each(&places, |place| {
        let mut info = runtime::block_on(async {
            let repository = repo_args::open(place).await?;
            Ok(info(&repository).await?)
        })?;
        info.received.clone_from(&received);
        if !args.json {
            let text = Text { place, info: &info };
            let space = if is_first { "" } else { "\n" };
            write!(std::io::stdout(), "{space}{text}").map_err(CommandError::stdout)?;
            is_first = false;
        }
        Ok(info)
    });
    if args.json {
        infos.print_json()?;
    }
    infos.finish().map(|_| ())
}

/// The same for a person.
struct Text<'a> {
    place: &'a Place,
    info: &'a Info,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.info;
        match self.place.number {
            Some(number) => writeln!(f, "repository  {number}, {}", self.place)?,
            None => writeln!(f, "repository  {}", self.place)?,
        }
        for problem in &info.cluster_problems {
            writeln!(f, "DAMAGED: {problem}")?;
        }
        write_cluster(f, "cluster", &info.newest)?;
        for backup in &info.unreadable_backups {
            writeln!(
                f,
                "{}: CANNOT BE RESTORED: {}",
                backup.label, backup.problem
            )?;
        }
        // The next full backup goes on with the newest full one alone.
        let full = info.unfinished_backups.iter();
        let newest_full = full.filter(|label| label.ends_with('F')).max();
        for label in &info.unfinished_backups {
            let continued = match Some(label) == newest_full {
                true => "the next full backup may go on with it, or ",
                false => "",
            };
            writeln!(
                f,
                "{label}: unfinished: it still runs, or was interrupted; then {continued}\"walzip expire\" removes \
                 what it left"
            )?;
        }
        write_wal(f, &info.newest)?;
        if let (Some(began), Some(findings)) = (info.last_verified, info.last_verified_findings) {
            write!(f, "verified {began:.0}: ")?;
            match findings {
                0 => writeln!(f, "nothing wrong")?,
                1 => writeln!(f, "1 PROBLEM, which \"walzip verify\" tells")?,
                _ => writeln!(f, "{findings} PROBLEMS, which \"walzip verify\" tells")?,
            }
        }
        if let Some(received) = &info.received {
            write_received(f, received)?;
        }
        for older in info.older_clusters.iter().rev() {
            writeln!(f)?;
            write_cluster(f, "before", older)?;
            write_wal(f, older)?;
        }
        Ok(())
    }
}

/// How far `receive` is, and what waits in its directory.
fn write_received(f: &mut fmt::Formatter<'_>, received: &ReceiveState) -> fmt::Result {
    write!(f, "received in {}", received.directory.display())?;
    if let Some(problem) = &received.problem {
        return writeln!(f, ": CANNOT BE READ: {problem}");
    }
    match (received.timeline, &received.received_to) {
        (Some(timeline), Some(to)) => write!(f, ": up to {to} on timeline {timeline}")?,
        _ => f.write_str(": nothing")?,
    }
    if let Some(seconds) = received.age_seconds.filter(|seconds| *seconds >= 0) {
        write!(f, ", {:#} ago", SignedDuration::from_secs(seconds))?;
    }
    if let Some(segment) = &received.unfinished_segment {
        write!(f, "; unfinished: {segment}")?;
    }
    match received.waiting_files {
        0 => {}
        1 => f.write_str("; 1 file waits to be archived")?,
        count => write!(f, "; {count} files wait to be archived")?,
    }
    match received.is_receiving {
        Some(false) => writeln!(f, "; NOBODY RECEIVES"),
        Some(true) | None => writeln!(f),
    }
}

/// Whose archive it is, and the backups.
fn write_cluster(f: &mut fmt::Formatter<'_>, what: &str, content: &ClusterContent) -> fmt::Result {
    let cluster = &content.cluster;
    writeln!(
        f,
        "{what:<12}PostgreSQL {}, system identifier {}",
        cluster.major, cluster.system_identifier
    )?;
    writeln!(f, "made        {:.0}", content.created)?;
    if content.backups.is_empty() {
        writeln!(f, "\nno finished backup")?;
    }
    let rows = content.backups.iter().map(|backup| {
        vec![
            backup.label.clone(),
            backup.backup_type.to_string(),
            format!("{:.0}", backup.stop.time),
            backup.stop.lsn.to_string(),
            backup.first_segment.clone().unwrap_or_default(),
            megabytes(backup.original_bytes),
            megabytes(backup.stored_bytes),
        ]
    });
    let heads = [
        "Backup",
        "type",
        "restores from",
        "position",
        "needs WAL from",
        "MB",
        "stored MB",
    ];
    write_section(f, &heads, rows.collect())?;
    content
        .backups
        .iter()
        .try_for_each(|backup| write_notes(f, backup))
}

/// What else there is to say of a backup.
fn write_notes(f: &mut fmt::Formatter<'_>, backup: &BackupInfo) -> fmt::Result {
    write_references(f, backup)?;
    write_pin(f, backup)?;
    if !backup.checksums_verified {
        let label = &backup.label;
        writeln!(
            f,
            "{label}: its pages may be damaged: --no-verify-checksums"
        )?;
    }
    write_missing(f, backup)?;
    write_damaged(f, backup)
}

/// What a backup was compared with, and what it needs.
fn write_references(f: &mut fmt::Formatter<'_>, backup: &BackupInfo) -> fmt::Result {
    if let Some(prior) = &backup.prior {
        writeln!(
            f,
            "{}: compared with {prior}; needs {}",
            backup.label,
            backup.references.join(", ")
        )?;
    }
    let Some(first) = backup.missing_references.first() else {
        return Ok(());
    };
    writeln!(
        f,
        "{}: CANNOT BE RESTORED: backup {first}, which it needs, is missing or cannot be read",
        backup.label
    )
}

/// Why a backup is not expired.
fn write_pin(f: &mut fmt::Formatter<'_>, backup: &BackupInfo) -> fmt::Result {
    let Some(pin) = &backup.pinned else {
        return Ok(());
    };
    write!(f, "{}: pinned since {:.0}", backup.label, pin.pinned)?;
    match &pin.reason {
        Some(reason) => writeln!(f, ": {}", reason.escape_debug()),
        None => writeln!(f),
    }
}

/// What is set aside, and the WAL.
fn write_wal(f: &mut fmt::Formatter<'_>, content: &ClusterContent) -> fmt::Result {
    let cluster = &content.cluster;
    for aside in &content.set_aside {
        writeln!(
            f,
            "aside/{}-{}/{}: set aside: WAL files {}, {} MB stored",
            cluster.major,
            cluster.system_identifier,
            aside.label,
            aside.objects,
            megabytes(aside.stored_bytes)
        )?;
    }
    if content.wal.is_empty() {
        writeln!(f, "\nno WAL")?;
    }
    let rows = content.wal.iter().flat_map(wal_rows).collect();
    write_section(f, &WAL_HEADS, rows)?;
    for wal in &content.wal {
        write_timeline(f, wal)?;
    }
    if !content.competing_timelines.is_empty() {
        let timelines = content.competing_timelines.iter().map(u32::to_string);
        let timelines = timelines.collect::<Vec<_>>().join(" and ");
        writeln!(
            f,
            "TWO SERVERS HAVE ARCHIVED HERE: timelines {timelines} went on at the same time, and a restore asks which is \
             meant. Stop the wrong server, and put its timeline away: walzip timeline set-aside"
        )?;
    }
    let growth = content.growth.iter();
    growth
        .into_iter()
        .try_for_each(|growth| write_growth(f, growth))
}

/// Where a timeline comes from, and how far one can restore along it.
fn write_timeline(f: &mut fmt::Formatter<'_>, wal: &TimelineWal) -> fmt::Result {
    let timeline = wal.timeline;
    if wal.history_missing {
        writeln!(
            f,
            "timeline {timeline}: CANNOT BE RESTORED: its history is missing; a restore to another \
             timeline is refused too where its server would ask for that"
        )?;
    }
    if let (Some(parent), Some(at)) = (wal.parent, &wal.parted_at) {
        writeln!(f, "timeline {timeline} left timeline {parent} at {at}")?;
    }
    let Some((newest, older)) = wal.recovery_windows.split_last() else {
        return Ok(());
    };
    for window in older {
        write_window(f, timeline, window)?;
        writeln!(f, "; then WAL is missing")?;
    }
    write_window(f, timeline, newest)?;
    match wal.age_seconds {
        Some(seconds) if seconds >= 0 => {
            let age = SignedDuration::from_secs(seconds);
            write!(f, ", {age:#} ago")?;
        }
        _ => {}
    }
    match &newest.then_missing {
        Some(missing) if missing.first == missing.last => writeln!(
            f,
            "; then WAL is missing: {}; push it, or take a backup",
            missing.first
        ),
        Some(missing) => writeln!(
            f,
            "; then WAL is missing: {} to {}; push it, or take a backup",
            missing.first, missing.last
        ),
        None => writeln!(f),
    }
}

fn write_window(f: &mut fmt::Formatter<'_>, timeline: u32, window: &RecoveryWindow) -> fmt::Result {
    // In full: as a target time, the second before would be refused.
    let from = window.from.time;
    let to = &window.to;
    write!(
        f,
        "timeline {timeline} can be restored from {from} up to {to}"
    )
}

fn write_growth(f: &mut fmt::Formatter<'_>, growth: &Growth) -> fmt::Result {
    writeln!(
        f,
        "each day since {}: WAL {} MB in {} MB, backups {} MB",
        second(growth.since),
        megabytes(growth.wal_original_bytes_per_day),
        megabytes(growth.wal_stored_bytes_per_day),
        megabytes(growth.backup_stored_bytes_per_day)
    )
}

fn write_missing(f: &mut fmt::Formatter<'_>, backup: &BackupInfo) -> fmt::Result {
    let Some(first) = backup.missing_segments.first() else {
        return Ok(());
    };
    let more = match backup.missing_segments.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    writeln!(
        f,
        "{}: CANNOT BE RESTORED: {first}{more} missing from the WAL",
        backup.label
    )
}

fn write_damaged(f: &mut fmt::Formatter<'_>, backup: &BackupInfo) -> fmt::Result {
    let Some(DamagedObject {
        backup: of,
        object,
        problem,
    }) = backup.damaged_objects.first()
    else {
        return Ok(());
    };
    let more = match backup.damaged_objects.len() {
        1 => String::new(),
        count => format!("; {} more objects are damaged", count - 1),
    };
    writeln!(
        f,
        "{}: CANNOT BE RESTORED: {object} of backup {of} {problem}{more}",
        backup.label
    )
}

const WAL_COLUMNS: usize = 8;
const WAL_HEADS: [&str; WAL_COLUMNS] = [
    "Timeline",
    "WAL from",
    "to",
    "segments",
    "first record",
    "last record",
    "MB",
    "stored MB",
];

/// The ranges with the gaps between them, in their order.
fn wal_rows(wal: &TimelineWal) -> Vec<Vec<String>> {
    let ranges = wal.ranges.iter().map(|range| (range, false));
    let gaps = wal.gaps.iter().map(|gap| (gap, true));
    let mut parts: Vec<_> = ranges.chain(gaps).collect();
    parts.sort_by(|a, b| a.0.first.cmp(&b.0.first));
    let mut rows: Vec<Vec<String>> = parts
        .into_iter()
        .map(|(range, is_gap)| {
            let segments = range.segments.to_string();
            let count = if is_gap {
                format!("MISSING {segments}")
            } else {
                segments
            };
            let timeline = wal.timeline.to_string();
            vec![
                timeline,
                range.first.clone(),
                range.last.clone(),
                count,
                range.first_time.map(second).unwrap_or_default(),
                range.last_time.map(second).unwrap_or_default(),
                String::new(),
                String::new(),
            ]
        })
        .collect();
    for partial in &wal.partial {
        let timeline = wal.timeline.to_string();
        let mut row = vec![timeline, partial.clone()];
        row.resize(WAL_COLUMNS, String::new());
        rows.push(row);
    }
    if rows.is_empty() {
        let history = "(a history only)".to_owned();
        let mut row = vec![wal.timeline.to_string(), history];
        row.resize(WAL_COLUMNS, String::new());
        rows.push(row);
    }
    if let Some([.., original, stored]) = rows.last_mut().map(Vec::as_mut_slice) {
        *original = megabytes(wal.original_bytes);
        *stored = megabytes(wal.stored_bytes);
    }
    rows
}

fn second(time: Timestamp) -> String {
    format!("{time:.0}")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}
