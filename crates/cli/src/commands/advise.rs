//! `walzip advise`: which program and which settings, from the user's own WAL.

mod archive;
mod server;

use std::io::Write;
use std::path::PathBuf;

use walzip_bench::advise::{self, Limits, Options, SEGMENTS};
use walzip_bench::contender::{Request, Selection};
use walzip_bench::{Cancel, Scratch};

use crate::config::Config;
use crate::connection_args::ConnectionArgs;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::runtime;

use super::bench::shown_command;
use super::bench::standard_error::StandardError;

/// Recommend a program and settings, from your own WAL
///
/// Measures real programs on a few segments and looks at more. Recommends the program and its
/// level, wal_compression, checkpoint spacing, archive_timeout and the segment size, each with
/// the measured reason and what it saves; says how sure it is and what it did not test. Nothing
/// is changed, on the server or elsewhere.
///
/// Segments come from files, a pg_wal directory or a repository; without any of these from the
/// server itself, where the role may read them (a superuser, or a member of pg_monitor and
/// pg_read_server_files who may execute pg_read_binary_file).
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  walzip advise --pg-wal /var/lib/postgresql/15/main/pg_wal -h /var/run/postgresql
  walzip advise --repo /var/lib/walzip --price-per-gb-month 0.023 --retention-days 14
  walzip advise --max-seconds-per-segment 0.2 --now gzip:6 --wal-per-day 200GB segments/"
)]
pub struct AdviseArgs {
    /// Segments, folders of segments, or folders of such folders; .xz files are unpacked
    #[arg(value_name = "PATH")]
    files: Vec<PathBuf>,

    /// Segments out of this pg_wal directory
    #[arg(long, value_name = "DIR")]
    pg_wal: Option<PathBuf>,

    /// Segments out of this repository's archive: a path, or a URL
    #[arg(long, value_name = "PATH|URL")]
    repo: Option<String>,

    /// How many segments are measured on, spread over what there is
    #[arg(long, value_name = "N", default_value_t = SEGMENTS)]
    segments: usize,

    /// How often each measurement is repeated
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Measure this program: all its levels, one (NAME:3), or some (NAME:1-9)
    #[arg(long, value_name = "NAME[:LEVELS]")]
    contender: Vec<Request>,

    /// What compresses the archive today: savings are against it [default: nothing does]
    #[arg(long, value_name = "NAME:LEVEL", value_parser = one_selection)]
    now: Option<Selection>,

    /// How much WAL there is in a day, where that is known better (200GB)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    #[arg(help_heading = "What matters")]
    wal_per_day: Option<f64>,

    /// How long compressing a segment may take
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    #[arg(help_heading = "What matters")]
    max_seconds_per_segment: Option<f64>,

    /// How long unpacking a segment may take
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    #[arg(help_heading = "What matters")]
    max_restore_seconds_per_segment: Option<f64>,

    /// The price of keeping a GB for a month; with --retention-days savings are money
    #[arg(long, value_name = "PRICE", value_parser = positive)]
    #[arg(help_heading = "What matters", requires = "retention_days")]
    price_per_gb_month: Option<f64>,

    /// How many days of WAL the archive keeps
    #[arg(long, value_name = "DAYS", value_parser = positive)]
    #[arg(help_heading = "What matters")]
    retention_days: Option<f64>,

    /// The price of an hour of one processor; with the others, the sum decides
    #[arg(long, value_name = "PRICE", value_parser = positive)]
    #[arg(help_heading = "What matters", requires = "price_per_gb_month")]
    price_per_cpu_hour: Option<f64>,

    /// How much WAL the server replays in a second (50MB), from its log: the distance from "redo
    /// starts at" to "redo done at" by the seconds between them
    #[arg(long, value_name = "SIZE", value_parser = size)]
    #[arg(help_heading = "What matters")]
    replay_rate: Option<f64>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Write a page with charts to FILE (HTML, complete in itself)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Replace the file of --report if it exists
    #[arg(short, long)]
    force: bool,

    /// The configuration file [default: /etc/walzip.toml, if there is one]
    #[arg(
        long,
        value_name = "FILE",
        env = "WALZIP_CONFIG",
        hide_env_values = true
    )]
    config: Option<PathBuf>,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// There is nothing here to be continued, as there is for experiments.
fn refusal(error: walzip_bench::Error) -> CommandError {
    let exists = matches!(error, walzip_bench::Error::Exists(_));
    let refused = CommandError::from(error);
    match exists {
        true => refused.hint(
            "Nothing was measured. Name another file, remove this one, or use -f to replace it.",
        ),
        false => refused,
    }
}

/// Runs the command.
pub fn run(args: AdviseArgs) -> Result<(), CommandError> {
    let named = !args.files.is_empty() || args.pg_wal.is_some() || args.repo.is_some();
    if !named && !args.connection.is_given() {
        return Err(CommandError::new(Kind::Usage, "nothing to advise on").hint(
            "Name segments, --pg-wal, --repo, or a server (-h, -p, -U, -d); see walzip advise --help.",
        ));
    }
    let internal = |error| CommandError::caused(Kind::Internal, "cannot begin", &error);
    let walzip = std::env::current_exe().map_err(internal)?;
    let temp_dir = std::env::temp_dir();
    let cancel = Cancel::on_signals().map_err(internal)?;
    let fetched_dir = Scratch::new_in(&temp_dir, "walzip-advise-")?;
    let mut progress = StandardError::new();

    let mut options = Options {
        files: args.files.clone(),
        pg_wal: args.pg_wal.clone(),
        segments: args.segments.max(1),
        runs: args.runs,
        contenders: args.contender.clone(),
        now: args.now,
        limits: limits(&args),
        report: args.report.clone(),
        command: Some(shown_command(std::env::args_os().skip(1))),
        force: args.force,
        cancel: cancel.clone(),
        launcher: Some(walzip.clone()),
        ..Options::new(
            walzip,
            std::env::var_os("PATH").unwrap_or_default(),
            temp_dir,
        )
    };
    options.output().check().map_err(refusal)?;
    fetch(&args, named, &fetched_dir, &mut options, &mut progress)?;
    let advice = advise::run(&options, &mut progress)?;
    progress.finish();
    if args.json {
        return crate::json::print_json(&advice);
    }
    write!(std::io::stdout(), "{advice}").map_err(CommandError::stdout)
}

/// What has to be asked for: settings of a server, segments of an archive or of the server.
fn fetch(
    args: &AdviseArgs,
    named: bool,
    directory: &Scratch,
    options: &mut Options,
    progress: &mut StandardError,
) -> Result<(), CommandError> {
    if args.connection.is_given() {
        let config = Config::load(args.config.as_deref())?;
        let settings = args.connection.settings(&config)?;
        runtime::block_on(async {
            let mut server = server::Connected::open(&settings, progress).await?;
            options.server = Some(server.describe().await?);
            if !named {
                let wanted = server::Wanted {
                    segments: options.segments,
                    directory: directory.path(),
                    cancel: &options.cancel,
                };
                options.fetched.push(server.segments(&wanted).await?);
            }
            server.close().await;
            Ok(())
        })?;
    }
    if let Some(location) = &args.repo {
        let sample = archive::fetch(
            location,
            options.segments,
            directory.path(),
            &options.cancel,
            progress,
        )?;
        options.fetched.push(sample);
    }
    Ok(())
}

fn limits(args: &AdviseArgs) -> Limits {
    Limits {
        wal_bytes_per_day: args.wal_per_day,
        seconds_per_segment: args.max_seconds_per_segment,
        restore_seconds_per_segment: args.max_restore_seconds_per_segment,
        price_per_gb_month: args.price_per_gb_month,
        retention_days: args.retention_days,
        price_per_cpu_hour: args.price_per_cpu_hour,
        replay_bytes_per_second: args.replay_rate,
    }
}

fn one_selection(text: &str) -> Result<Selection, String> {
    let request: Request = text
        .parse()
        .map_err(|error: walzip_bench::Error| error.to_string())?;
    match request.0.as_slice() {
        [selection] => Ok(*selection),
        _ => Err("name one level, as in gzip:6".to_owned()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        _ => Err("not a number greater than 0".to_owned()),
    }
}

/// A number of bytes: GB are 1,000,000,000, GiB 1,073,741,824.
fn size(text: &str) -> Result<f64, String> {
    let unit_start = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(unit_start.unwrap_or(text.len()));
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        _ => {
            return Err(format!(
                "no unit {unit}: there are kB, MB, GB, TB, MiB, GiB, TiB"
            ));
        }
    };
    Ok(positive(number.trim())? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_or_is_in_bytes() {
        assert_eq!(size("200GB"), Ok(200e9));
        assert_eq!(size("1.5 TiB"), Ok(1.5 * 1024f64.powi(4)));
        assert_eq!(size("1000"), Ok(1000.0));
        assert!(size("5 parsecs").is_err() && size("GB").is_err() && size("-1GB").is_err());
    }

    #[test]
    fn todays_program_is_one_level() {
        assert_eq!(one_selection("gzip:6").map(|now| now.level), Ok(6));
        assert!(one_selection("gzip").is_err() && one_selection("rar:1").is_err());
    }
}
