//! Profiles of Amazon's own programs: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::OpenError;
use crate::store_settings::StoreSettings;

/// What a profile says. Without files it says nothing.
#[derive(Debug, Default)]
pub(super) struct Profile {
    pub(super) credentials: Option<Credentials>,
    pub(super) region: Option<String>,
    pub(super) endpoint_url: Option<String>,
}

/// Where credentials come from.
pub(super) enum Credentials {
    Keys {
        key: String,
        secret: String,
        token: Option<String>,
    },
    /// A program and its arguments.
    Process(Vec<String>),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys { .. } => f.write_str("Keys"),
            Self::Process(_) => f.write_str("Process"),
        }
    }
}

/// What is understood by Amazon's programs, and not here.
const NOT_UNDERSTOOD: [&str; 4] = [
    "sso_session",
    "sso_start_url",
    "source_profile",
    "credential_source",
];

type Section = BTreeMap<String, String>;

impl Profile {
    /// Reads the profile that `AWS_PROFILE` names, which has to exist, or the default one.
    pub(super) fn read(settings: &StoreSettings) -> Result<Profile, OpenError> {
        let environment = &settings.environment;
        let named = environment.get("AWS_PROFILE");
        let name = named.unwrap_or("default");
        let file = |variable: &str, usual: &str| {
            let named = environment.get(variable).map(PathBuf::from);
            named.or_else(|| Some(settings.home.as_ref()?.join(".aws").join(usual)))
        };
        let config_header = match name {
            "default" => name.to_owned(),
            _ => format!("profile {name}"),
        };
        let config = section(file("AWS_CONFIG_FILE", "config"), &config_header)?;
        let credentials = section(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name)?;
        if named.is_some() && config.is_none() && credentials.is_none() {
            return Err(OpenError::Settings(format!(
                "there is no profile {name}, which AWS_PROFILE names"
            )));
        }
        let mut all = config.unwrap_or_default();
        // Those of the credentials' file come first.
        all.extend(credentials.unwrap_or_default());
        Profile::of(name, all, has_keys(settings))
    }

    fn of(name: &str, mut all: Section, needs_no_keys: bool) -> Result<Profile, OpenError> {
        let key = all.remove("aws_access_key_id");
        let secret = all.remove("aws_secret_access_key");
        let process = all.remove("credential_process");
        let credentials = match (key, secret, process) {
            (Some(key), Some(secret), _) => Some(Credentials::Keys {
                key,
                secret,
                token: all.remove("aws_session_token"),
            }),
            (None, None, Some(command)) => Some(Credentials::Process(words(&command))),
            (None, None, None) => None,
            _ => {
                return Err(OpenError::Settings(format!(
                    "the profile {name} has only one of aws_access_key_id and \
                     aws_secret_access_key"
                )));
            }
        };
        let unknown = NOT_UNDERSTOOD.iter().find(|key| all.contains_key(**key));
        if let (None, Some(key), false) = (&credentials, unknown, needs_no_keys) {
            return Err(OpenError::Settings(format!(
                "the profile {name} gets its credentials by {key}, which walzip does not do; a \
                 credential_process can: aws configure export-credentials --format process"
            )));
        }
        Ok(Profile {
            credentials,
            region: all.remove("region"),
            endpoint_url: all.remove("endpoint_url"),
        })
    }
}

/// Whether variables have keys, whatever the profile says.
fn has_keys(settings: &StoreSettings) -> bool {
    let names = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"];
    settings.environment.any(&names).is_some()
}

/// The section of a file, where there are both.
fn section(file: Option<PathBuf>, name: &str) -> Result<Option<Section>, OpenError> {
    let Some(file) = file else { return Ok(None) };
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok(find(&text, name)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::Settings(format!(
            "cannot read {}: {error}",
            file.display()
        ))),
    }
}

/// The settings of a section. What is indented belongs to the setting above, and is not used here.
fn find(text: &str, name: &str) -> Option<Section> {
    let mut found: Option<Section> = None;
    let mut is_inside = false;
    for line in text.lines() {
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let header = header.split(']').next().unwrap_or_default();
            is_inside = header.split_whitespace().eq(name.split_whitespace());
            if is_inside {
                found.get_or_insert_default();
            }
            continue;
        }
        if let (true, Some(section), Some((key, value))) =
            (is_inside, found.as_mut(), line.split_once('='))
        {
            let value = value.split(" #").next().unwrap_or_default().trim();
            section.insert(key.trim().to_ascii_lowercase(), value.to_owned());
        }
    }
    found
}

/// The words of a command. Quotes keep spaces, and a backslash the next character.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (None | Some('"'), '\\') => {
                word.get_or_insert_default().extend(characters.next());
            }
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store_settings::Environment;

    fn read(files: [&str; 2], profile: Option<&str>) -> Result<Profile, OpenError> {
        let home = tempfile::tempdir().unwrap();
        let aws = home.path().join(".aws");
        std::fs::create_dir(&aws).unwrap();
        std::fs::write(aws.join("credentials"), files[0]).unwrap();
        std::fs::write(aws.join("config"), files[1]).unwrap();
        let profile = profile.map(|name| ("AWS_PROFILE".to_owned(), name.to_owned()));
        Profile::read(&StoreSettings {
            home: Some(home.path().to_owned()),
            environment: Environment::new(profile),
            ..StoreSettings::default()
        })
    }

    const CREDENTIALS: &str = "[default]\naws_access_key_id = K\naws_secret_access_key=S=1\n\
                               [other]\naws_access_key_id=K2\naws_secret_access_key=S2\n\
                               aws_session_token = T\n";
    const CONFIG: &str = "# comment\n[default]\nregion = eu-central-1 # here\n\
                          s3 =\n  endpoint_url = nested\n\n[profile other]\n\
                          endpoint_url = http://host:1\n[profile process]\n\
                          credential_process = /bin/get \"a b\" c\\ d\n\
                          [profile sso]\nsso_session = mine\n";

    #[test]
    fn profiles_are_read_from_both_files() {
        let of = |name| read([CREDENTIALS, CONFIG], name).unwrap();
        let profile = of(None);
        assert!(
            matches!(profile.credentials, Some(Credentials::Keys { ref key, ref secret, token: None })
            if key == "K" && secret == "S=1")
        );
        assert_eq!(profile.region.as_deref(), Some("eu-central-1"));
        assert_eq!(profile.endpoint_url, None);
        let profile = of(Some("other"));
        assert!(
            matches!(profile.credentials, Some(Credentials::Keys { token: Some(ref token), .. })
            if token == "T")
        );
        assert_eq!(profile.endpoint_url.as_deref(), Some("http://host:1"));
        let Some(Credentials::Process(command)) = of(Some("process")).credentials else {
            panic!("no process");
        };
        assert_eq!(command, ["/bin/get", "a b", "c d"]);
        assert!(!format!("{:?}", of(None)).contains("S=1"));
    }

    #[test]
    fn a_profile_that_cannot_be_used_is_refused() {
        for (name, expected) in [("missing", "no profile"), ("sso", "by sso_session")] {
            let error = read([CREDENTIALS, CONFIG], Some(name)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        let half = read(["[default]\naws_access_key_id = K\n", ""], None);
        assert!(half.is_err());
        assert!(read(["", ""], None).unwrap().credentials.is_none());
    }
}
