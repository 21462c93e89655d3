//! Which repository: the flags, the variables and the file behind them.

use std::path::PathBuf;

use walzip_repo::{Location, Repository, open_store};

use crate::config::Config;
use crate::error::CommandError;
use crate::exit_code::Kind;

/// The flags of every command that uses a repository.
#[derive(Debug, clap::Args)]
pub struct RepoArgs {
    /// The repository: a path, or a URL [config: repo]
    #[arg(
        long,
        value_name = "PATH|URL",
        env = "WALZIP_REPO",
        hide_env_values = true
    )]
    #[arg(help_heading = "Repository")]
    repo: Option<String>,

    /// The configuration file [default: /etc/walzip.toml, if there is one]
    #[arg(
        long,
        value_name = "FILE",
        env = "WALZIP_CONFIG",
        hide_env_values = true
    )]
    #[arg(help_heading = "Repository")]
    config: Option<PathBuf>,
}

impl RepoArgs {
    /// What the configuration file says.
    pub fn config(&self) -> Result<Config, CommandError> {
        Config::load(self.config.as_deref())
    }

    /// Where the repository is.
    pub fn location(&self, config: &Config) -> Result<Location, CommandError> {
        let Some(location) = self.repo.as_ref().or(config.repo.as_ref()) else {
            return Err(
                CommandError::new(Kind::OptionRequired, "no repository is named").hint(
                    "Use --repo, WALZIP_REPO, or the key \"repo\" of the configuration file.",
                ),
            );
        };
        Ok(Location::parse(location)?)
    }
}

/// Opens the repository at a location.
pub async fn open(location: &Location) -> Result<Repository, CommandError> {
    Ok(Repository::open(open_store(location)?).await?)
}
