//! The `walzip` command: words, flags, configuration and exit codes.
//!
//! One file per command, with the command's name. What a command does lives in the crates
//! below; here it is asked for, shown, and turned into an exit code.

#![deny(unsafe_code)]

mod allocator;
mod archive_command;
mod archive_error;
mod asynchronous;
mod cluster_args;
mod commands;
mod competing_timelines;
mod config;
mod connection_args;
mod destinations;
mod duration;
mod each_repository;
mod error;
mod exit_code;
mod filter;
mod foreign_words;
mod inspection;
mod json;
mod last_pushed;
mod level_args;
mod log;
mod metrics;
mod output_file;
mod panic;
mod passfile;
mod port_clash;
mod progress_line;
mod repo_args;
mod restored_settings;
mod running_as_root;
mod runtime;
mod service;
mod shell;
mod source_args;
mod sources;
mod store_args;
mod system_identifier;
mod system_user;
mod table;
mod tablespace_hints;
mod usage;

use std::process::ExitCode;

use clap::Parser;
use tracing::level_filters::LevelFilter;

use crate::commands::{Command, PostgresCommand};
use crate::log::LogFormat;

/// Compresses, archives and restores PostgreSQL write-ahead log.
#[derive(Debug, Parser)]
#[command(version = env!("WALZIP_VERSION"), max_term_width = 100)]
#[command(after_help = "\
Exit codes are listed in docs/errors.md, settings in docs/configuration.md. Each setting is
taken from the configuration file, then from its WALZIP_* variable, then from its flag; the
later wins.")]
struct Cli {
    #[command(flatten)]
    messages: Messages,

    #[command(subcommand)]
    command: Command,
}

/// The same for the commands that PostgreSQL calls for each file: to make the definitions of all other
/// commands takes a quarter of the time of a short call.
#[derive(Debug, Parser)]
struct CalledByPostgres {
    #[command(flatten)]
    messages: Messages,

    #[command(subcommand)]
    command: PostgresCommand,
}

impl From<CalledByPostgres> for Cli {
    fn from(called: CalledByPostgres) -> Cli {
        Cli {
            messages: called.messages,
            command: called.command.into(),
        }
    }
}

/// What is said on standard error.
#[derive(Debug, clap::Args)]
struct Messages {
    /// Say more on standard error: once what is done, twice every detail
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,

    /// No warnings, only errors
    #[arg(short, long, global = true)]
    quiet: bool,

    /// What lines on standard error look like
    #[arg(long, global = true, env = "WALZIP_LOG_FORMAT", hide_env_values = true)]
    #[arg(
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        hide_default_value = true
    )]
    log_format: LogFormat,
}

fn main() -> ExitCode {
    if let Some(code) = walzip_bench::launcher::run(std::env::args_os()) {
        return code;
    }
    allocator::set_up();
    panic::exit_code_of(|| {
        let done = usage::parse::<CalledByPostgres, Cli>().and_then(|cli| {
            log::start(cli.messages.level(), cli.messages.log_format);
            commands::run(cli.command)
        });
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                error.report();
                ExitCode::from(error.kind().code())
            }
        }
    })
}

impl Messages {
    fn level(&self) -> LevelFilter {
        match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::ERROR,
            (false, 0) => LevelFilter::WARN,
            (false, 1) => LevelFilter::INFO,
            (false, _) => LevelFilter::DEBUG,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
        super::CalledByPostgres::command().debug_assert();
    }
}
