//! Which repository, or which ones: the flags, the variables and the file behind them.

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use walzip_repo::{Location, RepoError, Repository, StoreSettings, open_store};

use crate::config::Config;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::store_args::{self, StoreArgs};

/// The flags of every command that uses a repository.
#[derive(Debug, clap::Args)]
pub struct RepoArgs {
    /// The repository: a path, a URL (s3, gs, az, sftp), or its number in the configuration file
    /// [config: repo]
    #[arg(
        long,
        value_name = "PATH|URL|N",
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
    /// Its number in the configuration file, where there are several.
    pub number: Option<u16>,
    /// What the configuration file says, with this repository as its only one.
    pub config: Config,
    /// The file that names it, if no flag and no variable does.
    pub named_in: Option<ConfigFile>,
}

/// Which configuration file.
#[derive(Clone, Debug)]
pub enum ConfigFile {
    /// The one that is read where none is given.
    Usual,
    /// One that is given.
    Given(PathBuf),
}

impl Place {
    /// The place of a repository that is named where no flags are.
    pub fn named(text: &str) -> Result<Place, CommandError> {
        let config = store_args::usual_config()?;
        let location = Location::parse(text)?;
        let settings = StoreArgs::of_variables().settings(&config, &location, None)?;
        Ok(Place {
            location,
            settings,
            number: None,
            config,
            named_in: None,
        })
    }

    /// " in repository 2", where there are several.
    pub fn in_which(&self) -> String {
        let number = self.number;
        number.map_or_else(String::new, |number| format!(" in repository {number}"))
    }

    /// After a failure, says that there are others.
    pub fn tell_of_others(&self, config: &Config) {
        let others = config.repositories().into_iter();
        let others: Vec<String> = others
            .filter(|number| Some(*number) != self.number)
            .map(|number| number.to_string())
            .collect();
        if let (Some(number), false) = (self.number, others.is_empty()) {
            tracing::warn!(
                "this was repository {number}; --repo takes another one: {}",
                others.join(", ")
            );
        }
    }

    /// Puts the repository in front of a failure's message, where there are several.
    pub fn name_in(&self, error: CommandError) -> CommandError {
        match self.number {
            Some(number) if error.message().contains(&self.to_string()) => {
                error.at(format_args!("repository {number}"))
            }
            Some(number) => error.at(format_args!("repository {number}, {self}")),
            None => error,
        }
    }
}

impl Place {
    /// Whether the other one leads to the same objects.
    fn is_same(&self, other: &Place, is_same: fn(&Location, &Location) -> bool) -> bool {
        let endpoints = |place: &Place| {
            let settings = &place.settings;
            let (s3, gcs) = (&settings.s3_endpoint, &settings.gcs_endpoint);
            let (account, azure) = (&settings.azure_account, &settings.azure_endpoint);
            [s3, gcs, account, azure].map(Clone::clone)
        };
        is_same(self, other) && endpoints(self) == endpoints(other)
    }

    /// Whether nothing that leads to it depends on the current directory.
    pub fn has_whole_paths(&self) -> bool {
        let settings = &self.settings;
        let files = [
            &settings.key_file,
            &settings.ca_file,
            &settings.sftp_private_key_file,
            &settings.sftp_known_hosts_file,
        ];
        let is_whole = match &self.location {
            Location::Local(path) => path.is_absolute(),
            _ => true,
        };
        is_whole && files.into_iter().flatten().all(|file| file.is_absolute())
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
    /// The arguments with which another command uses the same repositories, as this one reaches them. What
    /// the file says of a store is read again by that command.
    pub fn arguments(&self, location: &Location) -> Result<Vec<String>, CommandError> {
        let of_flags = self.store.settings(&Config::default(), location, None)?;
        let config = self.config.as_ref().map(|path| path.display().to_string());
        let named = [("config", config), ("repo", self.repo.clone())];
        let named = named
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let flags = named.chain(store_args::flags(&of_flags));
        Ok(flags
            .flat_map(|(name, value)| [format!("--{name}"), value])
            .collect())
    }

    /// What the configuration file says.
    pub fn config(&self) -> Result<Config, CommandError> {
        Config::load(self.config.as_deref())
    }

    /// The repository that is named. Where none is and the file has several, the first one: for
    /// commands that read.
    pub fn place(&self, config: &Config) -> Result<Place, CommandError> {
        let mut places = self.places(config, None)?;
        let place = places.swap_remove(0);
        if !places.is_empty() {
            tracing::info!(
                "--repo is not given: repository {}, {place}",
                place.number.unwrap_or(1)
            );
        }
        Ok(place)
    }

    /// The same for commands that change something in one repository.
    pub fn sole_place(&self, config: &Config) -> Result<Place, CommandError> {
        let mut places = self.places(config, None)?;
        if places.len() > 1 {
            let numbers = numbers(config);
            let message = format!("the configuration file has several repositories: {numbers}");
            return Err(CommandError::new(Kind::OptionRequired, message)
                .hint("Say which one is meant: --repo N."));
        }
        Ok(places.swap_remove(0))
    }

    /// The repository that is named, or all of the file in the order of their numbers, at least
    /// one. Operations on one are to take so long at most, if nobody says anything else.
    pub fn places(
        &self,
        config: &Config,
        timeout: Option<Duration>,
    ) -> Result<Vec<Place>, CommandError> {
        match &self.repo {
            Some(text) if text.is_empty() => Err(empty_name()),
            Some(text) if is_number(text) => Ok(vec![self.numbered(text, config, timeout)?]),
            Some(text) => Ok(vec![self.named(text, config, timeout)?]),
            None => self.configured(config, timeout),
        }
    }

    /// All repositories of the file, whichever is named.
    pub fn configured(
        &self,
        config: &Config,
        timeout: Option<Duration>,
    ) -> Result<Vec<Place>, CommandError> {
        let numbers = config.repositories();
        if numbers.is_empty() {
            return Err(
                CommandError::new(Kind::OptionRequired, "no repository is named").hint(
                    "Use --repo, WALZIP_REPO, or the key \"repo\" of the configuration file.",
                ),
            );
        }
        let is_one_of_several = numbers.len() > 1;
        if let (true, Some(name)) = (is_one_of_several, self.store.of_one()) {
            let message =
                format!("{name} is one repository's, and the configuration file has several");
            return Err(CommandError::new(Kind::OptionRequired, message).hint(
                "Say which one is meant, --repo N, or set it in the file; its variable counts as well.",
            ));
        }
        let place = |number: u16| {
            let own = config.of_repository(number)?;
            let text = own.repo.clone().unwrap_or_default();
            let place = self.at(&text, is_one_of_several.then_some(number), own, timeout)?;
            Ok(self.of_file(place))
        };
        let places = numbers.into_iter().map(place);
        let places = places.collect::<Result<Vec<Place>, CommandError>>()?;
        refuse_the_same(&places, Location::is_same_place)?;
        Ok(places)
    }

    /// A repository by its place. If the file has it, its keys are valid. Otherwise the keys of a
    /// file with a single repository are, and of one with several none: they are another's.
    fn named(
        &self,
        text: &str,
        config: &Config,
        timeout: Option<Duration>,
    ) -> Result<Place, CommandError> {
        let location = Location::parse(text)?;
        let numbers = config.repositories();
        let is_there = |number: &u16| {
            let own = config.of_repository(*number).ok();
            let place = own.and_then(|own| Location::parse(&own.repo?).ok());
            place.is_some_and(|place| place.is_same_place(&location))
        };
        let mut there = numbers.iter().copied().filter(is_there);
        let config = match (there.next(), there.next()) {
            (Some(number), None) => config.of_repository(number)?,
            _ if numbers.len() > 1 => config.without_repositories(),
            _ => config.of_repository(1)?,
        };
        self.at(text, None, config, timeout)
    }

    fn numbered(
        &self,
        text: &str,
        config: &Config,
        timeout: Option<Duration>,
    ) -> Result<Place, CommandError> {
        let number = text.parse().ok();
        match number.filter(|number| config.repositories().contains(number)) {
            Some(number) => {
                let own = config.of_repository(number)?;
                let text = own.repo.clone().unwrap_or_default();
                let place = self.at(&text, Some(number), own, timeout)?;
                Ok(self.of_file(place))
            }
            None => {
                let message = format!("the configuration file has no repository {text}");
                let error = CommandError::new(Kind::OptionInvalid, message);
                Err(error.hint(match numbers(config).as_str() {
                    "" => format!("It names none. A directory of this name is ./{text}."),
                    there => format!("It has {there}. A directory of this name is ./{text}."),
                }))
            }
        }
    }

    fn at(
        &self,
        text: &str,
        number: Option<u16>,
        config: Config,
        timeout: Option<Duration>,
    ) -> Result<Place, CommandError> {
        let location = Location::parse(text)?;
        let settings = self.store.settings(&config, &location, timeout)?;
        Ok(Place {
            location,
            settings,
            number,
            config,
            named_in: None,
        })
    }

    fn of_file(&self, place: Place) -> Place {
        let given = self.config.clone().map(ConfigFile::Given);
        Place {
            named_in: Some(given.unwrap_or(ConfigFile::Usual)),
            ..place
        }
    }
}

/// A repository is named by nothing.
fn empty_name() -> CommandError {
    let is_variable = std::env::var_os("WALZIP_REPO").is_some_and(|value| value.is_empty());
    match is_variable {
        true => CommandError::new(Kind::OptionInvalid, "the variable WALZIP_REPO is empty")
            .hint("Unset it, or let it name the repository: a path or a URL."),
        false => CommandError::new(Kind::OptionInvalid, "--repo is empty")
            .hint("It names the repository: a path or a URL."),
    }
}

/// Whether a repository is named by its number. A directory of this name is `./2`.
pub fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Two that are one would be taken for two copies, and what one of them keeps the other would remove.
pub fn refuse_the_same(
    places: &[Place],
    is_same: fn(&Location, &Location) -> bool,
) -> Result<(), CommandError> {
    for (at, place) in places.iter().enumerate() {
        let before = places.iter().take(at);
        let Some(same) = before.rev().find(|before| before.is_same(place, is_same)) else {
            continue;
        };
        let number = |place: &Place| place.number.unwrap_or(1);
        let message = format!(
            "repositories {} and {} of the configuration file are the same: {place}",
            number(same),
            number(place)
        );
        return Err(CommandError::new(Kind::Config, message)
            .hint("Each key \"repo\", \"repo2\" and so on names a place of its own."));
    }
    Ok(())
}

/// The repositories of a file: `1, 2`.
fn numbers(config: &Config) -> String {
    let numbers = config.repositories().into_iter();
    let texts: Vec<String> = numbers.map(|number| number.to_string()).collect();
    texts.join(", ")
}

/// Opens the repository at a place.
pub async fn open(place: &Place) -> Result<Repository, CommandError> {
    Ok(try_open(place).await?)
}

/// The same, for those who say themselves what went wrong.
pub async fn try_open(place: &Place) -> Result<Repository, RepoError> {
    Repository::open(open_store(place, &place.settings)?).await
}
