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
use rustls::pki_types::{
    CertificateDer, ServerName, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime,
};
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
                Err(error) if is_trusted_itself(&error, certificate, roots) => {}
                verified => verified?,
            }
            if self.is_for_the_name {
                // Constraints hold for other names than the common name, which then does not count.
                let mut authorities = intermediates.iter().chain(&roots.certificates);
                let is_free = !authorities.any(|of| certificate::constrains_names(of));
                verify_name(certificate, &parsed, name, is_free)?;
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
        if self.roots.is_some() {
            return verify_tls12_signature(message, certificate, signed, &self.algorithms);
        }
        self.verify_by_key(message, certificate, signed)
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

impl Verifier {
    /// By the certificate's key, whatever else the certificate says.
    fn verify_by_key(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let bad = || Error::from(CertificateError::BadSignature);
        let key = certificate::public_key(certificate).ok_or(CertificateError::BadEncoding)?;
        let key = SubjectPublicKeyInfoDer::from(key);
        let key = webpki::RawPublicKeyEntity::try_from(&key).map_err(|_| bad())?;
        let mut mapping = self.algorithms.mapping.iter();
        let algorithms = mapping.find(|(scheme, _)| *scheme == signed.scheme);
        let (_, algorithms) = algorithms.ok_or_else(bad)?;
        let is_by = |algorithm: &&dyn SignatureVerificationAlgorithm| {
            key.verify_signature(*algorithm, message, signed.signature())
                .is_ok()
        };
        match algorithms.iter().any(is_by) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(bad()),
        }
    }
}

/// Whether nothing is wrong but that nobody else vouches for the server's certificate, or that it is an
/// authority's, and we trust that very certificate. So does who makes one by `openssl req -x509` and copies
/// it to clients. Both are found after that it is valid at this time.
fn is_trusted_itself(error: &Error, certificate: &CertificateDer<'_>, roots: &Roots) -> bool {
    let Error::InvalidCertificate(reason) = error else {
        return false;
    };
    let is_alone = match reason {
        CertificateError::UnknownIssuer => true,
        CertificateError::Other(other) => matches!(
            other.0.downcast_ref::<webpki::Error>(),
            Some(webpki::Error::CaUsedAsEndEntity)
        ),
        _ => false,
    };
    is_alone && roots.certificates.contains(certificate) && certificate::is_for_servers(certificate)
}

/// As libpq does, the common name counts in a certificate that has no other names, unless it may not.
fn verify_name(
    certificate: &CertificateDer<'_>,
    parsed: &ParsedCertificate<'_>,
    name: &ServerName<'_>,
    common_name_counts: bool,
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
        Some(pattern) if common_name_counts && has_no_names && is_name(pattern, &name.to_str()) => {
            Ok(())
        }
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
