//! How the repository's store is reached: the flags, the variables and the file behind them, and
//! the variables of the services' own programs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use walzip_repo::{Environment, Location, StoreSettings, UriStyle};

use crate::config::{self, Config};
use crate::duration::SECONDS_MAX;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::system_user;

/// Variables of other programs that say something about a store.
const OF_SERVICES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
const OF_SSH: &str = "SSH_AUTH_SOCK";

/// How long an operation of `archive-push` or `archive-get` may take: PostgreSQL waits for it,
/// and asks again.
pub const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// The flags of every command that uses a repository. They are many, and seldom given: the manual
/// lists them, and not each command's help.
#[derive(Debug, Default, clap::Args)]
pub struct StoreArgs {
    #[arg(long, env = "WALZIP_REPO_TIMEOUT", hide = true, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86400))]
    repo_timeout: Option<u64>,

    /// The key file of an encrypted repository [config: repo-key-file]
    #[arg(long, env = "WALZIP_REPO_KEY_FILE", hide_env_values = true)]
    #[arg(value_name = "FILE", help_heading = "Repository")]
    repo_key_file: Option<PathBuf>,

    #[arg(long, env = "WALZIP_REPO_STORAGE_CA_FILE", hide = true)]
    repo_storage_ca_file: Option<PathBuf>,

    #[arg(long, env = "WALZIP_REPO_S3_ENDPOINT", hide = true)]
    repo_s3_endpoint: Option<String>,

    #[arg(long, env = "WALZIP_REPO_S3_REGION", hide = true)]
    repo_s3_region: Option<String>,

    #[arg(long, env = "WALZIP_REPO_S3_URI_STYLE", hide = true)]
    repo_s3_uri_style: Option<String>,

    #[arg(long, env = "WALZIP_REPO_GCS_ENDPOINT", hide = true)]
    repo_gcs_endpoint: Option<String>,

    #[arg(long, env = "WALZIP_REPO_AZURE_ACCOUNT", hide = true)]
    repo_azure_account: Option<String>,

    #[arg(long, env = "WALZIP_REPO_AZURE_ENDPOINT", hide = true)]
    repo_azure_endpoint: Option<String>,

    #[arg(long, env = "WALZIP_REPO_SFTP_PRIVATE_KEY_FILE", hide = true)]
    repo_sftp_private_key_file: Option<PathBuf>,

    #[arg(long, env = "WALZIP_REPO_SFTP_KNOWN_HOST", hide = true)]
    repo_sftp_known_host: Option<PathBuf>,
}

impl StoreArgs {
    /// A setting that says where one repository is, or how it is encrypted, if one is given.
    pub fn of_one(&self) -> Option<&'static str> {
        let given = [
            ("--repo-key-file", self.repo_key_file.is_some()),
            ("--repo-s3-endpoint", self.repo_s3_endpoint.is_some()),
            ("--repo-s3-region", self.repo_s3_region.is_some()),
            ("--repo-s3-uri-style", self.repo_s3_uri_style.is_some()),
            ("--repo-gcs-endpoint", self.repo_gcs_endpoint.is_some()),
            ("--repo-azure-account", self.repo_azure_account.is_some()),
            ("--repo-azure-endpoint", self.repo_azure_endpoint.is_some()),
            (
                "--repo-sftp-private-key-file",
                self.repo_sftp_private_key_file.is_some(),
            ),
            (
                "--repo-sftp-known-host",
                self.repo_sftp_known_host.is_some(),
            ),
        ];
        given
            .into_iter()
            .find(|(_, is_given)| *is_given)
            .map(|(name, _)| name)
    }

    /// What the variables say, for a command without these flags.
    pub fn of_variables() -> StoreArgs {
        #[derive(Parser)]
        struct Variables {
            #[command(flatten)]
            store: StoreArgs,
        }
        Variables::try_parse_from(["walzip"]).map_or_else(|_| StoreArgs::default(), |v| v.store)
    }

    /// The settings; an operation may take so long if nobody says anything else.
    pub fn settings(
        &self,
        config: &Config,
        location: &Location,
        usual_timeout: Option<Duration>,
    ) -> Result<StoreSettings, CommandError> {
        fn either<T: Clone>(flag: &Option<T>, key: &Option<T>) -> Option<T> {
            flag.as_ref().or(key.as_ref()).cloned()
        }
        let timeout = self.repo_timeout.or(config.repo_timeout);
        if timeout == Some(0) {
            let message = "the key \"repo-timeout\" is 0, and has to be 1 or more";
            return Err(CommandError::new(Kind::Config, message));
        }
        let style = either(&self.repo_s3_uri_style, &config.repo_s3_uri_style);
        let timeout = timeout.map(|seconds| seconds.min(SECONDS_MAX));
        Ok(StoreSettings {
            timeout: timeout.map(Duration::from_secs).or(usual_timeout),
            key_file: either(&self.repo_key_file, &config.repo_key_file),
            ca_file: either(&self.repo_storage_ca_file, &config.repo_storage_ca_file),
            s3_endpoint: either(&self.repo_s3_endpoint, &config.repo_s3_endpoint),
            s3_region: either(&self.repo_s3_region, &config.repo_s3_region),
            s3_uri_style: style.as_deref().map(uri_style).transpose()?,
            gcs_endpoint: either(&self.repo_gcs_endpoint, &config.repo_gcs_endpoint),
            azure_account: either(&self.repo_azure_account, &config.repo_azure_account),
            azure_endpoint: either(&self.repo_azure_endpoint, &config.repo_azure_endpoint),
            sftp_private_key_file: either(
                &self.repo_sftp_private_key_file,
                &config.repo_sftp_private_key_file,
            ),
            sftp_known_hosts_file: either(&self.repo_sftp_known_host, &config.repo_sftp_known_host),
            home: std::env::home_dir(),
            user: user(location),
            environment: Environment::new(variables_of_services()),
        })
    }
}

/// The variables of other programs that lead to a store, or into it.
pub fn variables_of_services() -> BTreeMap<String, String> {
    let of_service =
        |name: &str| OF_SERVICES.iter().any(|of| name.starts_with(of)) || name == OF_SSH;
    // A value that is not UTF-8 is nothing that a service has given out.
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| of_service(name))
        .collect()
}

/// The flags that lead another process to the same store, whatever its directory and its
/// configuration are. None of them is secret.
pub fn flags(settings: &StoreSettings) -> Vec<(&'static str, String)> {
    let path = |path: &Option<PathBuf>| {
        let path = path.as_ref()?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Some(path.display().to_string())
    };
    let style = settings.s3_uri_style.map(|style| match style {
        UriStyle::Host => "host".to_owned(),
        UriStyle::Path => "path".to_owned(),
    });
    let timeout = settings
        .timeout
        .map(|timeout| timeout.as_secs().to_string());
    let all = [
        ("repo-timeout", timeout),
        ("repo-key-file", path(&settings.key_file)),
        ("repo-storage-ca-file", path(&settings.ca_file)),
        ("repo-s3-endpoint", settings.s3_endpoint.clone()),
        ("repo-s3-region", settings.s3_region.clone()),
        ("repo-s3-uri-style", style),
        ("repo-gcs-endpoint", settings.gcs_endpoint.clone()),
        ("repo-azure-account", settings.azure_account.clone()),
        ("repo-azure-endpoint", settings.azure_endpoint.clone()),
        (
            "repo-sftp-private-key-file",
            path(&settings.sftp_private_key_file),
        ),
        (
            "repo-sftp-known-host",
            path(&settings.sftp_known_hosts_file),
        ),
    ];
    let given = all.into_iter();
    given
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Whom to log in as where the URL does not say so. Asking the system takes its time.
fn user(location: &Location) -> Option<String> {
    match location {
        Location::Sftp(directory) if directory.user.is_none() => {
            system_user::name(rustix::process::geteuid())
        }
        _ => None,
    }
}

fn uri_style(text: &str) -> Result<UriStyle, CommandError> {
    config::uri_style(text).ok_or_else(|| {
        let message = format!("repo-s3-uri-style is \"{text}\", not \"host\" or \"path\"");
        CommandError::new(Kind::OptionInvalid, message)
    })
}

/// The configuration that applies where no flag can name one.
pub fn usual_config() -> Result<Config, CommandError> {
    let named = std::env::var_os(config::PATH_VARIABLE).map(PathBuf::from);
    Config::load(named.as_deref())
}
