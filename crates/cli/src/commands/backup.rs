//! `walzip backup`: a base backup of the running cluster.

use std::io::Write;
use std::time::Duration;

use clap::ValueEnum;
use jiff::Timestamp;
use walzip_archive::backup::{BackupOptions, CopyMethod, backup};
use walzip_archive::replication::ManifestChecksums;
use walzip_repo::{BackupType, Pin};

use crate::archive_command;
use crate::config::BACKUP_PROCESS_MAX;
use crate::connection_args::ConnectionArgs;
use crate::duration::SECONDS_MAX;
use crate::error::CommandError;
use crate::level_args::BackupLevelArgs;
use crate::progress_line::{self, ProgressLine};
use crate::repo_args::{self, RepoArgs};
use crate::{running_as_root, runtime};

/// Take a base backup of the running cluster
///
/// The files are encoded, proven by decoding and stored as they come, and read back. The backup is
/// listed, and can be restored, only once all WAL that it needs is in the repository. The user
/// needs the REPLICATION attribute, and pg_hba.conf has to let it in. To read the files itself,
/// walzip needs the right to execute pg_backup_start and pg_backup_stop (up to 14 pg_start_backup
/// and pg_stop_backup) as well, and membership in pg_read_all_settings.
///
/// Where the configuration file has several repositories, the backup is stored in the one that
/// --repo names, or in the first.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Example:
  walzip backup --repo /var/lib/walzip -h /var/run/postgresql -U backup"
)]
pub struct BackupArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// Store all files, or what has changed since the newest full backup (diff) or the newest one
    /// (incr); where there is none that fits, all files. Where the newest one already needs 32 others,
    /// incr is as diff
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = Type::Full)]
    backup_type: Type,

    /// Checkpoint at once, or spread over minutes to spare the server
    #[arg(short, long, value_enum, default_value_t = Checkpoint::Fast)]
    checkpoint: Checkpoint,

    /// The checksum that the server computes for each file
    #[arg(long, value_enum, default_value_t = Checksums::Crc32c)]
    manifest_checksums: Checksums,

    /// How many threads encode [default: one for each processor, at most 8]
    #[arg(
        long,
        value_name = "THREADS",
        env = "WALZIP_BACKUP_PROCESS_MAX",
        hide_env_values = true
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(BACKUP_PROCESS_MAX)))]
    process_max: Option<u16>,

    /// Who reads the cluster's files: the server, which sends them, or walzip, in the data
    /// directory, which takes less time. auto: walzip where it runs on a primary's own machine,
    /// connects through a Unix socket and may read the directory
    #[arg(long, value_enum, default_value_t = Method::Auto)]
    copy_method: Method,

    /// Read and compare all blocks, whatever the server's WAL summaries say. Without it, an
    /// incremental or differential backup reads only what they name: from PostgreSQL 17 on with
    /// summarize_wal = on, where walzip reads in the data directory
    #[arg(long)]
    delta: bool,

    /// The most that is copied, in kilobytes a second, or with k or M behind it
    #[arg(short = 'r', long, value_name = "RATE", value_parser = max_rate)]
    max_rate: Option<u32>,

    /// How long to wait for WAL to be archived [default: 60 before the copy, 3600 after it]
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=SECONDS_MAX))]
    archive_timeout: Option<u64>,

    /// Do not prove the backup by decoding it and reading it back: faster, and a fault in the
    /// machine's memory or storage goes unnoticed until "walzip verify" or a restore
    #[arg(long)]
    no_verify: bool,

    /// Take a backup although pages have wrong checksums: they are in it as they are. Otherwise no
    /// backup is made of a damaged page. A restore of it warns
    #[arg(long)]
    no_verify_checksums: bool,

    /// Keep this backup until "walzip unpin", whatever the retention says; with a reason, if one is
    /// given
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "")]
    pin: Option<String>,

    /// Begin anew where the newest backup is a full one that was interrupted. Otherwise a full backup
    /// goes on with it: under its label, and with the parts of files that it has stored already
    #[arg(long)]
    no_resume: bool,

    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(flatten)]
    level: BackupLevelArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Type {
    Full,
    Diff,
    Incr,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Checkpoint {
    Fast,
    Spread,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Method {
    Auto,
    Server,
    Files,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Checksums {
    Crc32c,
    Sha256,
}

/// As pg_basebackup takes it; the bounds are the server's.
fn max_rate(text: &str) -> Result<u32, String> {
    let (number, kilobytes) = match text.strip_suffix(['k', 'M']) {
        Some(number) if text.ends_with('M') => (number, 1024),
        Some(number) => (number, 1),
        None => (text, 1),
    };
    let rate = number
        .parse()
        .ok()
        .and_then(|rate: u32| rate.checked_mul(kilobytes));
    let rate = rate.filter(|rate| (32..=1024 * 1024).contains(rate));
    rate.ok_or_else(|| "it is a number from 32 to 1048576, or from 1M to 1024M".to_owned())
}

/// Runs the command.
pub fn run(args: BackupArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let location = args.repo.place(&config)?;
    running_as_root::refuse_foreign_repository(&location)?;
    let settings = args.connection.settings(&config)?;
    let defaults = BackupOptions::default();
    let timeout = args.archive_timeout.map(Duration::from_secs);
    let threads = match args.process_max {
        Some(threads) => Some(threads),
        None => config.backup_process_max()?,
    };
    let options = BackupOptions {
        backup_type: match args.backup_type {
            Type::Full => BackupType::Full,
            Type::Diff => BackupType::Diff,
            Type::Incr => BackupType::Incr,
        },
        fast_checkpoint: matches!(args.checkpoint, Checkpoint::Fast),
        checksums: match args.manifest_checksums {
            Checksums::Crc32c => ManifestChecksums::Crc32c,
            Checksums::Sha256 => ManifestChecksums::Sha256,
        },
        method: match args.copy_method {
            Method::Auto => CopyMethod::Auto,
            Method::Server => CopyMethod::Server,
            Method::Files => CopyMethod::Files,
        },
        compares_all: args.delta,
        archive_timeout: timeout.unwrap_or(defaults.archive_timeout),
        wal_timeout: timeout.unwrap_or(defaults.wal_timeout),
        verify: !args.no_verify,
        verify_checksums: !args.no_verify_checksums,
        level: args.level.level(&config)?.unwrap_or(defaults.level),
        threads: threads.map_or(defaults.threads, usize::from),
        max_rate_kilobytes: args.max_rate,
        pin: args.pin.map(|reason| Pin {
            pinned: Timestamp::now(),
            reason: Some(reason).filter(|reason| !reason.is_empty()),
        }),
        resume: !args.no_resume,
        estimate_size: progress_line::is_wanted(),
        ..defaults
    };
    let record = runtime::block_on_tidily(async {
        let _line = ProgressLine::show(&options.progress);
        let repository = repo_args::open(&location).await?;
        let taken = backup(&repository, &settings, &options).await;
        taken.map_err(|error| archive_command::explain(error, &location))
    })?;
    writeln!(
        std::io::stdout(),
        "backup {}{}: {} bytes stored in {}, WAL {} to {}{}",
        record.label,
        location.in_which(),
        record.original_bytes(),
        record.stored_bytes(),
        record.start.lsn,
        record.stop.lsn,
        attempts(record.attempts)
    )
    .map_err(CommandError::stdout)
}

/// How many attempts a backup took, if it was more than one.
fn attempts(attempts: Option<u32>) -> String {
    attempts.map_or_else(String::new, |attempts| format!(", in {attempts} attempts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_in_kilobytes_unless_it_says_otherwise() {
        for (text, kilobytes) in [("32", 32), ("100k", 100), ("2M", 2048), ("1024M", 1 << 20)] {
            assert_eq!(max_rate(text), Ok(kilobytes), "{text}");
        }
        for wrong in ["", "k", "31", "1025M", "4194304M", "1.5M", "-1", "2G"] {
            assert!(max_rate(wrong).is_err(), "{wrong}");
        }
    }
}
