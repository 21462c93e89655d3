//! Which cluster: its data directory, or its running server.

use std::path::PathBuf;

use walzip_archive::init::Source;

use crate::config::Config;
use crate::connection_args::ConnectionArgs;
use crate::error::CommandError;

/// The flags of the commands that bind a repository to a cluster.
#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    /// The cluster's data directory [config: pgdata; also PGDATA]
    #[arg(
        short = 'D',
        long,
        value_name = "DIR",
        env = "WALZIP_PGDATA",
        hide_env_values = true
    )]
    pgdata: Option<PathBuf>,

    #[command(flatten)]
    connection: ConnectionArgs,
}

impl SourceArgs {
    /// Where to read whose repository it is.
    pub fn source(self, config: &Config) -> Result<Source, CommandError> {
        let settings = self.connection.settings(config)?;
        let in_environment = || std::env::var_os("PGDATA").map(PathBuf::from);
        Ok(match self.pgdata {
            Some(path) => Source::DataDirectory(path),
            None if self.connection.is_given() => Source::Server(Box::new(settings)),
            None => match config.pgdata.clone().or_else(in_environment) {
                Some(path) => Source::DataDirectory(path),
                None => Source::Server(Box::new(settings)),
            },
        })
    }
}
