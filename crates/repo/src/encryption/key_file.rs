//! Key files: what decrypts the keys of a repository's epochs.
//!
//! A key file is an identity file of age (<https://age-encryption.org>), as `age-keygen` writes it
//! too. So the keys of a repository can be had without walzip.

use std::fmt;
use std::io::{Read, Write};
use std::str::FromStr;

use age::secrecy::ExposeSecret;
use age::x25519::Identity;
use ring::{hkdf, hmac};

use crate::error::RepoError;

/// The beginning of an identity.
const IDENTITY: &str = "AGE-SECRET-KEY-1";
/// A key file has no more bytes.
pub(crate) const LEN_MAX: usize = 64 << 10;
/// The line of a key file that only reads, with copies of keys for which nobody can vouch.
const RECOVERY: &str = "# walzip: recovery";

/// Who can decrypt: the public half of an identity, `age1…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient(age::x25519::Recipient);

impl FromStr for Recipient {
    type Err = RepoError;

    fn from_str(text: &str) -> Result<Recipient, RepoError> {
        let invalid = |_| RepoError::InvalidName {
            what: "a recipient",
            name: text.to_owned(),
            detail: "it has the form age1…, as \"walzip key init\" and age-keygen print it",
        };
        let recipient = Recipient(text.parse().map_err(invalid)?);
        // It is part of a key, and must be written in one way only.
        match recipient.to_string() == text {
            true => Ok(recipient),
            false => Err(invalid("another form")),
        }
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Recipient {
    /// Encrypts for this recipient alone.
    pub(super) fn encrypt(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        let recipients = std::iter::once(&self.0 as &dyn age::Recipient);
        let encryptor = age::Encryptor::with_recipients(recipients);
        let encryptor = encryptor.map_err(|error| error.to_string())?;
        let mut encrypted = Vec::new();
        let write = |encrypted| {
            let mut writer = encryptor.wrap_output(encrypted)?;
            writer.write_all(text)?;
            writer.finish().map(drop)
        };
        write(&mut encrypted).map_err(|error: std::io::Error| error.to_string())?;
        Ok(encrypted)
    }
}

/// The identities of a key file. The first one is its owner's, by which the owner's keys are known
/// as such; others are only read with.
#[derive(Clone)]
pub struct KeyFile {
    identities: Vec<Identity>,
    is_recovery: bool,
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.recipients()).finish()
    }
}

impl KeyFile {
    /// A new identity, from the system's random numbers.
    pub fn generate() -> KeyFile {
        KeyFile {
            identities: vec![Identity::generate()],
            is_recovery: false,
        }
    }

    /// A new identity for who only reads.
    pub fn generate_recovery() -> KeyFile {
        KeyFile {
            is_recovery: true,
            ..KeyFile::generate()
        }
    }

    /// Whether it reads with keys for which its owner has not vouched.
    pub fn is_recovery(&self) -> bool {
        self.is_recovery
    }

    /// Reads the text of a key file. An error does not repeat any of it.
    pub fn parse(text: &str) -> Result<KeyFile, String> {
        if text.len() > LEN_MAX {
            return Err(format!("it is longer than {LEN_MAX} bytes"));
        }
        let mut identities = Vec::new();
        let is_recovery = text.lines().any(|line| line.trim() == RECOVERY);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let identity = match line.starts_with(IDENTITY) {
                true => line.parse::<Identity>().ok(),
                false => None,
            };
            match identity {
                Some(identity) => identities.push(identity),
                None => return Err(format!("line {number} is no {IDENTITY}…")),
            }
        }
        match identities.is_empty() {
            true => Err(format!("it has no line {IDENTITY}…")),
            false => Ok(KeyFile {
                identities,
                is_recovery,
            }),
        }
    }

    /// The text of a key file with these identities, to be kept secret.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.is_recovery {
            text += RECOVERY;
            text.push('\n');
        }
        for identity in &self.identities {
            let secret = identity.to_string();
            text += &format!("# public key: {}\n", identity.to_public());
            text += secret.expose_secret();
            text.push('\n');
        }
        text
    }

    /// The public halves, the owner's first.
    pub fn recipients(&self) -> impl Iterator<Item = Recipient> {
        self.identities
            .iter()
            .map(|identity| Recipient(identity.to_public()))
    }

    /// Decrypts what was encrypted for one of the identities.
    pub(super) fn decrypt(&self, encrypted: &[u8]) -> Result<Vec<u8>, String> {
        let decryptor = age::Decryptor::new(encrypted).map_err(|error| error.to_string())?;
        let identities = self.identities.iter();
        let reader = decryptor.decrypt(identities.map(|identity| identity as &dyn age::Identity));
        let reader = reader.map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        let read = reader.take(LEN_MAX as u64).read_to_end(&mut text);
        read.map_err(|error| error.to_string())?;
        Ok(text)
    }

    /// A tag that only who has the owner's identity can make.
    pub(super) fn vouch(&self, statement: &[u8]) -> Option<hmac::Tag> {
        Some(hmac::sign(&self.vouching_key()?, statement))
    }

    /// Whether the owner has vouched for a statement.
    pub(super) fn has_vouched(&self, statement: &[u8], tag: &[u8]) -> bool {
        let key = self.vouching_key();
        key.is_some_and(|key| hmac::verify(&key, statement, tag).is_ok())
    }

    fn vouching_key(&self) -> Option<hmac::Key> {
        let secret = self.identities.first()?.to_string();
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"walzip key file");
        let prk = salt.extract(secret.expose_secret().as_bytes());
        let okm = prk.expand(&[b"walzip vouch"], hmac::HMAC_SHA256).ok()?;
        Some(hmac::Key::from(okm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_read_as_it_is_written() {
        let made = KeyFile::generate();
        let read = KeyFile::parse(&made.text()).expect("a key file");
        let recipients =
            |file: &KeyFile| file.recipients().map(|r| r.to_string()).collect::<Vec<_>>();
        assert_eq!(recipients(&read), recipients(&made));
        assert!(!read.is_recovery());
        let recovery = KeyFile::parse(&KeyFile::generate_recovery().text());
        assert!(recovery.expect("a key file").is_recovery());
        let recipient: Recipient = recipients(&made)[0].parse().expect("a recipient");
        let encrypted = recipient.encrypt(b"secret").expect("encrypted");
        assert_eq!(read.decrypt(&encrypted).as_deref(), Ok(&b"secret"[..]));
        assert!(KeyFile::generate().decrypt(&encrypted).is_err());
        let tag = made.vouch(b"statement").expect("a tag");
        assert!(read.has_vouched(b"statement", tag.as_ref()));
        assert!(!read.has_vouched(b"another", tag.as_ref()));
        assert!(!KeyFile::generate().has_vouched(b"statement", tag.as_ref()));
    }

    #[test]
    fn an_error_does_not_tell_the_secret() {
        let secret = KeyFile::generate()
            .text()
            .lines()
            .nth(1)
            .expect("a line")
            .to_owned();
        for text in [format!("{secret}x"), format!("x{secret}"), String::new()] {
            let error = KeyFile::parse(&text).expect_err("no key file");
            assert!(!error.contains(&secret[20..]), "{error}");
        }
        let shown = format!("{:?}", KeyFile::parse(&secret).expect("a key file"));
        assert!(!shown.contains(&secret[20..]), "{shown}");
    }

    #[test]
    fn a_recipient_is_written_in_one_way_only() {
        let text = KeyFile::generate()
            .recipients()
            .next()
            .expect("one")
            .to_string();
        assert!(text.parse::<Recipient>().is_ok());
        assert!(text.to_uppercase().parse::<Recipient>().is_err());
        assert!("age1".parse::<Recipient>().is_err());
    }
}
