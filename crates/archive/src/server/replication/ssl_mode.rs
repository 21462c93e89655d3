//! How much encryption is insisted on.

use std::fmt;

/// How much the caller insists on encryption and on knowing the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    /// `disable`: never encrypted.
    Disable,
    /// `allow`: encrypted if the server takes nothing else.
    Allow,
    /// `prefer`: encrypted if the server can.
    #[default]
    Prefer,
    /// `require`: encrypted, whoever the server is.
    Require,
    /// `verify-ca`: by a certificate of an authority that is trusted.
    VerifyCa,
    /// `verify-full`: by such a certificate that is for the host's name.
    VerifyFull,
}

pub(super) const SSL_MODES: [(&str, SslMode); 6] = [
    ("disable", SslMode::Disable),
    ("allow", SslMode::Allow),
    ("prefer", SslMode::Prefer),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

impl SslMode {
    /// Whether the server has to have a certificate of an authority that is trusted.
    pub(super) fn verifies(self) -> bool {
        matches!(self, SslMode::VerifyCa | SslMode::VerifyFull)
    }
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = SSL_MODES.iter().find(|(_, mode)| mode == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}
