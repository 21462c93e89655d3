//! Who the server has to be, as libpq's modes say.
//!
//! Without root certificates every certificate is accepted. Even then the server has to prove
//! that it has the certificate's key, so that the session is with one and the same server.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::certificate;

/// The certificates that are trusted.
#[derive(Debug)]
pub struct Roots {
    /// As authorities.
    pub authorities: RootCertStore,
    /// As they are.
    pub certificates: Vec<CertificateDer<'static>>,
}

/// Judges the server's certificate.
#[derive(Debug)]
pub struct Verifier {
    /// Who may vouch for it; nobody has to without them.
    pub roots: Option<Roots>,
    /// Whether it has to be for the host's name.
    pub is_for_the_name: bool,
    /// How signatures are verified.
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let parsed = ParsedCertificate::try_from(certificate)?;
            let verified = verify_server_cert_signed_by_trust_anchor(
                &parsed,
                &roots.authorities,
                intermediates,
                now,
                self.algorithms.all,
            );
            match verified {
                Err(error) if is_own_authority(&error, certificate, roots) => {}
                verified => verified?,
            }
            if self.is_for_the_name {
                verify_name(certificate, &parsed, name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.roots.is_some() {
            return verify_tls13_signature(message, certificate, signed, &self.algorithms);
        }
        // PostgreSQL's manual makes certificates of X.509's first version, which rustls does not
        // read. Where anybody's will do, their key will.
        let key = certificate::public_key(certificate).ok_or(CertificateError::BadEncoding)?;
        let key = SubjectPublicKeyInfoDer::from(key);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether nothing is wrong but that the server uses the certificate of an authority, and we trust
/// that very certificate. So does who makes one by `openssl req -x509` and copies it to clients.
fn is_own_authority(error: &Error, certificate: &CertificateDer<'_>, roots: &Roots) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else {
        return false;
    };
    // This is found after that it is valid at this time.
    let is_authority = matches!(
        other.0.downcast_ref::<webpki::Error>(),
        Some(webpki::Error::CaUsedAsEndEntity)
    );
    is_authority && roots.certificates.contains(certificate)
}

/// As libpq does, the common name counts in a certificate that has no other names.
fn verify_name(
    certificate: &CertificateDer<'_>,
    parsed: &ParsedCertificate<'_>,
    name: &ServerName<'_>,
) -> Result<(), Error> {
    let error = match verify_server_name(parsed, name) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let has_no_names = matches!(
        &error,
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. })
            if presented.is_empty()
    );
    match certificate::common_name(certificate) {
        Some(pattern) if has_no_names && is_name(pattern, &name.to_str()) => Ok(()),
        _ => Err(error),
    }
}

/// Whether a common name is that of a host; `*.` stands for one label.
fn is_name(pattern: &str, name: &str) -> bool {
    let is_below = |domain: &str| match name.split_once('.') {
        Some((label, rest)) => !label.is_empty() && rest.eq_ignore_ascii_case(domain),
        None => false,
    };
    match pattern.strip_prefix("*.") {
        Some(domain) => is_below(domain),
        None => pattern.eq_ignore_ascii_case(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_name_is_a_hosts_name_or_stands_for_one_label() {
        for (pattern, name) in [
            ("db.example", "DB.example"),
            ("*.example", "db.example"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            assert!(is_name(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("db.example", "db2.example"),
            ("*.example", "a.db.example"),
            ("*.example", "example"),
            ("*.example", ".example"),
            ("*", "example"),
            ("", "example"),
        ] {
            assert!(!is_name(pattern, name), "{pattern} {name}");
        }
    }
}
