//! Where the server is and who we are: libpq's two notations.
//!
//! The environment is the caller's business. It passes `PGHOST` and the like as a second set of
//! settings to [`ConnectionSettings::or`].

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::ServerError;
use super::tls_settings::TlsSettings;

const DEFAULT_PORT: u16 = 5432;

/// Where libpq looks for a socket when no host is given: Debian's directory, then upstream's.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// A host name, or the directory of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name or an address.
    Tcp(String),
    /// The directory that holds `.s.PGSQL.<port>`.
    Unix(PathBuf),
}

/// What a connection needs to know. What is `None` was not said.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// The server.
    pub host: Option<Host>,
    /// Its numeric address, if its name is not to be looked up. The name counts for all else.
    pub host_address: Option<String>,
    /// Its port, 5432 by default.
    pub port: Option<u16>,
    /// The role. A connection needs one.
    pub user: Option<String>,
    /// The role's password.
    pub password: Option<String>,
    /// The database for ordinary queries, `postgres` by default.
    pub dbname: Option<String>,
    /// Encryption.
    pub tls: TlsSettings,
    /// What `pg_stat_activity` shows, `walzip` by default.
    pub application_name: Option<String>,
    /// How long to wait for a connection, in seconds.
    pub connect_timeout_seconds: Option<u64>,
}

impl fmt::Debug for ConnectionSettings {
    /// Everything but the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSettings")
            .field("host", &self.host)
            .field("host_address", &self.host_address)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("dbname", &self.dbname)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

impl ConnectionSettings {
    /// Reads `key=value ...` or `postgresql://...`.
    pub fn parse(text: &str) -> Result<ConnectionSettings, ServerError> {
        let mut settings = ConnectionSettings::default();
        if text.starts_with("postgresql://") || text.starts_with("postgres://") {
            settings.read_uri(text)?;
        } else {
            for (key, value) in key_values(text)? {
                settings.set(&key, &value)?;
            }
        }
        Ok(settings)
    }

    /// Takes one setting under libpq's name for it.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ServerError> {
        let text = || Some(value.to_owned());
        match key {
            "host" => self.host = host(value)?,
            "hostaddr" => self.host_address = address(value)?,
            "port" => self.port = Some(number(key, value)?),
            "user" => self.user = text(),
            "password" => self.password = text(),
            "dbname" => self.dbname = text(),
            "application_name" => self.application_name = text(),
            "connect_timeout" => self.connect_timeout_seconds = Some(number(key, value)?),
            _ if says_what_is_done_anyway(key, value) => {}
            // pg_basebackup and others are handed such strings; what these say is our own affair.
            "replication" | "fallback_application_name" | "client_encoding" => {}
            _ => match self.tls.set(key, value) {
                Some(taken) => taken?,
                None => return Err(invalid(format!("\"{key}\" is not supported"))),
            },
        }
        Ok(())
    }

    /// These settings, completed from others where nothing was said.
    pub fn or(self, others: ConnectionSettings) -> ConnectionSettings {
        ConnectionSettings {
            host: self.host.or(others.host),
            host_address: self.host_address.or(others.host_address),
            port: self.port.or(others.port),
            user: self.user.or(others.user),
            password: self.password.or(others.password),
            dbname: self.dbname.or(others.dbname),
            tls: self.tls.or(others.tls),
            application_name: self.application_name.or(others.application_name),
            connect_timeout_seconds: self
                .connect_timeout_seconds
                .or(others.connect_timeout_seconds),
        }
    }

    pub(super) fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(DEFAULT_PORT)
    }

    /// The host that was named, or the socket directory that holds the port's socket.
    pub(super) fn host_or_default(&self) -> Host {
        match (&self.host, &self.host_address) {
            // As for libpq, an address is stronger than a directory.
            (None | Some(Host::Unix(_)), Some(address)) => return Host::Tcp(address.clone()),
            (Some(host), _) => return host.clone(),
            (None, None) => {}
        }
        let directory = SOCKET_DIRECTORIES
            .into_iter()
            .map(Path::new)
            .find(|directory| self.socket_in(directory).exists());
        match directory {
            Some(directory) => Host::Unix(directory.to_owned()),
            None => Host::Tcp("localhost".to_owned()),
        }
    }

    pub(super) fn socket_in(&self, directory: &Path) -> PathBuf {
        directory.join(format!(".s.PGSQL.{}", self.port_or_default()))
    }

    pub(super) fn required_user(&self) -> Result<&str, ServerError> {
        self.user.as_deref().ok_or_else(|| {
            invalid("no user is given, and the system's user has no name".to_owned())
        })
    }

    fn read_uri(&mut self, text: &str) -> Result<(), ServerError> {
        let uri = url::Url::parse(text).map_err(|error| invalid(error.to_string()))?;
        if let Some(name) = uri.host_str().filter(|name| !name.is_empty()) {
            let name = name.trim_matches(['[', ']']);
            self.set("host", &percent_decode("host", name)?)?;
        }
        if let Some(port) = uri.port() {
            self.port = Some(port);
        }
        if !uri.username().is_empty() {
            self.set("user", &percent_decode("user", uri.username())?)?;
        }
        if let Some(password) = uri.password() {
            self.set("password", &percent_decode("password", password)?)?;
        }
        let dbname = uri.path().trim_start_matches('/');
        if !dbname.is_empty() {
            self.set("dbname", &percent_decode("dbname", dbname)?)?;
        }
        // Not query_pairs(): that reads '+' as a space, libpq does not.
        for pair in uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| invalid(format!("\"{pair}\" in the URI has no value")))?;
            let key = percent_decode("name of a setting", key)?;
            self.set(&key, &percent_decode(&key, value)?)?;
        }
        Ok(())
    }
}

fn invalid(reason: String) -> ServerError {
    ServerError::Settings(reason)
}

fn number<N: std::str::FromStr>(key: &str, value: &str) -> Result<N, ServerError> {
    value
        .trim()
        .parse()
        .map_err(|_| invalid(format!("{key} \"{value}\" is not a valid number")))
}

fn host(value: &str) -> Result<Option<Host>, ServerError> {
    if value.contains(',') {
        return Err(invalid(format!(
            "\"{value}\" names several hosts, which is not supported"
        )));
    }
    Ok(match value.as_bytes().first() {
        None => None,
        Some(b'/') => Some(Host::Unix(PathBuf::from(value))),
        Some(_) => Some(Host::Tcp(value.to_owned())),
    })
}

fn address(value: &str) -> Result<Option<String>, ServerError> {
    match value.parse::<IpAddr>() {
        Ok(_) => Ok(Some(value.to_owned())),
        Err(_) if value.is_empty() => Ok(None),
        Err(_) => Err(invalid(format!("hostaddr \"{value}\" is not an address"))),
    }
}

/// Settings of libpq that are not supported, with a value that asks for nothing.
fn says_what_is_done_anyway(key: &str, value: &str) -> bool {
    match key {
        "gssencmode" => matches!(value, "disable" | "prefer"),
        "sslcertmode" => value == "allow",
        "ssl_min_protocol_version" => matches!(value, "TLSv1" | "TLSv1.1" | "TLSv1.2"),
        "ssl_max_protocol_version" => value == "TLSv1.3",
        "target_session_attrs" => value == "any",
        "requiressl" => value == "0",
        _ => false,
    }
}

/// Names what it decodes, and does not show it: it may be the password.
fn percent_decode(what: &str, text: &str) -> Result<String, ServerError> {
    percent_encoding::percent_decode_str(text)
        .decode_utf8()
        .map(|decoded| decoded.into_owned())
        .map_err(|_| invalid(format!("the {what} in the URI is not UTF-8")))
}

/// Splits `key = 'va\'lue' ...` as libpq's conninfo_parse does.
fn key_values(text: &str) -> Result<Vec<(String, String)>, ServerError> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        // It is not shown: it may be the rest of a password.
        let missing = || {
            let reason = "missing \"=\" after a word (a value with spaces needs single quotes)";
            invalid(reason.to_owned())
        };
        let (key, after) = rest.split_once('=').ok_or_else(missing)?;
        let (value, after) = value_at(after.trim_start())?;
        pairs.push((key.trim_end().to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

/// One value, quoted or not, and what follows it.
fn value_at(text: &str) -> Result<(String, &str), ServerError> {
    let quoted = text.starts_with('\'');
    let text = text.strip_prefix('\'').unwrap_or(text);
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => {
                return Ok((value, text.get(at + 1..).unwrap_or_default()));
            }
            space if !quoted && space.is_whitespace() => {
                return Ok((value, text.get(at..).unwrap_or_default()));
            }
            other => value.push(other),
        }
    }
    if quoted {
        return Err(invalid("a quoted value has no end".to_owned()));
    }
    Ok((value, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::replication::SslMode;

    fn parsed(text: &str) -> ConnectionSettings {
        ConnectionSettings::parse(text).expect(text)
    }

    #[test]
    fn reads_key_value_pairs_with_quotes_and_escapes() {
        let settings = parsed(r"host=/run/pg port = 5433 user='a b' password='it\'s' dbname=");
        assert_eq!(settings.host, Some(Host::Unix("/run/pg".into())));
        assert_eq!(settings.port, Some(5433));
        assert_eq!(settings.user.as_deref(), Some("a b"));
        assert_eq!(settings.password.as_deref(), Some("it's"));
        assert_eq!(settings.dbname.as_deref(), Some(""));
    }

    #[test]
    fn reads_uris() {
        let settings = parsed("postgresql://u%40x:p%2Fw@db.example:6000/base?sslmode=prefer");
        assert_eq!(settings.host, Some(Host::Tcp("db.example".into())));
        assert_eq!(settings.port, Some(6000));
        assert_eq!(settings.user.as_deref(), Some("u@x"));
        assert_eq!(settings.password.as_deref(), Some("p/w"));
        assert_eq!(settings.dbname.as_deref(), Some("base"));
        assert_eq!(settings.tls.mode, Some(SslMode::Prefer));
        assert_eq!(
            parsed("postgres://%2Frun%2Fpg/b").host,
            Some(Host::Unix("/run/pg".into()))
        );
        assert_eq!(
            parsed("postgresql:///b?host=/tmp").host,
            Some(Host::Unix("/tmp".into()))
        );
        assert_eq!(
            parsed("postgresql://[::1]:1/b").host,
            Some(Host::Tcp("::1".into()))
        );
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        for text in [
            "host",
            "password='open",
            "port=many",
            "port=70000",
            "host=a,b",
            "sslmode=sometimes",
            "sslcrl=/x",
            "sslpassword=x",
            "color=blue",
            "hostaddr=db.example",
            "require_auth=scram-sha-256",
            "gssencmode=require",
            "ssl_min_protocol_version=TLSv1.3",
            "postgresql://h/b?color=blue",
            "postgresql://h/b?sslmode",
        ] {
            assert!(ConnectionSettings::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn never_shows_the_password() {
        let shown = format!("{:?}", parsed("host=h password=secret"));
        assert!(!shown.contains("secret"), "{shown}");
        for wrong in ["postgresql://u:p%FFsecret@h/", "password=my secret"] {
            let error = ConnectionSettings::parse(wrong).expect_err(wrong);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn an_address_takes_the_place_of_the_names_only_to_connect() {
        let both = parsed("hostaddr=127.0.0.1 host=db.example");
        assert_eq!(both.host_or_default(), Host::Tcp("db.example".into()));
        assert_eq!(both.host_address.as_deref(), Some("127.0.0.1"));
        let alone = parsed("hostaddr=::1");
        assert_eq!(alone.host_or_default(), Host::Tcp("::1".into()));
        let directory = parsed("hostaddr=::1 host=/run/pg");
        assert_eq!(directory.host_or_default(), Host::Tcp("::1".into()));
    }

    #[test]
    fn settings_that_ask_for_nothing_are_taken() {
        let nothing =
            parsed("gssencmode=prefer ssl_min_protocol_version=TLSv1.2 sslcertmode=allow");
        assert_eq!(nothing, ConnectionSettings::default());
    }

    #[test]
    fn completes_settings_from_others() {
        let settings = parsed("host=h").or(parsed("host=other port=1"));
        assert_eq!(settings, parsed("host=h port=1"));
    }
}
