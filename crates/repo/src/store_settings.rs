//! What is to be known about a store besides its location.
//!
//! The command line gathers it: this crate reads no variables. What is secret has no way into
//! a message: it is not shown even where everything else is.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How long an operation on a store may take with its repetitions, if nothing else is said.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// How to reach a store. A local one needs nothing of it.
#[derive(Clone, Debug, Default)]
pub struct StoreSettings {
    /// How long an operation may take with its repetitions; [`DEFAULT_TIMEOUT`] if it is not said.
    pub timeout: Option<Duration>,
    /// Certificates of authorities that are trusted besides the system's, in PEM.
    pub ca_file: Option<PathBuf>,
    /// The key file, if the repository is encrypted.
    pub key_file: Option<PathBuf>,
    /// Where S3 is, if not at Amazon's address of the region: a URL, or a host's name.
    pub s3_endpoint: Option<String>,
    /// The region of the bucket.
    pub s3_region: Option<String>,
    /// How the bucket is named in requests.
    pub s3_uri_style: Option<UriStyle>,
    /// Where Google Cloud Storage is, if not at its own address.
    pub gcs_endpoint: Option<String>,
    /// The storage account at Azure.
    pub azure_account: Option<String>,
    /// Where Azure Blob Storage is, if not at the account's own address.
    pub azure_endpoint: Option<String>,
    /// The private key to log in with, instead of the user's own ones.
    pub sftp_private_key_file: Option<PathBuf>,
    /// The keys of known hosts, instead of the user's own list and the system's.
    pub sftp_known_hosts_file: Option<PathBuf>,
    /// The home directory, where other programs keep keys and profiles.
    pub home: Option<PathBuf>,
    /// The user who runs this program.
    pub user: Option<String>,
    /// The variables in which the services' own programs look for credentials.
    pub environment: Environment,
}

impl StoreSettings {
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_TIMEOUT)
    }
}

/// How a bucket is named in requests to S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriStyle {
    /// As a part of the host's name.
    Host,
    /// As the first part of the path.
    Path,
}

/// Variables, of which some hold secrets: only their names are shown.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// These variables. An empty one is as good as none.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let set = variables.into_iter().filter(|(_, value)| !value.is_empty());
        Self(set.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        // A value that was read from a file often ends with the file's last line break.
        self.0
            .get(name)
            .map(|value| value.trim_end_matches(['\r', '\n']))
    }

    pub(crate) fn any(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_not_shown() {
        let secret = ("AWS_SECRET_ACCESS_KEY".to_owned(), "SECRET".to_owned());
        let settings = StoreSettings {
            environment: Environment::new([secret]),
            ..StoreSettings::default()
        };
        let shown = format!("{settings:#?}");
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY") && !shown.contains("\"SECRET\""));
    }
}
