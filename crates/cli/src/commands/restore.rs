//! `walzip restore`: a cluster as it was at a chosen moment.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use walzip_archive::progress::Progress;
use walzip_archive::restore::{
    ArchiveMode, DeltaOptions, LeftOutDatabase, LeftOutPartial, Recovery, RecoveryTarget,
    RestoreCommand, RestoreOptions, Restored, TargetAction, TargetTimeline, restore, shown,
};
use walzip_pgformat::Lsn;
use walzip_repo::{BackupLabel, Location};

use crate::asynchronous;
use crate::cluster_args::ClusterArgs;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::progress_line::ProgressLine;
use crate::repo_args::{self, Place, RepoArgs};
use crate::restored_settings::Settings;
use crate::store_args;
use crate::{port_clash, running_as_root, runtime, shell};

/// Restore a cluster to a chosen moment
///
/// A base backup is written into DIR, which must be empty or not exist, and every file is
/// checked against the backup's manifest. With --delta, DIR may have the cluster already. The recovery settings, with walzip as restore_command,
/// are written to postgresql.auto.conf: start the server, and it replays WAL from the archive up
/// to the target. Without a target it replays everything that was archived. When WAL cannot be
/// read that is there, the server stops instead of opening the database without it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  walzip restore --repo /var/lib/walzip /var/lib/postgresql/15/restored
  walzip restore --repo /var/lib/walzip -D DIR --target-time '2026-11-21 22:01:30+00'
  walzip restore --repo /var/lib/walzip -D DIR --target-name before_the_release
  walzip restore --repo /var/lib/walzip -D DIR --delta
  walzip restore --repo /var/lib/walzip -D DIR --database shop
  walzip restore --repo /var/lib/walzip -D DIR --standby --archive-mode preserve

Then: pg_ctl -D DIR start. The restored cluster does not archive, so that a copy never mixes with
the original in its repository. When it takes the original's place: ALTER SYSTEM SET
archive_mode = on, and restart it; or restore with --archive-mode preserve.

Where two timelines were written to at the same time, restore asks for --target-timeline instead of
guessing. It refuses a target that the archive does not reach, and WAL that is missing before it.
After \"walzip upgrade\" it restores the new cluster; --backup restores an older cluster's.")]
pub struct RestoreArgs {
    /// The directory to restore into
    #[arg(value_name = "DIR", required_unless_present = "pgdata")]
    directory: Option<PathBuf>,

    /// The same, as PostgreSQL's programs have it
    #[arg(short = 'D', long, value_name = "DIR", conflicts_with = "directory")]
    pgdata: Option<PathBuf>,

    #[command(flatten)]
    repo: RepoArgs,

    /// The backup to start from [default: the newest from which the target can be reached]
    #[arg(long, value_name = "LABEL")]
    backup: Option<BackupLabel>,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Put a tablespace elsewhere: its name, OID or old directory, and the new directory
    #[arg(short = 'T', long, value_name = "OLD=NEW", value_parser = tablespace)]
    tablespace_mapping: Vec<(String, PathBuf)>,

    /// Write only what differs: DIR may be a data directory of this cluster, whose server is
    /// stopped, or what an interrupted restore has left. What the backup does not have is removed
    #[arg(long)]
    delta: bool,

    /// With --delta, go on even if WAL is removed that is not archived
    #[arg(long, requires = "delta")]
    force: bool,

    /// Restore this database, and PostgreSQL's own (template0, template1, postgres). NAME is its name when the backup
    /// ended, or its OID (oid:N where a name is a number):
    /// the tables of others are empty files, and those databases have to be dropped. Until they are
    /// dropped, a connection to one of them crashes the server: keep monitoring and applications out. Repeatable
    #[arg(long, value_name = "NAME")]
    database: Vec<String>,

    /// Start it as a standby (standby.signal), which replays what is archived until it is promoted, and
    /// follows promotions of others. primary_conninfo is as the backup has it
    #[arg(long, conflicts_with_all = ["target", "target_exclusive", "target_action"])]
    standby: bool,

    /// Whether the restored cluster archives: off, or preserve, as the original did
    #[arg(long, value_name = "MODE", default_value = "off", value_parser = archive_mode)]
    archive_mode: ArchiveMode,

    #[command(flatten)]
    target: TargetArgs,
}

/// Where recovery ends.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Target")]
struct TargetArgs {
    /// The last commit up to this time, with its zone, as the server's log has it:
    /// '2026-11-21 22:01:30.439 UTC', '2026-11-21 22:01:30+00', '2026-11-21 23:01:30 Europe/Berlin'
    #[arg(long, value_name = "TIME", group = "target")]
    target_time: Option<String>,

    /// This WAL position
    #[arg(long, value_name = "LSN", group = "target")]
    target_lsn: Option<Lsn>,

    /// The restore point of this name (pg_create_restore_point)
    #[arg(long, value_name = "NAME", group = "target")]
    target_name: Option<String>,

    /// The end of this transaction
    #[arg(long, value_name = "XID", group = "target")]
    target_xid: Option<u64>,

    /// As soon as the backup is consistent
    #[arg(long, group = "target")]
    target_immediate: bool,

    /// Stop just before the target instead of just after it
    #[arg(long, requires = "target")]
    target_exclusive: bool,

    /// The timeline to follow: a number, current (the backup's) or latest (the highest number)
    /// [default: the one that was alive at the target, if only one was; with --standby latest]
    #[arg(long, value_name = "TIMELINE")]
    target_timeline: Option<TargetTimeline>,

    /// What the server does at the target: promote, pause or shutdown [default: promote]
    #[arg(long, value_name = "ACTION", requires = "target")]
    target_action: Option<TargetAction>,
}

fn archive_mode(text: &str) -> Result<ArchiveMode, String> {
    match text {
        "off" => Ok(ArchiveMode::Off),
        "preserve" => Ok(ArchiveMode::Preserve),
        _ => Err("it is off or preserve".to_owned()),
    }
}

fn tablespace(text: &str) -> Result<(String, PathBuf), String> {
    // A name may have an equals sign, and an absolute path begins with a slash.
    match text.split_once("=/") {
        Some((old, new)) if !old.is_empty() => Ok((old.to_owned(), Path::new("/").join(new))),
        _ => Err("it has the form OLD=NEW, and NEW is an absolute path".to_owned()),
    }
}

/// Where tablespaces go. One that is named twice would go to the last place without a word.
fn tablespace_map(said: Vec<(String, PathBuf)>) -> Result<BTreeMap<String, PathBuf>, CommandError> {
    let mut map = BTreeMap::new();
    for (old, new) in said {
        let named = format!("--tablespace-mapping names {old} twice");
        if map.insert(old, new).is_some() {
            return Err(CommandError::new(Kind::OptionInvalid, named));
        }
    }
    Ok(map)
}

impl TargetArgs {
    fn recovery(&self, standby: bool) -> Result<Recovery, CommandError> {
        let target = if let Some(time) = &self.target_time {
            RecoveryTarget::time(time)?
        } else if let Some(lsn) = self.target_lsn {
            RecoveryTarget::Lsn(lsn)
        } else if let Some(name) = &self.target_name {
            RecoveryTarget::Name(name.clone())
        } else if let Some(xid) = self.target_xid {
            RecoveryTarget::Xid(xid)
        } else if self.target_immediate {
            RecoveryTarget::Immediate
        } else {
            RecoveryTarget::Latest
        };
        Ok(Recovery {
            target,
            inclusive: !self.target_exclusive,
            timeline: match (self.target_timeline, standby) {
                (Some(timeline), _) => timeline,
                (None, true) => TargetTimeline::Latest,
                (None, false) => TargetTimeline::default(),
            },
            action: self.target_action.unwrap_or_default(),
        })
    }
}

/// Runs the command.
pub fn run(args: RestoreArgs) -> Result<(), CommandError> {
    running_as_root::refuse_cluster_of_root()?;
    let config = args.repo.config()?;
    let location = args.repo.place(&config)?;
    let options = RestoreOptions {
        backup: args.backup,
        cluster: args.cluster.cluster,
        recovery: args.target.recovery(args.standby)?,
        standby: args.standby,
        restore_command: restore_command(&location, args.standby)?,
        tablespace_map: tablespace_map(args.tablespace_mapping)?,
        archive_mode: args.archive_mode,
        delta: args.delta.then(|| DeltaOptions {
            force: args.force,
            location: Location::clone(&location),
        }),
        databases: args.database,
        progress: Progress::default(),
    };
    let archives = args.archive_mode == ArchiveMode::Preserve;
    let standby = args.standby;
    let directory = args.directory.or(args.pgdata).unwrap_or_default();
    let restored = runtime::block_on(async {
        let _line = ProgressLine::show(&options.progress);
        let repository = repo_args::open(&location).await?;
        Ok(restore(&repository, &directory, &options).await?)
    });
    let restored = restored.inspect_err(|_| location.tell_of_others(&config))?;
    if restored.files_without_checksum > 0 {
        tracing::info!(
            "{} files have no checksum to check",
            restored.files_without_checksum
        );
    }
    warn_of_settings_elsewhere(&directory, restored.backup.major);
    if let Some(settings) = Settings::of(&directory, restored.backup.major) {
        settings.warn_of_other_data(&directory);
        port_clash::warn(&directory, &settings);
        if !standby {
            settings.warn_of_waiting_commits();
        }
    }
    for branch in &restored.superseded {
        let last = branch.last.map(shown).unwrap_or_default();
        tracing::warn!(
            "timeline {} has commits up to {last} after timeline {} left it at {}: they are not \
             in this restore, --target-timeline {} has them",
            branch.timeline,
            restored.timeline,
            branch.parted_at,
            branch.timeline
        );
    }
    warn_of_partials(&directory, &restored);
    report(&directory, &restored).map_err(CommandError::stdout)?;
    report_start(standby, archives).map_err(CommandError::stdout)?;
    if standby {
        return Ok(());
    }
    report_reset(&options.recovery.target, options.recovery.action).map_err(CommandError::stdout)
}

/// A recovery never asks for a partial segment: who wants what is in it puts it into pg_wal.
fn warn_of_partials(directory: &Path, restored: &Restored) {
    for partial in &restored.partials {
        let LeftOutPartial {
            segment, commits, ..
        } = partial;
        let last = partial.last.map(shown).unwrap_or_default();
        let timeline = segment.timeline;
        let along = match timeline == restored.timeline {
            true => String::new(),
            false => format!("restore with --target-timeline {timeline}, and "),
        };
        let pg_wal = directory.join("pg_wal").join(segment.to_string());
        let to = shell::word(&pg_wal.to_string_lossy());
        tracing::warn!(
            "{segment}.partial has commits that are not in this restore, since no recovery reads it: {commits}, \
             the last at {last}. To have them, {along}before the first start: walzip archive-get \
             {segment}.partial {to}"
        );
    }
}

/// What it does when it is started.
fn report_start(standby: bool, archives: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if standby {
        writeln!(
            out,
            "it starts as a standby, and replays what is archived until it is promoted"
        )?;
    }
    match archives {
        true => writeln!(
            out,
            "once promoted, it archives on a new timeline with the original's archive_command"
        ),
        false => writeln!(
            out,
            "archive_mode is off in it; when it takes the original's place: ALTER SYSTEM SET \
             archive_mode = on, and restart"
        ),
    }
}

/// Which settings of the recovery are to go when it is over. As long as they are there, nothing of the server
/// itself needs them, but a standby that is made from it goes by them.
fn report_reset(target: &RecoveryTarget, action: TargetAction) -> std::io::Result<()> {
    let others = ["recovery_target_timeline", "restore_command"];
    let names = target.setting().into_iter().chain(others);
    let reset: Vec<String> = names
        .map(|name| format!("ALTER SYSTEM RESET {name};"))
        .collect();
    if action == TargetAction::Pause {
        writeln!(
            std::io::stdout(),
            "while it is paused at the target, it keeps the lock of a table that was being dropped, truncated or \
             altered then: pg_dump of that waits until SELECT pg_wal_replay_resume()"
        )?;
    }
    if action == TargetAction::Shutdown {
        writeln!(
            std::io::stdout(),
            "at the target it shuts down, and again at each start: to open it there, set recovery_target_action = \
             'promote' in postgresql.auto.conf and start it once more"
        )?;
    }
    writeln!(
        std::io::stdout(),
        "once it is promoted, in psql: {} SELECT pg_reload_conf(); a standby that is made from it would end \
         there otherwise",
        reset.join(" ")
    )
}

fn report(directory: &Path, restored: &Restored) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let backup = &restored.backup;
    if !backup.checksums_verified {
        tracing::warn!(
            "backup {} was taken with --no-verify-checksums: pages may be damaged, which pg_amcheck and \
             pg_checksums tell",
            backup.label
        );
    }
    writeln!(
        out,
        "backup {} of timeline {}, ended at {} ({})",
        backup.label,
        backup.stop.timeline,
        shown(backup.stop.time),
        backup.stop.lsn
    )?;
    writeln!(
        out,
        "recovery follows timeline {}, whose archived WAL ends at {}",
        restored.timeline, restored.end
    )?;
    if let Some((lsn, time)) = restored.target_found {
        let time = time.map(|time| format!(" ({})", shown(time)));
        writeln!(out, "the target is at {lsn}{}", time.unwrap_or_default())?;
    }
    for tablespace in &backup.tablespaces {
        if let Some(path) = restored.tablespaces.get(&tablespace.oid) {
            writeln!(out, "{tablespace} is in {}", path.display())?;
        }
    }
    for tablespace in &backup.new_tablespaces {
        let location = tablespace.location.escape_debug();
        writeln!(
            out,
            "{tablespace} will be created in {location} by the replay"
        )?;
    }
    writeln!(
        out,
        "restored backup {} into {}: {} files, {} bytes",
        restored.backup.label,
        directory.display(),
        restored.files,
        restored.bytes
    )?;
    report_delta(&mut out, restored)?;
    report_left_out(&mut out, restored)
}

fn report_delta(out: &mut impl Write, restored: &Restored) -> std::io::Result<()> {
    let Some(delta) = restored.delta else {
        return Ok(());
    };
    writeln!(
        out,
        "compared {} files, {} bytes: {} files differed, {} bytes written; removed {} files and {} \
         directories that the backup does not have",
        restored.files,
        restored.bytes,
        delta.files_written,
        delta.bytes_written,
        delta.removed.files,
        delta.removed.directories
    )
}

/// What to do about the databases that are there by name only.
fn report_left_out(out: &mut impl Write, restored: &Restored) -> std::io::Result<()> {
    if restored.left_out.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "{} files of {} databases, {} bytes, are left out: they are empty, and are not checked. \
         Until they are dropped, a connection to one of them, or to one that was copied from them after the \
         backup, crashes the server: keep monitoring and applications out. They are{}. Once promoted, in psql:",
        restored.files_left_out,
        restored.left_out.len(),
        restored.bytes_left_out,
        names_of(&restored.left_out)
    )?;
    let oids = restored.left_out.iter().map(|left| left.oid.to_string());
    let oids = oids.collect::<Vec<_>>().join(", ");
    writeln!(
        out,
        "  UPDATE pg_database SET datallowconn = false WHERE oid IN ({oids});\n  \
         DELETE FROM pg_subscription WHERE subdbid IN ({oids});\n  \
         SELECT format('ALTER DATABASE %I IS_TEMPLATE false', datname) FROM pg_database WHERE oid IN ({oids}) AND datistemplate \\gexec\n  \
         SELECT format('DROP DATABASE %I', datname) FROM pg_database WHERE oid IN ({oids}) \\gexec"
    )?;
    writeln!(
        out,
        "  ALTER SYSTEM RESET ignore_invalid_pages; ALTER SYSTEM RESET max_logical_replication_workers;\n\
         and restart the server. A prepared transaction keeps its database from being dropped: stop the server, remove \
         {}, and start it. The server's log warns of pages that the replay did not find: all have to be of the \
         databases that are left out",
        file_of_prepared_transaction(restored.backup.major)
    )
}

/// What messages call the file of a prepared transaction (`TwoPhaseFilePath` in access/transam/twophase.c).
fn file_of_prepared_transaction(major: u32) -> &'static str {
    match major {
        ..=16 => {
            "pg_twophase/XID (the transaction's number from pg_prepared_xacts, as 8 digits in hexadecimal)"
        }
        _ => {
            "the file in pg_twophase whose name of 16 digits ends in XID (the transaction's number from \
             pg_prepared_xacts, as 8 digits in hexadecimal)"
        }
    }
}

/// The names that databases had when the backup was made, as far as it says. They may have others
/// after the replay.
fn names_of(databases: &[LeftOutDatabase]) -> String {
    let names = databases
        .iter()
        .filter_map(|database| database.name.as_deref());
    let names: Vec<String> = names.map(|name| format!(" \"{name}\"")).collect();
    match names.is_empty() {
        true => " those of the OIDs below".to_owned(),
        false => format!("{}, by their names in the backup", names.join(",")),
    }
}

/// Debian and Ubuntu keep a cluster's settings in /etc, where no base backup finds them. A server
/// does not start without; with the original's, it has to be told that its data are elsewhere.
fn warn_of_settings_elsewhere(directory: &Path, major: u32) {
    if directory.join("postgresql.conf").exists() {
        return;
    }
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let directory = shell::word(&directory.to_string_lossy());
    tracing::warn!(
        "the backup has no postgresql.conf: the cluster keeps it elsewhere. Where that is Debian's \
         place, and the original server is stopped, the restored one starts with: \
         /usr/lib/postgresql/{major}/bin/pg_ctl -D {directory} -o \"-c data_directory={directory} \
         -c config_file=/etc/postgresql/{major}/main/postgresql.conf\" start"
    );
}

/// The command runs in another directory, perhaps with another PATH and without our variables:
/// it names this very program and the repository in full.
fn restore_command(place: &Place, standby: bool) -> Result<RestoreCommand, CommandError> {
    let program = std::env::current_exe().map_err(|error| {
        CommandError::caused(Kind::Internal, "cannot find this program's path", &error)
    })?;
    let program = program.to_str().ok_or_else(|| {
        let message = "the path of this program is not UTF-8, so restore_command cannot have it";
        CommandError::new(Kind::OptionInvalid, message)
    })?;
    // Nor is a configuration file of the server's to fill in what this repository does not set.
    let repo = setting_word(&place.to_string());
    let mut flags = format!("--config /dev/null --repo {repo}");
    // The variables of this shell are not those of the server; what is secret, such as a key, has
    // to be where the server finds it.
    for (name, value) in store_args::flags(&place.settings) {
        flags.push_str(&format!(" --{name} {}", setting_word(&value)));
    }
    for (name, value) in asynchronous::flags(&place.config) {
        flags.push_str(&format!(" --{name}={}", setting_word(&value)));
    }
    let get = format!("{} archive-get {flags}", setting_word(program));
    let arguments = "%f \"%p\"";
    // A standby asks again by itself, whatever the code.
    Ok(match standby {
        true => RestoreCommand::of_walzip(get, arguments),
        false => RestoreCommand::of_walzip(get, format!("{arguments}; {ABORT_ON_TROUBLE}")),
    })
}

/// PostgreSQL takes every exit code up to 125 for "there is no such file": it ends the recovery
/// there and opens the database, and what was committed later is missing without a word. Only
/// "there is no such file" may do that; at anything else it has to stop.
const ABORT_ON_TROUBLE: &str = "r=$?; [ $r -lt 2 ] || [ $r -gt 125 ] || r=126; exit $r";

/// Text as one word for the shell that PostgreSQL runs, with its placeholder character doubled.
fn setting_word(text: &str) -> String {
    shell::word(text).replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settings_words_have_no_placeholders() {
        assert_eq!(setting_word("/100%"), "/100%%");
        assert_eq!(setting_word("/a b%f"), "'/a b%%f'");
    }

    #[test]
    fn a_tablespace_mapping_has_two_sides() {
        assert_eq!(
            tablespace("16400=/new"),
            Ok(("16400".to_owned(), PathBuf::from("/new")))
        );
        assert_eq!(
            tablespace("x=y=/new"),
            Ok(("x=y".to_owned(), PathBuf::from("/new")))
        );
        for wrong in ["16400", "=/new", "/old=new"] {
            assert!(tablespace(wrong).is_err(), "{wrong}");
        }
        let said = |olds: &[&str]| {
            let said = olds
                .iter()
                .map(|old| ((*old).to_owned(), PathBuf::from("/new")));
            tablespace_map(said.collect())
        };
        assert_eq!(said(&["16400", "fast"]).map(|map| map.len()).ok(), Some(2));
        assert!(said(&["16400", "fast", "16400"]).is_err());
    }

    #[test]
    fn files_of_prepared_transactions_have_longer_names_since_17() {
        for (major, is_long) in [(13, false), (16, false), (17, true), (18, true)] {
            let said = file_of_prepared_transaction(major);
            assert_eq!(said.contains("16 digits"), is_long, "{major}");
        }
    }
}
