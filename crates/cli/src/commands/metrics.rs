//! `walzip metrics`: measurements for Prometheus.

use std::io::Write;
use std::path::PathBuf;

use crate::asynchronous::AsyncArgs;
use crate::error::CommandError;
use crate::metrics::{Metrics, Watched};
use crate::repo_args::RepoArgs;
use crate::runtime;

/// Print measurements for Prometheus
///
/// Prints the age of the newest WAL and of the newest backup, what can be restored, gaps, sizes, and when
/// the archive was verified; with a data directory also what waits to be archived, and what the worker in
/// the background has done. docs/metrics.md lists all. "walzip serve" has the same on a port.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, for the textfile collector of node_exporter:
  walzip metrics -o /var/lib/prometheus/node-exporter/walzip.prom")]
pub struct MetricsArgs {
    /// The cluster's data directory [config: pgdata]
    #[arg(short = 'D', long, env = "WALZIP_PGDATA", hide_env_values = true)]
    #[arg(value_name = "DIR")]
    pgdata: Option<PathBuf>,

    /// Write a file, which is there whole or not at all
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    repo: RepoArgs,

    #[command(flatten)]
    background: AsyncArgs,
}

/// Runs the command.
pub fn run(args: MetricsArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let places = args.repo.places(&config, None)?;
    let data_directory = args.pgdata.or_else(|| config.pgdata.clone());
    let spool_path = match data_directory.is_some() {
        true => args.background.spool_path(&config).unwrap_or_else(|error| {
            tracing::warn!("{}", error.message());
            None
        }),
        false => None,
    };
    let watched = data_directory.map(|data_directory| Watched {
        data_directory,
        spool_path,
    });
    let metrics = runtime::block_on_and_leave(Metrics::measure(&places, watched.as_ref()))?;
    let text = metrics.text()?;
    let Some(path) = &args.output else {
        let written = std::io::stdout().write_all(text.as_bytes());
        return written.map_err(CommandError::stdout);
    };
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    let written = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| CommandError::write(path, &error))
}
