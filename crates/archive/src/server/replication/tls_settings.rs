//! What was said about encryption, in libpq's words.

use std::path::PathBuf;

use super::ServerError;
use super::ssl_mode::{SSL_MODES, SslMode};

/// Whether SCRAM has to prove that both ends are of the same TLS session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelBinding {
    /// `disable`: it does not.
    Disable,
    /// `prefer`: it does if the server can.
    #[default]
    Prefer,
    /// `require`: the server is not spoken to without that proof.
    Require,
}

/// Who may vouch for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootCertificates {
    /// The authorities that the system trusts.
    System,
    /// Those in a file.
    File(PathBuf),
}

/// What a connection needs to know for TLS. What is `None` was not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// How much encryption is insisted on, `prefer` by default.
    pub mode: Option<SslMode>,
    /// Who may vouch for the server; by default the file `root.crt`, if it exists.
    pub root_certificates: Option<RootCertificates>,
    /// Our certificate; by default the file `postgresql.crt`, if it exists.
    pub certificate: Option<PathBuf>,
    /// Its key; by default the file `postgresql.key`.
    pub key: Option<PathBuf>,
    /// Whether SCRAM is bound to the session, `prefer` by default.
    pub channel_binding: Option<ChannelBinding>,
    /// Where the files are that were not named: `~/.postgresql` for libpq.
    pub directory: Option<PathBuf>,
}

impl TlsSettings {
    /// Takes one setting under libpq's name for it; `None` if there is none of this name.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Option<Result<(), ServerError>> {
        let path = || Some(PathBuf::from(value)).filter(|_| !value.is_empty());
        match key {
            "sslmode" => return Some(ssl_mode(value).map(|mode| self.mode = Some(mode))),
            "channel_binding" => {
                return Some(channel_binding(value).map(|said| self.channel_binding = Some(said)));
            }
            "sslnegotiation" => return Some(negotiation(value)),
            "sslrootcert" if value == "system" => {
                self.root_certificates = Some(RootCertificates::System);
            }
            "sslrootcert" => self.root_certificates = path().map(RootCertificates::File),
            "sslcert" => self.certificate = path(),
            "sslkey" => self.key = path(),
            _ => return None,
        }
        Some(Ok(()))
    }

    /// These settings, completed from others where nothing was said.
    pub(super) fn or(self, others: TlsSettings) -> TlsSettings {
        TlsSettings {
            mode: self.mode.or(others.mode),
            root_certificates: self.root_certificates.or(others.root_certificates),
            certificate: self.certificate.or(others.certificate),
            key: self.key.or(others.key),
            channel_binding: self.channel_binding.or(others.channel_binding),
            directory: self.directory.or(others.directory),
        }
    }

    /// The mode that was named, or the one that follows from the rest.
    pub(super) fn mode_or_default(&self) -> Result<SslMode, ServerError> {
        let system = self.root_certificates == Some(RootCertificates::System);
        match self.mode {
            // Anybody can have a certificate of one of the system's many authorities.
            None if system => Ok(SslMode::VerifyFull),
            Some(mode) if system && mode != SslMode::VerifyFull => Err(ServerError::Settings(
                format!("sslmode={mode} is too weak for sslrootcert=system: use verify-full"),
            )),
            mode => Ok(mode.unwrap_or_default()),
        }
    }
}

fn ssl_mode(value: &str) -> Result<SslMode, ServerError> {
    let named = SSL_MODES.iter().find(|(name, _)| *name == value);
    named.map(|(_, mode)| *mode).ok_or_else(|| {
        let names = SSL_MODES.map(|(name, _)| name).join(", ");
        ServerError::Settings(format!("sslmode \"{value}\" is none of {names}"))
    })
}

fn channel_binding(value: &str) -> Result<ChannelBinding, ServerError> {
    match value {
        "disable" => Ok(ChannelBinding::Disable),
        "prefer" => Ok(ChannelBinding::Prefer),
        "require" => Ok(ChannelBinding::Require),
        _ => Err(ServerError::Settings(format!(
            "channel_binding \"{value}\" is none of disable, prefer, require"
        ))),
    }
}

fn negotiation(value: &str) -> Result<(), ServerError> {
    match value {
        "postgres" => Ok(()),
        "direct" => Err(ServerError::Settings(
            "sslnegotiation=direct is not supported: every server also takes \
             sslnegotiation=postgres"
                .to_owned(),
        )),
        _ => Err(ServerError::Settings(format!(
            "sslnegotiation \"{value}\" is not postgres"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pairs: &[(&str, &str)]) -> Result<TlsSettings, ServerError> {
        let mut settings = TlsSettings::default();
        for (key, value) in pairs {
            settings.set(key, value).expect("a setting of TLS")?;
        }
        Ok(settings)
    }

    fn mode(pairs: &[(&str, &str)]) -> Result<SslMode, ServerError> {
        said(pairs)?.mode_or_default()
    }

    #[test]
    fn every_mode_has_libpqs_name_and_prefer_is_the_default() {
        for (name, expected) in SSL_MODES {
            let named = mode(&[("sslmode", name)]).expect(name);
            assert_eq!((named, named.to_string().as_str()), (expected, name));
        }
        assert_eq!(mode(&[]).expect("a default"), SslMode::Prefer);
        let error = mode(&[("sslmode", "always")]).expect_err("not a mode");
        assert!(error.to_string().contains("verify-full"), "{error}");
    }

    #[test]
    fn the_systems_authorities_are_for_verify_full_only() {
        let system = ("sslrootcert", "system");
        assert_eq!(mode(&[system]).expect("a mode"), SslMode::VerifyFull);
        let full = mode(&[system, ("sslmode", "verify-full")]);
        assert_eq!(full.expect("a mode"), SslMode::VerifyFull);
        for weak in ["disable", "prefer", "require", "verify-ca"] {
            let error = mode(&[system, ("sslmode", weak)]).expect_err(weak);
            assert!(error.to_string().contains("use verify-full"), "{error}");
        }
    }

    #[test]
    fn files_are_named_and_an_empty_name_is_none() {
        let settings = said(&[("sslrootcert", "/a"), ("sslcert", "/b"), ("sslkey", "/c")]);
        let settings = settings.expect("valid");
        let root = RootCertificates::File("/a".into());
        assert_eq!(settings.root_certificates, Some(root));
        assert_eq!(settings.certificate, Some("/b".into()));
        assert_eq!(settings.key, Some("/c".into()));
        let empty = said(&[("sslrootcert", ""), ("sslcert", ""), ("sslkey", "")]);
        assert_eq!(empty.expect("valid"), TlsSettings::default());
    }

    #[test]
    fn only_the_negotiation_that_every_server_knows_is_taken() {
        said(&[("sslnegotiation", "postgres")]).expect("taken");
        let error = said(&[("sslnegotiation", "direct")]).expect_err("refused");
        assert!(
            error.to_string().contains("sslnegotiation=postgres"),
            "{error}"
        );
        said(&[("sslnegotiation", "other")]).expect_err("refused");
        said(&[("channel_binding", "always")]).expect_err("refused");
    }

    #[test]
    fn what_is_not_about_tls_or_not_supported_is_left_to_others() {
        let mut settings = TlsSettings::default();
        for key in ["host", "sslcrl", "sslpassword", "ssl"] {
            assert!(settings.set(key, "x").is_none(), "{key}");
        }
    }
}
