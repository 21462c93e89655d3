//! The files of certificates and keys, at their places and with their defaults as for libpq.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use super::super::ServerError;
use super::super::ssl_mode::SslMode;
use super::super::tls_settings::{RootCertificates, TlsSettings};
use super::certificate;
use super::verifier::Roots;

/// No file of certificates is longer; the system's own have some hundred KiB.
const BYTES_MAX: u64 = 16 << 20;

/// Who may vouch for the server. `None` if nobody has to.
pub fn roots(settings: &TlsSettings, mode: SslMode) -> Result<Option<Roots>, ServerError> {
    let (path, is_named) = match &settings.root_certificates {
        Some(RootCertificates::System) => return system_roots().map(Some),
        Some(RootCertificates::File(path)) => (path.clone(), true),
        None => match default_path(settings, "root.crt") {
            Some(path) => (path, false),
            None if mode.verifies() => {
                let reason = format!("sslmode={mode} needs sslrootcert (PGSSLROOTCERT)");
                return Err(ServerError::Settings(reason));
            }
            None => return Ok(None),
        },
    };
    let pem = match read(&path) {
        Ok(pem) => pem,
        Err(error) if is_absent(&error) && !is_named && !mode.verifies() => return Ok(None),
        Err(error) if is_absent(&error) => {
            let reason = "does not exist: name the file with the certificate of the server's \
                          authority in sslrootcert (PGSSLROOTCERT)";
            return Err(unusable(&path, reason));
        }
        Err(error) => return Err(unusable(&path, &error.to_string())),
    };
    refuse_revocations(settings)?;
    let mut certificates = certificates(&path, &pem)?;
    certificates.retain(is_valid_now);
    if certificates.is_empty() {
        let reason = "has no certificate that is valid at this time";
        return Err(unusable(&path, reason));
    }
    let mut authorities = RootCertStore::empty();
    // That of a server vouches for nobody else.
    for certificate in certificates
        .iter()
        .filter(|certificate| certificate::is_of_an_authority(certificate))
    {
        let added = authorities.add(certificate.clone());
        added.map_err(|error| unusable(&path, &error.to_string()))?;
    }
    Ok(Some(Roots {
        authorities,
        certificates,
    }))
}

/// rustls does not look when an authority's certificate is valid.
fn is_valid_now(certificate: &CertificateDer<'_>) -> bool {
    certificate::is_valid_at(certificate, SystemTime::now()) == Some(true)
}

fn system_roots() -> Result<Roots, ServerError> {
    let found = rustls_native_certs::load_native_certs();
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(found.certs.into_iter().filter(is_valid_now));
    if authorities.is_empty() {
        let reason = "sslrootcert=system: the system has no certificates of authorities; install \
                      them (ca-certificates), or name a file";
        return Err(ServerError::Settings(reason.to_owned()));
    }
    Ok(Roots {
        authorities,
        certificates: Vec::new(),
    })
}

/// libpq reads this file without being asked. To pass over it would be to trust what was revoked.
fn refuse_revocations(settings: &TlsSettings) -> Result<(), ServerError> {
    match default_path(settings, "root.crl") {
        Some(path) if path.exists() => Err(unusable(
            &path,
            "lists of revoked certificates are not supported: move it away if the server's \
             certificate may be trusted without it",
        )),
        _ => Ok(()),
    }
}

/// Our certificate with its key. `None` if there is no certificate, even if one was named.
pub fn client_certificate(
    settings: &TlsSettings,
    provider: &CryptoProvider,
) -> Result<Option<CertifiedKey>, ServerError> {
    let named = settings.certificate.clone();
    let Some(path) = named.or_else(|| default_path(settings, "postgresql.crt")) else {
        return Ok(None);
    };
    let pem = match read(&path) {
        Ok(pem) => pem,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(unusable(&path, &error.to_string())),
    };
    let chain = certificates(&path, &pem)?;
    let named = settings.key.clone();
    let Some(key_path) = named.or_else(|| default_path(settings, "postgresql.key")) else {
        let reason = "its key is not known: name it in sslkey (PGSSLKEY)";
        return Err(unusable(&path, reason));
    };
    let key = provider
        .key_provider
        .load_private_key(private_key(&key_path)?)
        .map_err(|error| unusable(&key_path, &error.to_string()))?;
    let of_key = key.public_key();
    let of_certificate = chain
        .first()
        .and_then(|first| certificate::public_key(first));
    if let (Some(of_key), Some(of_certificate)) = (of_key, of_certificate)
        && of_key.as_ref() != of_certificate
    {
        let reason = format!("is not the key of the certificate {}", path.display());
        return Err(unusable(&key_path, &reason));
    }
    Ok(Some(CertifiedKey::new(chain, key)))
}

/// No error here quotes the file.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ServerError> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => {
            let reason = "does not exist, although there is a certificate that it belongs to: \
                          name it in sslkey (PGSSLKEY)";
            return Err(unusable(path, reason));
        }
        Err(error) => return Err(unusable(path, &error.to_string())),
    };
    let metadata = file.metadata();
    let metadata = metadata.map_err(|error| unusable(path, &error.to_string()))?;
    if is_open_to_others(&metadata) {
        let reason = "is a private key that its group or others may read: \
                      chmod 0600, or 0640 if root owns it";
        return Err(unusable(path, reason));
    }
    let mut pem = Zeroizing::new(Vec::new());
    let read = file.take(BYTES_MAX).read_to_end(&mut pem);
    read.map_err(|error| unusable(path, &error.to_string()))?;
    if is_encrypted(&pem) {
        let reason = "is encrypted, which is not supported: decrypt it by openssl pkey -in OLD \
                      -out NEW, and keep the new one closed to others (chmod 0600)";
        return Err(unusable(path, reason));
    }
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| unusable(path, "is no private key in PEM"))
}

/// Opens a file, and waits for nobody who writes to a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let flags = i32::try_from(flags).map_err(io::Error::other)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("is not a regular file")),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The rule of libpq since 15: keys that the system's administrator keeps may be for a group.
fn is_open_to_others(metadata: &Metadata) -> bool {
    let forbidden = match metadata.uid() {
        0 => 0o037,
        _ => 0o077,
    };
    metadata.mode() & forbidden != 0
}

/// Both notations: of PKCS #8, and OpenSSL's older one.
fn is_encrypted(pem: &[u8]) -> bool {
    let has = |words: &[u8]| pem.windows(words.len()).any(|window| window == words);
    has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED")
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(unusable(path, "has no certificate in PEM")),
        Ok(found) => Ok(found),
        Err(_) => Err(unusable(path, "is not in PEM")),
    }
}

fn default_path(settings: &TlsSettings, name: &str) -> Option<PathBuf> {
    let directory = settings.directory.as_ref()?;
    Some(directory.join(name))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn unusable(path: &Path, reason: &str) -> ServerError {
    ServerError::TlsFile {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}
