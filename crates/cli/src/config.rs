//! The configuration file.
//!
//! A setting is taken from the file, then from its `WALZIP_*` variable, then from its flag:
//! the later wins. Variables and flags are declared with the command line; this module reads
//! the file, and knows the names of all settings.
//!
//! Of the keys of a repository, `repo` and `repo-...`, each repository has its own: those of the
//! second one are `repo2` and `repo2-...`. One number is all that they have in common.

mod mistakes;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use walzip_repo::UriStyle;

use self::mistakes::{in_words, not_a_boolean, section, unknown_key};
use crate::duration::duration;
use crate::error::CommandError;
use crate::exit_code::Kind;

/// Read when no other file is named; may be absent.
pub const DEFAULT_PATH: &str = "/etc/walzip.toml";

/// The variable that names the configuration file.
pub const PATH_VARIABLE: &str = "WALZIP_CONFIG";

/// The most files that a worker takes at a time.
pub const PROCESS_MAX: u16 = 256;

/// The most threads of a backup.
pub const BACKUP_PROCESS_MAX: u16 = 999;

/// What messages look like; the file does not say.
pub const FORMAT_VARIABLE: &str = "WALZIP_LOG_FORMAT";

/// Names the commit when walzip is built; who builds it may have it set afterwards.
const BUILD_VARIABLE: &str = "WALZIP_COMMIT";

macro_rules! settings {
    ($($(#[doc = $doc:literal])* $key:literal, $name:ident: $type:ty,)*) => {
        /// What the configuration file says.
        #[derive(Clone, Debug, Default, Deserialize)]
        pub struct Config {
            $($(#[doc = $doc])* #[serde(rename = $key)] pub $name: Option<$type>,)*
            /// What it says of further repositories, by their numbers from 2 on.
            #[serde(skip)]
            further: BTreeMap<u16, toml::Table>,
        }

        /// The name of every setting.
        pub const SETTINGS: &[&str] = &[$($key),*];
    };
}

settings! {
    /// Where the repository is: a path or a URL.
    "repo", repo: String,
    /// The key file of an encrypted repository.
    "repo-key-file", repo_key_file: PathBuf,
    /// How many seconds an operation on the repository may take.
    "repo-timeout", repo_timeout: u64,
    /// Certificates of further authorities.
    "repo-storage-ca-file", repo_storage_ca_file: PathBuf,
    /// Where S3 is.
    "repo-s3-endpoint", repo_s3_endpoint: String,
    /// The bucket's region.
    "repo-s3-region", repo_s3_region: String,
    /// How the bucket is named in requests: `host` or `path`.
    "repo-s3-uri-style", repo_s3_uri_style: String,
    /// Where Google Cloud Storage is.
    "repo-gcs-endpoint", repo_gcs_endpoint: String,
    /// The storage account at Azure.
    "repo-azure-account", repo_azure_account: String,
    /// Where Azure Blob Storage is.
    "repo-azure-endpoint", repo_azure_endpoint: String,
    /// The private key for SSH.
    "repo-sftp-private-key-file", repo_sftp_private_key_file: PathBuf,
    /// The keys of known SSH servers.
    "repo-sftp-known-host", repo_sftp_known_host: PathBuf,
    /// How hard `archive-push` compresses, from 1 to 9.
    "level", level: u8,
    /// Whether `archive-push` and `archive-get` work ahead in the background.
    "archive-async", archive_async: bool,
    /// Where calls and their worker in the background meet.
    "spool-path", spool_path: PathBuf,
    /// How many WAL files are pushed or fetched at a time in the background.
    "process-max", process_max: u16,
    /// Where `receive` syncs WAL.
    "receive-directory", receive_directory: PathBuf,
    /// How hard `backup` compresses, from 1 to 9.
    "backup-level", backup_level: u8,
    /// How many threads of `backup` encode.
    "backup-process-max", backup_process_max: u16,
    /// Where `serve` answers Prometheus.
    "metrics-listen", metrics_listen: String,
    /// How often `serve` runs `expire`.
    "expire-every", expire_every: String,
    /// How often `serve` runs `pack`.
    "pack-every", pack_every: String,
    /// How often `serve` runs `verify`.
    "verify-every", verify_every: String,
    /// The cluster's data directory.
    "pgdata", pgdata: PathBuf,
    /// The server's host name, or the directory of its socket.
    "host", host: String,
    /// The server's port.
    "port", port: u16,
    /// The user to connect as; needs the REPLICATION attribute for `backup`.
    "user", user: String,
    /// The database to connect to, or a whole connection string.
    "dbname", dbname: String,
    /// How many full backups `expire` keeps.
    "repo-retention-full", repo_retention_full: u32,
    /// For how long back `expire` keeps every moment.
    "repo-retention-window", repo_retention_window: String,
}

impl Config {
    /// Reads the named file, which must exist, or else the default one, which may be absent.
    pub fn load(path: Option<&Path>) -> Result<Config, CommandError> {
        warn_of_unknown_variables();
        let shown = path.unwrap_or(Path::new(DEFAULT_PATH));
        match std::fs::read_to_string(shown) {
            Ok(text) => Config::parse(&text).map_err(|error| error.at(shown.display())),
            Err(error) if path.is_none() && error.kind() == io::ErrorKind::NotFound => {
                Ok(Config::default())
            }
            Err(error) => Err(CommandError::caused(
                Kind::Config,
                format_args!("cannot read the configuration file {}", shown.display()),
                &error,
            )),
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Config, CommandError> {
        let invalid = |error: toml::de::Error| match error.span() {
            Some(span) => {
                let line = text[..span.start].matches('\n').count();
                let written = text.lines().nth(line).unwrap_or_default();
                let message = not_a_boolean(written).unwrap_or_else(|| in_words(&error));
                CommandError::new(Kind::Config, message).at(format_args!("line {}", line + 1))
            }
            None => CommandError::new(Kind::Config, in_words(&error)),
        };
        let table: toml::Table = toml::from_str(text).map_err(invalid)?;
        let mut is_renamed = false;
        let mut first = toml::Table::new();
        let mut further: BTreeMap<u16, toml::Table> = BTreeMap::new();
        for (key, value) in table {
            if value.is_table() {
                return Err(section(&key));
            }
            let (number, setting) = numbered(&key).unwrap_or((1, key.clone()));
            is_renamed |= setting != key;
            if !SETTINGS.contains(&setting.as_str()) {
                return Err(unknown_key(&key));
            }
            let of_repository = match number {
                1 => &mut first,
                _ => further.entry(number).or_default(),
            };
            if of_repository.insert(setting.clone(), value).is_some() {
                let message = format!(
                    "\"repo1\" is another name of \"repo\", and \"{setting}\" is set twice"
                );
                return Err(CommandError::new(Kind::Config, message));
            }
        }
        // From the text where it can be: its errors know the line.
        let mut config: Config = match is_renamed {
            false => toml::from_str(text).map_err(invalid)?,
            true => first.try_into().map_err(invalid)?,
        };
        config.further = further;
        for number in config.further.keys() {
            config.of_repository(*number)?;
        }
        Ok(config)
    }

    /// The numbers of the repositories that have a place.
    pub fn repositories(&self) -> Vec<u16> {
        let first = self.repo.is_some().then_some(1);
        first
            .into_iter()
            .chain(self.further.keys().copied())
            .collect()
    }

    /// Refuses values that no command could use, of any repository. A command needs few of them, and
    /// which one is wrong should not be seen at night: `check` and `serve` look at all.
    pub fn check_values(&self) -> Result<(), CommandError> {
        // A file without a repository has the other keys all the same.
        let further = self
            .repositories()
            .into_iter()
            .filter(|number| *number != 1);
        for number in std::iter::once(1).chain(further) {
            let own = self.of_repository(number)?;
            let repo = match number {
                1 => "repo".to_owned(),
                number => format!("repo{number}"),
            };
            own.process_max()?;
            own.backup_process_max()?;
            at_least_one("port", own.port.map(u64::from))?;
            at_least_one(&format!("{repo}-timeout"), own.repo_timeout)?;
            at_least_one(
                &format!("{repo}-retention-full"),
                own.repo_retention_full.map(u64::from),
            )?;
            for (key, level) in [("level", own.level), ("backup-level", own.backup_level)] {
                if let Some(level) = level.filter(|level| !(1..=9).contains(level)) {
                    return Err(wrong_value(key, level, "it has to be from 1 to 9"));
                }
            }
            let window = format!("{repo}-retention-window");
            for (key, value) in [
                (window.as_str(), &own.repo_retention_window),
                ("expire-every", &own.expire_every),
                ("pack-every", &own.pack_every),
                ("verify-every", &own.verify_every),
            ] {
                if let Some(text) = value {
                    let length = duration(text).map_err(|why| wrong_value(key, text, &why))?;
                    if key.ends_with("-every") && length.is_zero() {
                        return Err(wrong_value(key, text, "it has to be 1h or longer"));
                    }
                }
            }
            if let Some(text) = &own.repo_s3_uri_style {
                let why = "it has to be \"host\" or \"path\"";
                uri_style(text)
                    .ok_or_else(|| wrong_value(&format!("{repo}-s3-uri-style"), text, why))?;
            }
            if let Some(text) = &own.metrics_listen {
                let parsed = text.parse::<SocketAddr>();
                parsed.map_err(|_| {
                    wrong_value("metrics-listen", text, "it has to be an address and a port")
                })?;
            }
        }
        Ok(())
    }

    /// How many files a worker takes at a time.
    pub fn process_max(&self) -> Result<Option<u16>, CommandError> {
        up_to(PROCESS_MAX, "process-max", self.process_max)
    }

    /// How many threads of `backup` encode.
    pub fn backup_process_max(&self) -> Result<Option<u16>, CommandError> {
        up_to(
            BACKUP_PROCESS_MAX,
            "backup-process-max",
            self.backup_process_max,
        )
    }

    /// What it says of anything else than repositories.
    pub fn without_repositories(&self) -> Config {
        Config {
            level: self.level,
            archive_async: self.archive_async,
            spool_path: self.spool_path.clone(),
            process_max: self.process_max,
            receive_directory: self.receive_directory.clone(),
            backup_level: self.backup_level,
            backup_process_max: self.backup_process_max,
            metrics_listen: self.metrics_listen.clone(),
            expire_every: self.expire_every.clone(),
            pack_every: self.pack_every.clone(),
            verify_every: self.verify_every.clone(),
            pgdata: self.pgdata.clone(),
            host: self.host.clone(),
            port: self.port,
            user: self.user.clone(),
            dbname: self.dbname.clone(),
            ..Config::default()
        }
    }

    /// The same configuration with the repository of this number as the only one.
    pub fn of_repository(&self, number: u16) -> Result<Config, CommandError> {
        let mut config = self.clone();
        config.further.clear();
        if number == 1 {
            return Ok(config);
        }
        let own = self.further.get(&number).cloned().unwrap_or_default();
        let invalid = |error: toml::de::Error| {
            CommandError::new(Kind::Config, in_words(&error))
                .at(format_args!("a key of repository {number}"))
        };
        let own: Config = own.try_into().map_err(invalid)?;
        if own.repo.is_none() {
            let message = format!("repository {number} has no place");
            return Err(CommandError::new(Kind::Config, message).hint(format_args!(
                "Add the key \"repo{number}\", a path or a URL."
            )));
        }
        let shared = config.without_repositories();
        let level = own.level.or(shared.level);
        Ok(Config {
            level,
            archive_async: shared.archive_async,
            spool_path: shared.spool_path,
            process_max: shared.process_max,
            receive_directory: shared.receive_directory,
            backup_level: shared.backup_level,
            backup_process_max: shared.backup_process_max,
            metrics_listen: shared.metrics_listen,
            expire_every: shared.expire_every,
            pack_every: shared.pack_every,
            verify_every: shared.verify_every,
            pgdata: shared.pgdata,
            host: shared.host,
            port: shared.port,
            user: shared.user,
            dbname: shared.dbname,
            ..own
        })
    }
}

/// The number in a key of a repository, and the key without it: `repo2-s3-region`. The level is a
/// setting of its own without a number, since it is most often that of all: `repo2-level`.
fn numbered(key: &str) -> Option<(u16, String)> {
    let rest = key.strip_prefix("repo")?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (number, rest) = rest.split_at(digits);
    if number.starts_with('0') {
        return None;
    }
    let number = number
        .parse()
        .ok()
        .filter(|number| (1..=256).contains(number))?;
    match rest {
        "-level" => Some((number, "level".to_owned())),
        _ => Some((number, format!("repo{rest}"))),
    }
}

/// How requests name the bucket.
pub fn uri_style(text: &str) -> Option<UriStyle> {
    match text {
        "host" => Some(UriStyle::Host),
        "path" => Some(UriStyle::Path),
        _ => None,
    }
}

/// A misspelt variable would be ignored without a word. Other variables with the prefix may
/// belong to somebody else's script, so that only near misses are worth a warning.
fn warn_of_unknown_variables() {
    let known: Vec<String> = SETTINGS
        .iter()
        .map(|name| variable(name))
        .chain([PATH_VARIABLE, BUILD_VARIABLE, FORMAT_VARIABLE].map(str::to_owned))
        .collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    for (name, _) in std::env::vars_os() {
        let Some(name) = name.to_str().filter(|name| name.starts_with("WALZIP_")) else {
            continue;
        };
        if let (false, Some(meant)) = (known.contains(&name), nearest(name, &known)) {
            tracing::warn!("the variable {name} is not known and was ignored; is {meant} meant?");
        }
    }
}

/// The variable of a setting.
fn variable(setting: &str) -> String {
    format!("WALZIP_{}", setting.to_ascii_uppercase().replace('-', "_"))
}

/// The name that a misspelt one most probably means.
fn nearest<'a>(wrong: &str, names: &[&'a str]) -> Option<&'a str> {
    let distance = |name: &&str| strsim::damerau_levenshtein(wrong, name);
    let best = names.iter().copied().min_by_key(distance)?;
    (distance(&best) <= 1 + wrong.len() / 4).then_some(best)
}

fn at_least_one(key: &str, value: Option<u64>) -> Result<(), CommandError> {
    match value {
        Some(0) => Err(wrong_value(key, 0, "it has to be 1 or more")),
        _ => Ok(()),
    }
}

fn up_to(max: u16, key: &str, count: Option<u16>) -> Result<Option<u16>, CommandError> {
    match count.filter(|count| !(1..=max).contains(count)) {
        Some(wrong) => {
            let why = format!("it has to be from 1 to {max}");
            Err(wrong_value(key, wrong, &why))
        }
        None => Ok(count),
    }
}

fn wrong_value(key: &str, value: impl std::fmt::Display, why: &str) -> CommandError {
    let message = format!("the key \"{key}\" is {value}: {why}");
    CommandError::new(Kind::Config, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        format!("{:?}", Config::parse(text).expect_err("the file is wrong"))
    }

    #[test]
    fn a_value_that_nothing_could_use_is_named() {
        for (text, named) in [
            ("level = 12", "\"level\" is 12: it has to be from 1 to 9"),
            (
                "repo2-retention-full = 0",
                "\"repo2-retention-full\" is 0: it has to be 1 or more",
            ),
            (
                "expire-every = \"daily\"",
                "\"expire-every\" is daily: it is a number followed by",
            ),
            (
                "expire-every = \"0h\"",
                "\"expire-every\" is 0h: it has to be 1h",
            ),
            ("process-max = 0", "\"process-max\" is 0"),
            ("process-max = 257", "\"process-max\" is 257"),
            (
                "backup-level = 0",
                "\"backup-level\" is 0: it has to be from 1 to 9",
            ),
            (
                "backup-process-max = 1000",
                "\"backup-process-max\" is 1000: it has to be from 1 to 999",
            ),
            ("port = 0", "\"port\" is 0"),
            (
                "repo2-s3-uri-style = \"virtual\"",
                "\"repo2-s3-uri-style\" is virtual",
            ),
            (
                "metrics-listen = \"9187\"",
                "\"metrics-listen\" is 9187: it has to be an address",
            ),
        ] {
            let text = format!("repo = \"/r\"\nrepo2 = \"/s\"\n{text}\n");
            let config = Config::parse(&text).expect("of the right types");
            let error = config.check_values().expect_err("wrong");
            assert!(error.message().contains(named), "{}", error.message());
        }
        let alone = Config::parse("level = 0\n").expect("of the right types");
        assert!(alone.check_values().is_err());
        let fine = "repo = \"/r\"\nlevel = 9\nrepo-retention-window = \"14d\"\n";
        let fine = Config::parse(fine).expect("valid");
        fine.check_values().expect("nothing is wrong");
    }

    #[test]
    fn reads_every_setting() {
        let text = "repo = \"/r\"\nrepo-key-file = \"/y\"\nrepo-timeout = 30\nrepo-storage-ca-file = \"/ca\"\n\
                    repo-s3-endpoint = \"e\"\nrepo-s3-region = \"r\"\n\
                    repo-s3-uri-style = \"path\"\nrepo-gcs-endpoint = \"g\"\n\
                    repo-azure-account = \"a\"\nrepo-azure-endpoint = \"z\"\n\
                    repo-sftp-private-key-file = \"/k\"\nrepo-sftp-known-host = \"/h\"\n\
                    level = 5\narchive-async = true\nspool-path = \"/s\"\nprocess-max = 3\n\
                    receive-directory = \"/v\"\n\
                    backup-level = 6\nbackup-process-max = 4\n\
                    metrics-listen = \"127.0.0.1:9187\"\nexpire-every = \"1d\"\n\
                    pack-every = \"3d\"\n\
                    verify-every = \"2d\"\npgdata = \"/d\"\nhost = \"h\"\nport = 5433\n\
                    user = \"u\"\ndbname = \"b\"\n\
                    repo-retention-full = 2\nrepo-retention-window = \"14d\"\n";
        let config = Config::parse(text).expect("valid");
        assert_eq!(config.repo.as_deref(), Some("/r"));
        assert_eq!((config.level, config.port), (Some(5), Some(5433)));
        assert_eq!(
            (config.archive_async, config.process_max),
            (Some(true), Some(3))
        );
        assert_eq!(
            (config.backup_level, config.backup_process_max),
            (Some(6), Some(4))
        );
        assert_eq!(config.verify_every.as_deref(), Some("2d"));
        assert_eq!(config.pack_every.as_deref(), Some("3d"));
        assert_eq!(config.repo_timeout, Some(30));
        assert_eq!(config.repo_s3_uri_style.as_deref(), Some("path"));
        assert_eq!(config.repo_retention_full, Some(2));
        assert_eq!(config.repo_retention_window.as_deref(), Some("14d"));
        assert_eq!(text.lines().count(), SETTINGS.len());
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        assert!(message("leval = 3").contains("Did you mean \\\"level\\\"?"));
        assert!(message("dbnam = 'x'").contains("Did you mean \\\"dbname\\\"?"));
        assert!(
            message("retention-full = 4").contains("Did you mean \\\"repo-retention-full\\\"?")
        );
        assert!(message("level = '4'").contains("a whole number, without quotes"));
        assert!(message("compression = 'x'").contains("The keys are repo, repo-key-file"));
    }

    #[test]
    fn each_repository_has_its_own_keys() {
        let text = "repo1 = \"/a\"\nlevel = 5\nport = 5433\nrepo-retention-full = 2\n\
                    repo3 = \"s3://b\"\nrepo3-s3-region = \"r\"\nrepo3-level = 9\n\
                    repo2 = \"/c\"\n";
        let config = Config::parse(text).expect("valid");
        assert_eq!(config.repositories(), [1, 2, 3]);
        let of = |number| config.of_repository(number).expect("it is there");
        assert_eq!(of(1).repo.as_deref(), Some("/a"));
        assert_eq!(of(1).repo_retention_full, Some(2));
        assert_eq!((of(2).repo.as_deref(), of(2).level), (Some("/c"), Some(5)));
        assert_eq!((of(2).repo_retention_full, of(2).port), (None, Some(5433)));
        assert_eq!(
            (of(3).level, of(3).repo_s3_region.as_deref()),
            (Some(9), Some("r"))
        );
        assert_eq!(of(3).repositories(), [1]);
    }

    #[test]
    fn wrong_keys_of_a_repository_are_told() {
        assert!(message("repo2-s3-region = 'r'").contains("repository 2 has no place"));
        assert!(message("repo2 = '/a'\nrepo2-timeout = 'x'").contains("a key of repository 2"));
        assert!(message("repo2 = '/a'\nrepo2-retention = 1").contains("unknown key"));
        assert!(message("repo = '/a'\nrepo1 = '/a'").contains("set twice"));
        assert!(message("repo999 = '/a'").contains("unknown key"));
        assert!(message("repo2-port = 1").contains("unknown key"));
    }

    #[test]
    fn a_wrong_type_names_the_line() {
        let message = message("repo = \"/r\"\nport = \"x\"\n");
        assert!(message.contains("line 2"), "{message}");
    }

    #[test]
    fn the_manual_lists_exactly_these_settings() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let text = std::fs::read_to_string(path).expect("docs/configuration.md is readable");
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
        let documented: Vec<(&str, &str)> = rows
            .filter_map(|row| row.split_once("` | `"))
            .filter_map(|(key, rest)| Some((key, rest.split('`').next()?)))
            .collect();
        let variables: Vec<String> = SETTINGS.iter().map(|name| variable(name)).collect();
        let expected: Vec<(&str, &str)> = SETTINGS
            .iter()
            .copied()
            .zip(variables.iter().map(String::as_str))
            .collect();
        assert_eq!(documented, expected);
    }

    #[test]
    fn every_variable_of_a_flag_is_a_settings() {
        use clap::CommandFactory;
        let mut found = std::collections::BTreeSet::new();
        let mut commands = vec![crate::Cli::command()];
        while let Some(command) = commands.pop() {
            let variables = command.get_arguments().filter_map(clap::Arg::get_env);
            found.extend(variables.map(|name| name.to_string_lossy().into_owned()));
            commands.extend(command.get_subcommands().cloned());
        }
        let known = SETTINGS.iter().map(|name| variable(name));
        let of_none = [PATH_VARIABLE, FORMAT_VARIABLE].map(str::to_owned);
        assert_eq!(found, known.chain(of_none).collect());
    }
}
