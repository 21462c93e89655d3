//! `walzip import`: the WAL of another archive into a repository.

use std::io::Write;
use std::path::PathBuf;

use walzip_archive::import::{FindingKind, Import, ImportOptions, import};
use walzip_archive::push::PushOptions;
use walzip_archive::{ArchiveError, ClusterChoice};

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::level_args::LevelArgs;
use crate::progress_line::ProgressLine;
use crate::repo_args::{self, RepoArgs};
use crate::{running_as_root, runtime};

/// Take over the WAL of another archive
///
/// Takes over the WAL files of pgBackRest, Barman, WAL-G or a plain directory, whatever they are
/// compressed with. Each file is unpacked in memory, checked (its cluster, its position, the hash
/// that pgBackRest put into its name), encoded, proven by decoding, and stored. Nothing of the other
/// archive is changed, and nothing of the repository is replaced.
///
/// Can be interrupted and repeated: what the repository has already is compared, and passed over
/// when it is the same. What cannot be taken over is listed on standard output, and the exit code is
/// then 104; the rest is taken over all the same. Base backups are not imported.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  walzip import --repo /var/lib/walzip --dry-run /var/lib/pgbackrest
  walzip import --repo /var/lib/walzip /var/lib/pgbackrest
  walzip import --repo /var/lib/walzip /var/lib/barman/db1

How to change from another archiver without a gap: docs/import.md")]
pub struct ImportArgs {
    /// The other archive: pgBackRest's repository or a part of its archive, Barman's directory of
    /// a server, WAL-G's wal_005, or any directory with WAL files
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    #[command(flatten)]
    repo: RepoArgs,

    /// Only the WAL of this one of the repository's clusters: its major version, or as
    /// 15-7575000000000000001 [default: each cluster's]
    #[arg(long, value_name = "CLUSTER", help_heading = "Repository")]
    cluster: Option<ClusterChoice>,

    #[command(flatten)]
    level: LevelArgs,

    /// Only say what would be taken over, by the names of the files
    #[arg(long)]
    dry_run: bool,

    /// Pass over files whose names the repository has, without comparing their content
    #[arg(long)]
    trust_names: bool,

    /// How many files are worked on at the same time
    #[arg(long, value_name = "N", default_value_t = ImportOptions::default().parallel as u16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    parallel: u16,

    /// Print JSON, whose fields are stable
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: ImportArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let location = args.repo.sole_place(&config)?;
    if !args.dry_run {
        running_as_root::refuse_foreign_repository(&location)?;
    }
    let options = ImportOptions {
        push: PushOptions {
            level: args.level.for_wal(&location.config)?,
            ..PushOptions::default()
        },
        cluster: args.cluster,
        parallel: usize::from(args.parallel),
        dry_run: args.dry_run,
        trust_names: args.trust_names,
        ..ImportOptions::default()
    };
    let import = runtime::block_on(async {
        let _line = ProgressLine::show(&options.progress);
        let repository = repo_args::open(&location).await?;
        let imported = import(&repository, &args.directory, &options).await;
        imported.map_err(|error| explain(error, args.cluster))
    })?;
    if args.json {
        crate::json::print_json(&import)?;
    } else {
        print(&import).map_err(CommandError::stdout)?;
    }
    let message = match import.findings.len() {
        0 => return Ok(()),
        1 => "1 file was not taken over".to_owned(),
        count => format!("{count} files were not taken over"),
    };
    Err(CommandError::new(Kind::Problems, message).hint(
        "Everything else was. docs/import.md says what the problems mean; import can be repeated.",
    ))
}

/// A request that fails is about the directory, or about the cluster that was named.
fn explain(error: ArchiveError, choice: Option<ClusterChoice>) -> CommandError {
    match (&error, choice) {
        (ArchiveError::Request(_), None) => CommandError::from(error).hint(
            "docs/import.md lists the archives that import takes, and which directory to name.",
        ),
        _ => error.into(),
    }
}

fn print(import: &Import) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for finding in &import.findings {
        let what = match finding.kind {
            FindingKind::Conflict => "conflict",
            FindingKind::RepositoryDamaged => "repository damaged",
            FindingKind::Damaged => "damaged",
            FindingKind::Unreadable => "unreadable",
            FindingKind::NotUnderstood => "not understood",
            FindingKind::OwnerUnknown => "owner unknown",
            FindingKind::Unfinished => "unfinished",
        };
        writeln!(out, "{what}: {}: {}", finding.file, finding.detail)?;
    }
    for left in &import.left_out {
        let (directory, files, cluster) = (&left.directory, left.files, &left.cluster);
        writeln!(out, "left out: {directory}: WAL files {files} of {cluster}")?;
    }
    if import.dry_run {
        let (count, bytes) = (import.imported, import.source_bytes);
        writeln!(out, "would be imported: WAL files {count} ({bytes} bytes)")?;
    } else {
        writeln!(
            out,
            "imported: WAL files {} ({} bytes, {} as they were compressed, stored in {})",
            import.imported, import.original_bytes, import.source_bytes, import.stored_bytes
        )?;
    }
    for (count, what) in [
        (
            import.identical,
            "in the repository already, the same content",
        ),
        (
            import.not_compared,
            "in the repository already, not compared",
        ),
        (import.other_files, "not WAL, passed over"),
        (
            import.unused,
            "segments that the server has not begun, passed over",
        ),
    ] {
        if count > 0 {
            writeln!(out, "{what}: {count}")?;
        }
    }
    Ok(())
}
