//! `walzip serve`: the service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use walzip_repo::Location;

use super::expire;
use crate::asynchronous::AsyncArgs;
use crate::config::Config;
use crate::destinations::Destinations;
use crate::duration::duration;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::level_args::LevelArgs;
use crate::metrics::Watched;
use crate::repo_args::RepoArgs;
use crate::runtime;
use crate::service::{Job, Pushing, Service};
use crate::store_args::ARCHIVE_TIMEOUT;

/// A verification reads again what was found whole before so long.
const VERIFIED_WITHIN: &str = "30d";

/// Push, expire, verify and measure, as a service
///
/// With a data directory and archive-async, pushes what PostgreSQL waits to have archived, as the worker
/// of archive-push does. With times, runs expire, pack and verify again and again. With an address, answers
/// Prometheus. A signal ends it when what was begun is finished. Nothing depends on it: without it, calls
/// start their own workers.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, with pgdata, archive-async and the retention in the configuration file:
  walzip serve --metrics-listen 127.0.0.1:9187 --expire-every 1d --verify-every 1d

contrib/systemd has a unit for it.")]
pub struct ServeArgs {
    /// The cluster's data directory [config: pgdata]
    #[arg(short = 'D', long, env = "WALZIP_PGDATA", hide_env_values = true)]
    #[arg(value_name = "DIR")]
    pgdata: Option<PathBuf>,

    /// Answer Prometheus at this address [config: metrics-listen]
    #[arg(long, env = "WALZIP_METRICS_LISTEN", hide_env_values = true)]
    #[arg(value_name = "ADDRESS:PORT")]
    metrics_listen: Option<SocketAddr>,

    /// Run "expire --confirm" so often, such as 1d [config: expire-every]
    #[arg(long, env = "WALZIP_EXPIRE_EVERY", hide_env_values = true)]
    #[arg(value_name = "TIME", value_parser = duration)]
    expire_every: Option<SignedDuration>,

    /// Run "pack" so often, such as 1d [config: pack-every]
    #[arg(long, env = "WALZIP_PACK_EVERY", hide_env_values = true)]
    #[arg(value_name = "TIME", value_parser = duration)]
    pack_every: Option<SignedDuration>,

    /// Run "verify --verified-within 30d" so often [config: verify-every]
    #[arg(long, env = "WALZIP_VERIFY_EVERY", hide_env_values = true)]
    #[arg(value_name = "TIME", value_parser = duration)]
    verify_every: Option<SignedDuration>,

    #[command(flatten)]
    repo: RepoArgs,

    #[command(flatten)]
    level: LevelArgs,

    #[command(flatten)]
    background: AsyncArgs,
}

/// Runs the command.
pub fn run(args: ServeArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    config.check_values()?;
    let places = args.repo.places(&config, Some(ARCHIVE_TIMEOUT))?;
    let data_directory = args.pgdata.clone().or_else(|| config.pgdata.clone());
    let spool_path = match data_directory.is_some() {
        true => args.background.spool_path(&config)?,
        false => None,
    };
    let destinations = Destinations::new(&places, &args.level, true, data_directory.clone())?;
    let process_max = args.background.process_max(&config)?;
    let pushing = match (&data_directory, &spool_path) {
        (Some(data_directory), Some(spool_path)) => Some(Pushing {
            data_directory: data_directory.clone(),
            spool_path: spool_path.clone(),
            destinations,
            process_max,
        }),
        _ => None,
    };
    if pushing.is_none() && config.archive_async == Some(true) {
        tracing::warn!("no data directory is named (pgdata): nothing is pushed in the background");
    }
    let service = Service {
        places: &places,
        pushing,
        watched: data_directory.map(|data_directory| Watched {
            data_directory,
            spool_path,
        }),
        metrics_listen: metrics_listen(&args, &config)?,
        jobs: jobs(&args, &config, &places[0])?,
    };
    let expires = args.expire_every.is_some() || config.expire_every.is_some();
    if expires
        && !places
            .iter()
            .any(|place| expire::has_retention(&place.config))
    {
        return Err(expire::no_retention_to_serve());
    }
    let is_idle =
        service.pushing.is_none() && service.metrics_listen.is_none() && service.jobs.is_empty();
    if is_idle {
        let message = "there is nothing to serve";
        return Err(CommandError::new(Kind::OptionRequired, message).hint(
            "Set archive-async and pgdata, metrics-listen, expire-every, pack-every or \
                   verify-every.",
        ));
    }
    runtime::block_on(service.run())
}

fn metrics_listen(args: &ServeArgs, config: &Config) -> Result<Option<SocketAddr>, CommandError> {
    let Some(text) = &config.metrics_listen else {
        return Ok(args.metrics_listen);
    };
    let parsed = text.parse().map_err(|_| {
        let message =
            format!("the key \"metrics-listen\" is \"{text}\", not an address and a port");
        CommandError::new(Kind::Config, message).hint("Such as \"127.0.0.1:9187\".")
    });
    match args.metrics_listen {
        Some(address) => Ok(Some(address)),
        None => parsed.map(Some),
    }
}

fn jobs(args: &ServeArgs, config: &Config, location: &Location) -> Result<Vec<Job>, CommandError> {
    let common = args.repo.arguments(location)?;
    let level = args.level.level.map(|level| format!("-{level}"));
    let mut jobs = Vec::new();
    for (key, flag, set, command) in [
        (
            "expire-every",
            args.expire_every,
            &config.expire_every,
            &["expire", "--confirm"][..],
        ),
        (
            "pack-every",
            args.pack_every,
            &config.pack_every,
            &["pack"][..],
        ),
        (
            "verify-every",
            args.verify_every,
            &config.verify_every,
            &["verify", "--verified-within", VERIFIED_WITHIN][..],
        ),
    ] {
        let set = set.as_ref().map(|text| {
            duration(text).map_err(|error| {
                let message = format!("the key \"{key}\" is \"{text}\": {error}");
                CommandError::new(Kind::Config, message)
            })
        });
        let Some(every) = flag.map(Ok).or(set).transpose()? else {
            continue;
        };
        let period = Duration::try_from(every)
            .ok()
            .filter(|period| !period.is_zero());
        let Some(period) = period else {
            let message = format!("{key} is 0, and has to be 1h or longer");
            return Err(CommandError::new(Kind::OptionInvalid, message));
        };
        let level = level.clone().filter(|_| command == ["pack"]);
        let command = command.iter().map(|&word| word.to_owned());
        jobs.push(Job {
            period,
            arguments: command.chain(level).chain(common.clone()).collect(),
        });
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        serve: ServeArgs,
    }

    fn commands_of(flags: &str) -> Vec<String> {
        let words = "serve --pack-every 1d --expire-every 1d --repo s3://b/p".split(' ');
        let words = words.chain(flags.split(' ').filter(|word| !word.is_empty()));
        let args = Parsed::try_parse_from(words).expect("valid").serve;
        let location = Location::parse("s3://b/p").expect("a place");
        let jobs = jobs(&args, &Config::default(), &location).expect("valid");
        jobs.iter().map(|job| job.arguments.join(" ")).collect()
    }

    /// What is run reaches the repository as the service does.
    #[test]
    fn jobs_have_the_flags_of_the_service() {
        assert_eq!(
            commands_of(""),
            ["expire --confirm --repo s3://b/p", "pack --repo s3://b/p"]
        );
        let flags = "-5 --repo-key-file /k --repo-s3-endpoint e --repo-timeout 7 --config /c";
        let reached =
            "--config /c --repo s3://b/p --repo-timeout 7 --repo-key-file /k --repo-s3-endpoint e";
        assert_eq!(
            commands_of(flags),
            [
                format!("expire --confirm {reached}"),
                format!("pack -5 {reached}")
            ]
        );
    }
}
