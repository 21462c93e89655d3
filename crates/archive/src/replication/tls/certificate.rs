//! What is read out of a certificate besides what rustls reads: the algorithm that signed it, its
//! key and its common name.
//!
//! Nothing here decides whether a certificate can be trusted. The layout is that of RFC 5280 in
//! DER; what is not understood is nothing.

use sha2::{Digest, Sha256, Sha384, Sha512};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xa0;

/// The types of strings that names are made of and that are ASCII or UTF-8: UTF8String,
/// PrintableString, IA5String.
const STRINGS: [u8; 3] = [0x0c, 0x13, 0x16];

/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The channel binding `tls-server-end-point` (RFC 5929): the certificate's hash by the function
/// that its signature is made with, SHA-256 in place of MD5 and SHA-1. Nothing for a signature
/// that has no such function, as Ed25519, or names it elsewhere, as RSASSA-PSS.
pub fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    let algorithm = signature_algorithm(certificate)?;
    let rsa = algorithm.strip_prefix(RSA);
    let ecdsa = algorithm.strip_prefix(ECDSA);
    Some(match (rsa, ecdsa) {
        // MD5, SHA-1, SHA-256; SHA-1, SHA-256.
        (Some([0x04 | 0x05 | 0x0b]), _) | (_, Some([0x01] | [0x03, 0x02])) => {
            Sha256::digest(certificate).to_vec()
        }
        (Some([0x0c]), _) | (_, Some([0x03, 0x03])) => Sha384::digest(certificate).to_vec(),
        (Some([0x0d]), _) | (_, Some([0x03, 0x04])) => Sha512::digest(certificate).to_vec(),
        _ => return None,
    })
}

/// The key, as `SubjectPublicKeyInfo`.
pub fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    let (_, rest) = element(SEQUENCE, after_validity(certificate)?)?;
    let (_, after) = element(SEQUENCE, rest)?;
    rest.get(..rest.len() - after.len())
}

/// The last common name of the subject.
pub fn common_name(certificate: &[u8]) -> Option<&str> {
    let (mut names, _) = element(SEQUENCE, after_validity(certificate)?)?;
    let mut found = None;
    while !names.is_empty() {
        let (name, rest) = element(SET, names)?;
        let (name, _) = element(SEQUENCE, name)?;
        let (kind, value) = element(OBJECT_IDENTIFIER, name)?;
        if kind == COMMON_NAME {
            let (value, _) = STRINGS.iter().find_map(|tag| element(*tag, value))?;
            found = std::str::from_utf8(value).ok();
        }
        names = rest;
    }
    found
}

/// The subject and what follows it.
fn after_validity(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(SEQUENCE, certificate)?;
    let (content, _) = element(SEQUENCE, certificate)?;
    // The first version does not say that it is.
    let content = element(VERSION, content).map_or(content, |(_, rest)| rest);
    let (_, rest) = any_element(content)?;
    // The algorithm, the issuer and the validity.
    let mut rest = rest;
    for _ in 0..3 {
        (_, rest) = element(SEQUENCE, rest)?;
    }
    Some(rest)
}

fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(SEQUENCE, certificate)?;
    let (_, rest) = element(SEQUENCE, certificate)?;
    let (algorithm, _) = element(SEQUENCE, rest)?;
    let (identifier, _) = element(OBJECT_IDENTIFIER, algorithm)?;
    Some(identifier)
}

/// The content of the first element, if it has this tag, and what follows it.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    (der.first() == Some(&tag))
        .then(|| any_element(der))
        .flatten()
}

fn any_element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let shifted = |length, byte: &u8| length << 8 | usize::from(*byte);
            (bytes.iter().fold(0, shifted), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::server::ParsedCertificate;

    macro_rules! certificate {
        ($name:literal) => {{
            const PEM: &[u8] = include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/data/tls/",
                $name,
                ".crt"
            ));
            CertificateDer::from_pem_slice(PEM).expect($name)
        }};
    }

    #[test]
    fn the_end_point_is_the_hash_by_the_signatures_own_function() {
        let sha256 = certificate!("server");
        assert_eq!(end_point(&sha256), Some(Sha256::digest(&sha256).to_vec()));
        let sha384 = certificate!("ecdsa-sha384");
        assert_eq!(end_point(&sha384), Some(Sha384::digest(&sha384).to_vec()));
        let sha512 = certificate!("rsa-sha512");
        assert_eq!(end_point(&sha512), Some(Sha512::digest(&sha512).to_vec()));
        assert_eq!(end_point(&certificate!("ed25519")), None);
        assert_eq!(end_point(&certificate!("rsa-pss")), None);
    }

    #[test]
    fn the_end_point_of_weak_functions_is_by_sha_256() {
        // Sequences around sequences: nothing to sign, the algorithm, nothing that signs it.
        let with = |identifier: &[u8]| {
            let object = [&[OBJECT_IDENTIFIER, identifier.len() as u8], identifier].concat();
            let algorithm = [&[SEQUENCE, object.len() as u8], object.as_slice()].concat();
            let content = [&[SEQUENCE, 0], algorithm.as_slice()].concat();
            [&[SEQUENCE, content.len() as u8], content.as_slice()].concat()
        };
        let rsa = |last: u8| with(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, last]);
        let ecdsa_sha1 = with(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01]);
        for weak in [rsa(0x04), rsa(0x05), ecdsa_sha1] {
            assert_eq!(end_point(&weak), Some(Sha256::digest(&weak).to_vec()));
        }
        assert_eq!(end_point(&rsa(0x0a)), None);
    }

    #[test]
    fn the_key_is_as_rustls_reads_it() {
        for certificate in [certificate!("server"), certificate!("rsa-sha512")] {
            let parsed = ParsedCertificate::try_from(&certificate).expect("read");
            let key = public_key(&certificate).expect("a key");
            assert_eq!(key, parsed.subject_public_key_info().as_ref());
        }
    }

    #[test]
    fn a_certificate_of_the_first_version_is_read() {
        let certificate = certificate!("version-1");
        assert!(ParsedCertificate::try_from(&certificate).is_err());
        assert!(public_key(&certificate).is_some());
        assert_eq!(common_name(&certificate), Some("localhost"));
        assert!(end_point(&certificate).is_some());
    }

    #[test]
    fn the_common_name_is_found_behind_other_parts_of_the_name() {
        assert_eq!(common_name(&certificate!("common-name")), Some("localhost"));
        assert_eq!(common_name(&certificate!("client")), Some("tester"));
    }

    #[test]
    fn nothing_is_read_beyond_the_end_of_a_certificate_that_is_cut() {
        for whole in [certificate!("server"), certificate!("version-1")] {
            for length in 0..whole.len() {
                let cut = &whole[..length];
                assert_eq!(end_point(cut), None, "{length}");
                assert_eq!(public_key(cut), None, "{length}");
                assert_eq!(common_name(cut), None, "{length}");
            }
        }
    }

    #[test]
    fn changed_bytes_are_no_reason_to_panic() {
        let whole = certificate!("server");
        for at in 0..whole.len() {
            for value in [0x00, 0x30, 0x7f, 0x80, 0x83, 0x84, 0xff] {
                let mut changed = whole.to_vec();
                changed[at] = value;
                let _ = (
                    end_point(&changed),
                    public_key(&changed),
                    common_name(&changed),
                );
            }
        }
    }
}
