//! Which repository: the flags, the variables and the file behind them.

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use walzip_repo::{Location, Repository, StoreSettings, open_store};

use crate::config::Config;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::store_args::{self, StoreArgs};

/// The flags of every command that uses a repository.
#[derive(Debug, clap::Args)]
pub struct RepoArgs {
    /// The repository: a path, or a URL (s3, gs, az, sftp) [config: repo]
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

    #[command(flatten)]
    store: StoreArgs,
}

/// Where a repository is, and how it is reached.
#[derive(Clone, Debug)]
pub struct Place {
    location: Location,
    /// What is to be known besides.
    pub settings: StoreSettings,
}

impl Place {
    /// The place of a repository that is named where no flags are.
    pub fn named(text: &str) -> Result<Place, CommandError> {
        let config = store_args::usual_config()?;
        let location = Location::parse(text)?;
        let settings = StoreArgs::of_variables().settings(&config, &location, None)?;
        Ok(Place { location, settings })
    }
}

impl Deref for Place {
    type Target = Location;

    fn deref(&self) -> &Location {
        &self.location
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.fmt(f)
    }
}

impl RepoArgs {
    /// What the configuration file says.
    pub fn config(&self) -> Result<Config, CommandError> {
        Config::load(self.config.as_deref())
    }

    /// Where the repository is.
    pub fn place(&self, config: &Config) -> Result<Place, CommandError> {
        self.place_within(config, None)
    }

    /// The same for a command whose operations on it are to take so long at most, if nobody says
    /// anything else.
    pub fn place_within(
        &self,
        config: &Config,
        timeout: Option<Duration>,
    ) -> Result<Place, CommandError> {
        let Some(location) = self.repo.as_ref().or(config.repo.as_ref()) else {
            return Err(
                CommandError::new(Kind::OptionRequired, "no repository is named").hint(
                    "Use --repo, WALZIP_REPO, or the key \"repo\" of the configuration file.",
                ),
            );
        };
        let location = Location::parse(location)?;
        let settings = self.store.settings(config, &location, timeout)?;
        Ok(Place { location, settings })
    }
}

/// Opens the repository at a place.
pub async fn open(place: &Place) -> Result<Repository, CommandError> {
    Ok(Repository::open(open_store(place, &place.settings)?).await?)
}
