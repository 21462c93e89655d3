//! Values as the server compresses them (access/common/toast_compression.c, varatt.h).
//!
//! ```text
//! 0 va_tcinfo u32: length of the value in the low 30 bits, method in the others   4 compressed bytes
//! ```

use walzip_pgformat::pglz;

use super::lz4_block;
use super::trust::Trust;
use crate::limits::{COMPRESSED_LZ4_MAX, COMPRESSED_VALUE_MAX};

/// Bytes of `va_tcinfo`.
pub const INFO_LEN: usize = 4;
/// `VARLENA_EXTSIZE_BITS`: bits of the length of the value. Before 14 the others were 0, as they are with pglz.
const LEN_BITS: u32 = 30;
/// `TOAST_PGLZ_COMPRESSION_ID`.
const PGLZ_ID: u32 = 0;
/// `TOAST_LZ4_COMPRESSION_ID`.
const LZ4_ID: u32 = 1;

/// What compresses a value. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// pglz where `char` is signed.
    PglzSigned = 1,
    /// pglz where `char` is unsigned.
    PglzUnsigned = 2,
    /// LZ4.
    Lz4 = 3,
}

impl Method {
    /// The method with this number.
    pub fn of(number: u8) -> Option<Method> {
        const ALL: [Method; 3] = [Method::PglzSigned, Method::PglzUnsigned, Method::Lz4];
        ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    fn id(self) -> u32 {
        match self {
            Method::PglzSigned | Method::PglzUnsigned => PGLZ_ID,
            Method::Lz4 => LZ4_ID,
        }
    }

    /// Bytes of a value that it compresses.
    fn len_max(self) -> usize {
        match self {
            Method::PglzSigned | Method::PglzUnsigned => COMPRESSED_VALUE_MAX,
            Method::Lz4 => COMPRESSED_LZ4_MAX,
        }
    }

    /// The other compressor that may have made the same.
    fn other(self) -> Option<Method> {
        match self {
            Method::PglzSigned => Some(Method::PglzUnsigned),
            Method::PglzUnsigned => Some(Method::PglzSigned),
            Method::Lz4 => None,
        }
    }
}

/// Takes compressed values apart, and makes them again.
#[derive(Debug)]
pub struct Values {
    pglz: Option<pglz::Compressor>,
    packed: Vec<u8>,
    /// What has made the last value of pglz.
    likely: Method,
    trust_in_pglz: Trust,
    trust_in_lz4: Trust,
}

impl Values {
    /// Knows of no value yet. With `by_other` it first tries the pglz that a server on a machine like this one does not have.
    pub fn new(by_other: bool) -> Values {
        const CHAR_IS_SIGNED: bool = std::ffi::c_char::MIN != 0;
        Values {
            pglz: None,
            packed: Vec::new(),
            likely: match CHAR_IS_SIGNED != by_other {
                true => Method::PglzSigned,
                false => Method::PglzUnsigned,
            },
            trust_in_pglz: Trust::default(),
            trust_in_lz4: Trust::default(),
        }
    }

    /// The length of the value that these bytes may be, compressed. `None` where no server would write them.
    pub fn len_of(bytes: &[u8]) -> Option<usize> {
        let info = info_of(bytes);
        let len = (info & ((1 << LEN_BITS) - 1)) as usize;
        let is_smaller = bytes.len() > INFO_LEN && bytes.len() < len + INFO_LEN;
        let method = match info >> LEN_BITS {
            PGLZ_ID => Method::PglzSigned,
            LZ4_ID => Method::Lz4,
            _ => return None,
        };
        (is_smaller && len <= method.len_max()).then_some(len)
    }

    /// Appends the value that these bytes are, compressed, and returns what compresses it again. Where nothing
    /// does, returns `None`, and what was appended is worth nothing. If a proof comes `later`, not each is tried.
    pub fn take_apart(&mut self, bytes: &[u8], out: &mut Vec<u8>, later: bool) -> Option<Method> {
        let len = Values::len_of(bytes)?;
        let packed = bytes.get(INFO_LEN..)?;
        let start = out.len();
        out.resize(start + len, 0);
        let value = out.get_mut(start..)?;
        let is_lz4 = info_of(bytes) >> LEN_BITS == LZ4_ID;
        match is_lz4 {
            true => lz4_block::decompress(packed, value).filter(|&written| written == len)?,
            false => pglz::decompress(packed, value).ok().map(|()| len)?,
        };
        let (likely, trust) = match is_lz4 {
            true => (Method::Lz4, &mut self.trust_in_lz4),
            false => (self.likely, &mut self.trust_in_pglz),
        };
        if later && trust.is_earned() {
            return Some(likely);
        }
        let value = &out[start..];
        let found = self.find(bytes, value, likely, later);
        if !is_lz4 {
            self.likely = found.unwrap_or(self.likely);
        }
        found
    }

    /// Which method makes these bytes of the value.
    fn find(&mut self, bytes: &[u8], value: &[u8], likely: Method, later: bool) -> Option<Method> {
        if self.makes(likely, value, bytes) {
            let told_apart = match likely.other() {
                Some(other) if later && !self.trust_in_pglz.is_told_apart() => {
                    !self.makes(other, value, bytes)
                }
                Some(_) => false,
                None => true,
            };
            self.trust_in(likely).grow(told_apart);
            return Some(likely);
        }
        *self.trust_in(likely) = Trust::default();
        let other = likely.other()?;
        let fits = self.makes(other, value, bytes);
        fits.then(|| {
            self.trust_in(other).grow(true);
            other
        })
    }

    fn trust_in(&mut self, method: Method) -> &mut Trust {
        match method.id() {
            LZ4_ID => &mut self.trust_in_lz4,
            _ => &mut self.trust_in_pglz,
        }
    }

    fn makes(&mut self, method: Method, value: &[u8], bytes: &[u8]) -> bool {
        compress(method, value, &mut self.pglz, &mut self.packed)
            && bytes.get(INFO_LEN..) == Some(&self.packed)
    }
}

/// What the server stores of a value. `None` where this method does not compress it. No work space is kept: a member may
/// have many columns of compressed values.
pub fn put_together(method: Method, value: &[u8]) -> Option<Vec<u8>> {
    if value.len() > method.len_max() {
        return None;
    }
    let len = u32::try_from(value.len()).ok()?;
    let mut packed = Vec::new();
    if !compress(method, value, &mut None, &mut packed) {
        return None;
    }
    let mut bytes = Vec::with_capacity(INFO_LEN + packed.len());
    bytes.extend_from_slice(&(len | method.id() << LEN_BITS).to_le_bytes());
    bytes.extend_from_slice(&packed);
    Some(bytes)
}

/// Replaces `packed` by the compressed bytes of a value, without what stands before them. Returns whether the method compresses it.
fn compress(
    method: Method,
    value: &[u8],
    pglz: &mut Option<pglz::Compressor>,
    packed: &mut Vec<u8>,
) -> bool {
    packed.clear();
    let sign = match method {
        Method::PglzSigned => pglz::CharSign::Signed,
        Method::PglzUnsigned => pglz::CharSign::Unsigned,
        Method::Lz4 => return lz4_block::compress(value, packed),
    };
    pglz.get_or_insert_default().compress(value, packed, sign)
}

/// `va_tcinfo`, 0 where there is none.
fn info_of(bytes: &[u8]) -> u32 {
    let info = bytes.first_chunk();
    info.map_or(0, |info| u32::from_le_bytes(*info))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_method_gives_the_value_back_and_is_found_again() {
        let words = (0..900u32).map(|number| format!("\u{e9}t\u{e9} {} ", number * number % 97));
        let value = words.collect::<String>().into_bytes();
        for method in [Method::PglzSigned, Method::PglzUnsigned, Method::Lz4] {
            let bytes = put_together(method, &value);
            let bytes = bytes.unwrap();
            for (by_other, later) in [(false, false), (false, true), (true, true)] {
                let (mut values, mut out) = (Values::new(by_other), b"before".to_vec());
                for _ in 0..100 {
                    out.truncate(6);
                    // Both kinds of pglz make the same of most values.
                    let found = values.take_apart(&bytes, &mut out, later).unwrap();
                    assert_eq!(put_together(found, &out[6..]), Some(bytes.clone()));
                }
                assert_eq!(out, [b"before", value.as_slice()].concat());
            }
            let cut = &bytes[..bytes.len() - 1];
            let taken = Values::new(false).take_apart(cut, &mut Vec::new(), false);
            assert_eq!(taken, None);
        }
    }

    #[test]
    fn what_no_server_writes_is_not_taken_apart() {
        assert_eq!(Values::len_of(b""), None);
        assert_eq!(Values::len_of(&[9, 0, 0, 0]), None);
        assert_eq!(Values::len_of(&[9, 0, 0, 0, 1, 2]), Some(9));
        assert_eq!(Values::len_of(&[2, 0, 0, 0, 1, 2]), None);
        assert_eq!(Values::len_of(&[9, 0, 0, 0x40, 1, 2]), Some(9));
        assert_eq!(Values::len_of(&[9, 0, 0, 0x80, 1, 2]), None);
        let too_long = (COMPRESSED_VALUE_MAX as u32 + 1).to_le_bytes();
        assert_eq!(Values::len_of(&[&too_long[..], &[1, 2]].concat()), None);
    }

    /// What one compressor makes with other matches than the server's is not taken apart.
    #[test]
    fn what_no_method_makes_again_is_not_taken_apart() {
        let literals = [
            &[40u8, 0, 0, 0][..],
            &[0],
            b"aaaaaaaa",
            &[0x0E, b'a', 0x0F, 1, 12],
        ]
        .concat();
        let mut out = Vec::new();
        assert_eq!(
            Values::new(false).take_apart(&literals, &mut out, false),
            None
        );
    }
}
