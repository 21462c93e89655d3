//! How to reach the server: flags, variables, the configuration file, and for what is left
//! unset libpq's variables.

use std::ffi::OsString;

use clap::ArgAction;
use walzip_archive::replication::ConnectionSettings;

use crate::config::Config;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::{passfile, system_user};

/// libpq's variables, and its names of the settings.
const LIBPQ: [(&str, &str); 25] = [
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGPORT", "port"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGDATABASE", "dbname"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGCHANNELBINDING", "channel_binding"),
    // These are not supported, but for values that ask for nothing. To pass over them would be to connect
    // to another server, or less safely, than was asked for.
    ("PGSSLCRL", "sslcrl"),
    ("PGSSLCRLDIR", "sslcrldir"),
    ("PGSSLCERTMODE", "sslcertmode"),
    ("PGSSLMINPROTOCOLVERSION", "ssl_min_protocol_version"),
    ("PGSSLMAXPROTOCOLVERSION", "ssl_max_protocol_version"),
    ("PGREQUIRESSL", "requiressl"),
    ("PGREQUIREAUTH", "require_auth"),
    ("PGREQUIREPEER", "requirepeer"),
    ("PGGSSENCMODE", "gssencmode"),
    ("PGSERVICE", "service"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGAPPNAME", "application_name"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
];

/// The flags of every command that talks to the server. As in PostgreSQL's programs `-h` is
/// the host, so that these commands disable the usual help flag.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub struct ConnectionArgs {
    /// The server's host name, or the directory of its socket [config: host; also PGHOST]
    #[arg(short = 'h', long, env = "WALZIP_HOST", hide_env_values = true)]
    host: Option<String>,

    /// The server's port [config: port; also PGPORT]
    #[arg(short, long, env = "WALZIP_PORT", hide_env_values = true)]
    port: Option<u16>,

    /// The user to connect as [config: user; also PGUSER]
    #[arg(short = 'U', long, visible_alias = "username")]
    #[arg(env = "WALZIP_USER", hide_env_values = true)]
    user: Option<String>,

    /// The database, or a connection string as for psql [config: dbname; also PGDATABASE]
    #[arg(short, long, value_name = "NAME|STRING")]
    #[arg(env = "WALZIP_DBNAME", hide_env_values = true)]
    dbname: Option<String>,

    /// Print help
    #[arg(short = '?', long, action = ArgAction::HelpLong, help_heading = None)]
    help: Option<bool>,
}

impl ConnectionArgs {
    /// Whether anything was said about a server.
    pub fn is_given(&self) -> bool {
        self.host.is_some() || self.port.is_some() || self.user.is_some() || self.dbname.is_some()
    }

    /// The settings from all sources.
    pub fn settings(&self, config: &Config) -> Result<ConnectionSettings, CommandError> {
        let flags = layer(&self.host, self.port, &self.user, &self.dbname)?;
        let file = layer(&config.host, config.port, &config.user, &config.dbname)?;
        let mut settings = flags
            .or(file)
            .or(libpq(|variable| std::env::var_os(variable))?);
        settings.user = settings.user.or_else(system_user::own_name);
        // As for libpq, the place of certificates and keys that nobody names.
        settings.tls.directory = std::env::home_dir().map(|home| home.join(".postgresql"));
        if let (None, Some(path)) = (&settings.password, passfile::path()) {
            let user = settings.user.clone().unwrap_or_default();
            settings.password = passfile::password(&path, &settings, &user);
        }
        Ok(settings)
    }
}

/// One source's settings; a connection string is stronger than what stands beside it, as in psql.
fn layer(
    host: &Option<String>,
    port: Option<u16>,
    user: &Option<String>,
    dbname: &Option<String>,
) -> Result<ConnectionSettings, CommandError> {
    let mut settings = ConnectionSettings {
        port,
        user: user.clone(),
        ..Default::default()
    };
    if let Some(host) = host {
        settings.set("host", host)?;
    }
    match dbname {
        Some(text) if text.contains('=') || text.contains("://") => {
            Ok(ConnectionSettings::parse(text)?.or(settings))
        }
        _ => Ok(ConnectionSettings {
            dbname: dbname.clone(),
            ..settings
        }),
    }
}

fn libpq<V: Into<OsString>>(
    variable: impl Fn(&str) -> Option<V>,
) -> Result<ConnectionSettings, CommandError> {
    let mut settings = ConnectionSettings::default();
    for (name, key) in LIBPQ {
        let Some(value) = variable(name).map(V::into) else {
            continue;
        };
        let value = value.into_string().map_err(|_| {
            CommandError::new(Kind::OptionInvalid, "its value is not UTF-8").at(name)
        })?;
        if !value.is_empty() {
            settings
                .set(key, &value)
                .map_err(|error| CommandError::from(error).at(name))?;
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn text(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    #[test]
    fn a_connection_string_is_stronger_than_its_neighbours() {
        let string = text("host=db.example port=5433");
        let settings = layer(&text("other"), Some(1), &text("u"), &string).expect("valid");
        let expected = ConnectionSettings::parse("host=db.example port=5433 user=u");
        assert!(settings == expected.expect("valid"));
    }

    #[test]
    fn libpq_variables_fill_what_is_left_unset() {
        let variables = |name: &str| match name {
            "PGHOST" => text("/run/pg"),
            "PGPORT" => text("6000"),
            "PGUSER" => text(""),
            _ => None,
        };
        let flags = layer(&None, Some(5433), &None, &text("app")).expect("valid");
        let settings = flags.or(libpq(variables).expect("valid"));
        let expected = ConnectionSettings::parse("host=/run/pg port=5433 dbname=app");
        assert!(settings == expected.expect("valid"));
    }

    #[test]
    fn the_settings_of_tls_come_from_libpqs_variables_and_a_connection_string() {
        let variables = |name: &str| match name {
            "PGSSLMODE" => text("verify-full"),
            "PGSSLROOTCERT" => text("/etc/root.crt"),
            "PGSSLCERT" => text("/etc/own.crt"),
            "PGSSLKEY" => text("/etc/own.key"),
            "PGCHANNELBINDING" => text("require"),
            _ => None,
        };
        let string = text("host=h sslmode=verify-ca sslrootcert=/own/root.crt");
        let flags = layer(&None, None, &None, &string).expect("valid");
        let settings = flags.or(libpq(variables).expect("valid"));
        let expected = ConnectionSettings::parse(
            "host=h sslmode=verify-ca sslrootcert=/own/root.crt sslcert=/etc/own.crt \
             sslkey=/etc/own.key channel_binding=require",
        );
        assert!(settings == expected.expect("valid"));
    }

    #[test]
    fn a_list_of_revoked_certificates_is_not_passed_over() {
        let revoked = libpq(|name| (name == "PGSSLCRL").then(|| "/etc/root.crl".to_owned()));
        let error = format!("{:?}", revoked.err());
        assert!(
            error.contains("PGSSLCRL: ") && error.contains("not supported"),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_supported_or_not_text_is_not_passed_over() {
        for name in ["PGSERVICE", "PGREQUIREAUTH", "PGGSSENCMODE"] {
            let refused = libpq(|asked| (asked == name).then(|| "require".to_owned()));
            assert!(format!("{:?}", refused.err()).contains(name), "{name}");
        }
        let value = OsString::from_vec(b"verify-full\xa0".to_vec());
        let refused = libpq(|asked| (asked == "PGSSLMODE").then(|| value.clone()));
        assert!(format!("{:?}", refused.err()).contains("PGSSLMODE"));
    }

    #[test]
    fn a_wrong_variable_is_named() {
        let wrong = libpq(|name| (name == "PGPORT").then(|| "x".to_owned()));
        assert!(format!("{:?}", wrong.err()).contains("PGPORT: "));
    }
}
