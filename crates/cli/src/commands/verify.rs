//! `walzip verify`: can everything in the repository be used?

use std::io::Write;

use jiff::SignedDuration;
use walzip_archive::verify::{FindingKind, Verification, VerifyOptions, verify};

use crate::duration::duration;
use crate::each_repository::{each, write_heading};
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::progress_line::ProgressLine;
use crate::repo_args::{self, Place, RepoArgs};
use crate::{running_as_root, runtime};

/// Check that everything in the repository can be used
///
/// Reads every object: WAL is decoded and compared with its hash, its name and its cluster,
/// backups are unpacked into nothing and compared, file by file, with the server's manifest; then
/// the WAL that each backup needs is followed. Problems are listed on standard output, and the exit
/// code is then 104. Without --repo, all repositories of the configuration file are verified.
///
/// An incremental backup is put together from all that it refers to: 30 of them take as long as 30
/// full ones. --verified-within and --sample read less.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip verify --repo /var/lib/walzip")]
pub struct VerifyArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// Print JSON, whose fields are stable
    #[arg(long)]
    json: bool,

    /// How many WAL objects are decoded at the same time
    #[arg(long, value_name = "N", default_value_t = VerifyOptions::default().parallel as u16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    parallel: u16,

    /// Do not read again what was found whole within this time: 30d, 12h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    verified_within: Option<SignedDuration>,

    /// Read only so many of a hundred WAL files and backups, other ones each time
    #[arg(long, value_name = "PERCENT")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
    sample: Option<u8>,
}

/// Runs the command.
pub fn run(args: VerifyArgs) -> Result<(), CommandError> {
    let places = args.repo.places(&args.repo.config()?, None)?;
    let options = VerifyOptions {
        parallel: usize::from(args.parallel),
        verified_within: args.verified_within,
        sample: args.sample,
        // Root's files would be in the way of the repository's own user.
        notes: places
            .iter()
            .all(|place| running_as_root::refuse_foreign_repository(place).is_ok()),
        ..VerifyOptions::default()
    };
    let verified = each(&places, |place| {
        let verification = runtime::block_on(async {
            let _line = ProgressLine::show(&options.progress);
            let repository = repo_args::open(place).await?;
            Ok(verify(&repository, &options).await?)
        })?;
        if !args.json {
            print(place, &verification).map_err(CommandError::stdout)?;
        }
        Ok(verification)
    });
    if args.json {
        verified.print_json()?;
    }
    let verified = verified.finish()?;
    let findings = verified
        .iter()
        .map(|verification| verification.findings.len());
    match findings.sum() {
        0_usize => Ok(()),
        1 => Err(CommandError::new(Kind::Problems, "1 problem was found")),
        count => Err(CommandError::new(
            Kind::Problems,
            format_args!("{count} problems were found"),
        )),
    }
}

fn print(place: &Place, verification: &Verification) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    write_heading(&mut out, place)?;
    for finding in &verification.findings {
        let what = match finding.kind {
            FindingKind::ClusterDamaged => "cluster damaged",
            FindingKind::BackupDamaged => "backup damaged",
            FindingKind::BackupWalMissing => "backup without its WAL",
            FindingKind::WalDamaged => "WAL damaged",
            FindingKind::WalPutLate => "WAL put late",
            FindingKind::WalNotContinued => "WAL not continued",
            FindingKind::HistoryLost => "timeline without its history",
            FindingKind::WalGap => "gap in the WAL",
            FindingKind::WalMinimal => "WAL of wal_level = minimal",
        };
        writeln!(out, "{what}: {}: {}", finding.object, finding.detail)?;
    }
    writeln!(
        out,
        "verified: WAL files {} ({} bytes stored in {}), backups {} ({} bytes stored)",
        verification.wal_objects,
        verification.wal_original_bytes,
        verification.wal_stored_bytes,
        verification.backups,
        verification.backup_stored_bytes
    )?;
    if verification.verified_before > 0 {
        let count = verification.verified_before;
        writeln!(out, "found whole before, not read again: {count}")?;
    }
    if verification.not_in_sample > 0 {
        let count = verification.not_in_sample;
        writeln!(out, "not in the sample, not read: {count}")?;
    }
    Ok(())
}
