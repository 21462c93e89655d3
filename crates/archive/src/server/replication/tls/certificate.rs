//! What is read out of a certificate besides what rustls reads: the algorithm that signed it, its
//! key, its common name, when it is valid and what it may be used for.
//!
//! The layout is that of RFC 5280 in DER; what is not understood is nothing.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use sha2::{Digest, Sha256, Sha384, Sha512};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// The types of strings that names are made of and that are ASCII or UTF-8: UTF8String,
/// PrintableString, IA5String.
const STRINGS: [u8; 3] = [0x0c, 0x13, 0x16];

/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.29.19, 2.5.29.30 and 2.5.29.37.
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const NAME_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x1e];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// 1.3.6.1.5.5.7.3.1, and 2.5.29.37.0 for any use.
const SERVER_USES: [&[u8]; 2] = [
    &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01],
    &[0x55, 0x1d, 0x25, 0x00],
];

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

/// The common name of the subject, if it has one and no other one.
pub fn common_name(certificate: &[u8]) -> Option<&str> {
    let (mut names, _) = element(SEQUENCE, after_validity(certificate)?)?;
    let mut found = None;
    while !names.is_empty() {
        let (name, rest) = element(SET, names)?;
        let (name, _) = element(SEQUENCE, name)?;
        let (kind, value) = element(OBJECT_IDENTIFIER, name)?;
        if kind == COMMON_NAME {
            if found.is_some() {
                return None;
            }
            let (value, _) = STRINGS.iter().find_map(|tag| element(*tag, value))?;
            found = Some(std::str::from_utf8(value).ok()?);
        }
        names = rest;
    }
    found
}

/// Whether it may vouch for others: that of an authority, or one of X.509's first version, which does not
/// say, that vouches for itself.
pub fn is_of_an_authority(certificate: &[u8]) -> bool {
    if is_of_the_first_version(certificate) {
        return is_self_issued(certificate);
    }
    let constraints = extension(certificate, BASIC_CONSTRAINTS);
    let content = constraints.and_then(|value| element(SEQUENCE, value));
    let is_authority = content.and_then(|(content, _)| element(BOOLEAN, content));
    is_authority.is_some_and(|(value, _)| value == [0xff])
}

/// Whether a server may use it.
pub fn is_for_servers(certificate: &[u8]) -> bool {
    let Some(value) = extension(certificate, EXTENDED_KEY_USAGE) else {
        return true;
    };
    let Some((mut uses, _)) = element(SEQUENCE, value) else {
        return false;
    };
    while let Some((usage, rest)) = element(OBJECT_IDENTIFIER, uses) {
        if SERVER_USES.contains(&usage) {
            return true;
        }
        uses = rest;
    }
    false
}

/// Whether it says for which names it may vouch.
pub fn constrains_names(certificate: &[u8]) -> bool {
    extension(certificate, NAME_CONSTRAINTS).is_some()
}

/// Whether it is valid at a time, as far as it says.
pub fn is_valid_at(certificate: &[u8], time: SystemTime) -> Option<bool> {
    let validity = fields(certificate)?.validity;
    let (from, rest) = moment(validity)?;
    let (until, _) = moment(rest)?;
    Some((from..=until).contains(&time))
}

/// A time, and what follows it.
fn moment(der: &[u8]) -> Option<(SystemTime, &[u8])> {
    let (text, rest, century_digits) =
        match (element(UTC_TIME, der), element(GENERALIZED_TIME, der)) {
            (Some((text, rest)), _) => (text, rest, 0),
            (_, Some((text, rest))) => (text, rest, 2),
            _ => return None,
        };
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if digits.len() != 12 + century_digits || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, others) = digits.split_at(2 + century_digits);
    let year: i16 = match (year.parse().ok()?, century_digits) {
        (year, 2) => year,
        (year @ 50.., _) => 1900 + year,
        (year, _) => 2000 + year,
    };
    let number = |at: usize| others.get(at..at + 2)?.parse::<i8>().ok();
    let time = DateTime::new(
        year,
        number(0)?,
        number(2)?,
        number(4)?,
        number(6)?,
        number(8)?,
        0,
    );
    // The end of the year 9999 stands for no end (RFC 5280), and lies behind the last timestamp.
    let timestamp = Offset::UTC.to_timestamp(time.ok()?);
    Some((timestamp.unwrap_or(Timestamp::MAX).into(), rest))
}

/// The value of an extension.
fn extension<'c>(certificate: &'c [u8], identifier: &[u8]) -> Option<&'c [u8]> {
    // The key comes first; identifiers of issuer and subject may come between.
    let mut rest = fields(certificate)?.from_subject;
    let mut all = loop {
        let (_, after) = any_element(rest)?;
        match element(EXTENSIONS, after) {
            Some((extensions, _)) => break element(SEQUENCE, extensions)?.0,
            None => rest = after,
        }
    };
    while let Some((one, others)) = element(SEQUENCE, all) {
        let (kind, value) = element(OBJECT_IDENTIFIER, one)?;
        if kind == identifier {
            let value = element(BOOLEAN, value).map_or(value, |(_, rest)| rest);
            return Some(element(OCTETS, value)?.0);
        }
        all = others;
    }
    None
}

/// Parts of what is signed.
struct Fields<'c> {
    issuer: &'c [u8],
    validity: &'c [u8],
    /// The subject and what follows it.
    from_subject: &'c [u8],
}

fn fields(certificate: &[u8]) -> Option<Fields<'_>> {
    let content = content(certificate)?;
    // The first version does not say that it is.
    let content = element(VERSION, content).map_or(content, |(_, rest)| rest);
    let (_serial_number, rest) = any_element(content)?;
    let (_algorithm, rest) = element(SEQUENCE, rest)?;
    let (issuer, rest) = element(SEQUENCE, rest)?;
    let (validity, from_subject) = element(SEQUENCE, rest)?;
    Some(Fields {
        issuer,
        validity,
        from_subject,
    })
}

fn content(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(SEQUENCE, certificate)?;
    Some(element(SEQUENCE, certificate)?.0)
}

fn is_of_the_first_version(certificate: &[u8]) -> bool {
    content(certificate).is_some_and(|content| element(VERSION, content).is_none())
}

fn is_self_issued(certificate: &[u8]) -> bool {
    let subject =
        fields(certificate).and_then(|of| Some((of.issuer, element(SEQUENCE, of.from_subject)?.0)));
    subject.is_some_and(|(issuer, subject)| issuer == subject)
}

fn after_validity(certificate: &[u8]) -> Option<&[u8]> {
    Some(fields(certificate)?.from_subject)
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
    fn what_a_certificate_may_be_used_for_is_read() {
        let (authority, server) = (certificate!("authority"), certificate!("server"));
        assert!(is_of_an_authority(&authority) && !is_of_an_authority(&server));
        // Somebody else vouches for it.
        assert!(!is_of_an_authority(&certificate!("version-1")));
        assert!(is_self_issued(&authority) && !is_self_issued(&server));
        assert!(is_for_servers(&authority) && is_for_servers(&server));
        assert!(!constrains_names(&authority) && !constrains_names(&server));
        assert_eq!(extension(&authority, &[0x55, 0x1d, 0x7f]), None);
    }

    #[test]
    fn when_a_certificate_is_valid_is_read() {
        let year = |year: u64| {
            let seconds = (year - 1970) * 31_556_952;
            SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)
        };
        for certificate in [certificate!("authority"), certificate!("version-1")] {
            assert_eq!(is_valid_at(&certificate, year(1990)), Some(false));
            assert_eq!(is_valid_at(&certificate, year(2027)), Some(true));
            assert_eq!(is_valid_at(&certificate, year(9000)), Some(false));
        }
        let utc = |text: &str| {
            let der = [&[UTC_TIME, text.len() as u8], text.as_bytes()].concat();
            moment(&der).map(|(time, _)| time)
        };
        assert_eq!(utc("700101000000Z"), Some(SystemTime::UNIX_EPOCH));
        assert!(utc("491231235959Z") > utc("700101000000Z"));
        for wrong in [
            "700101000000",
            "7001010000Z",
            "701301000000Z",
            "+00101000000Z",
        ] {
            assert_eq!(utc(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nothing_is_read_beyond_the_end_of_a_certificate_that_is_cut() {
        for whole in [certificate!("server"), certificate!("version-1")] {
            for length in 0..whole.len() {
                let cut = &whole[..length];
                assert_eq!(end_point(cut), None, "{length}");
                assert_eq!(public_key(cut), None, "{length}");
                assert_eq!(common_name(cut), None, "{length}");
                assert_eq!(is_valid_at(cut, SystemTime::UNIX_EPOCH), None, "{length}");
                assert_eq!(extension(cut, BASIC_CONSTRAINTS), None, "{length}");
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
                    is_valid_at(&changed, SystemTime::UNIX_EPOCH),
                    is_of_an_authority(&changed),
                    is_for_servers(&changed),
                );
            }
        }
    }
}
