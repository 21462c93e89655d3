//! The bytes of an encrypted object: a header, and the content in sealed pieces.
//!
//! Specified in `docs/format/encryption.md`. Each object has a key of its own, which depends on
//! the key of its epoch, on a salt, and on the object's name in its repository. So an object that
//! lies under another name than it was made for cannot be taken for that one, and no nonce is used
//! twice.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf;
use ring::rand::{SecureRandom, SystemRandom};

use super::epochs::EpochKey;
use crate::error::encryption::SealError;

/// The first bytes of an encrypted object. The first one is not ASCII, so no text begins so.
pub const MAGIC: [u8; 8] = *b"\x89WZENC\r\n";
/// The version of the format.
pub const VERSION: u8 = 1;
/// Bytes of the header.
pub const HEADER_LEN: usize = 96;
/// Bytes of content in each piece but the last one.
pub const PIECE_LEN: usize = 64 << 10;
/// Bytes by which a piece is longer than its content.
pub const TAG_LEN: usize = 16;

const SALT_LEN: usize = 32;
const CHECK_LEN: usize = 16;
const COMMITMENT_LEN: usize = 32;
/// Where the parts of the header begin.
const VERSION_AT: usize = 8;
const EPOCH_AT: usize = 12;
const SALT_AT: usize = 16;
const CHECK_AT: usize = 48;
const COMMITMENT_AT: usize = 64;

/// The header of an encrypted object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header(pub [u8; HEADER_LEN]);

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header")
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

impl Header {
    /// Reads the header at the beginning of an object.
    pub fn read(object: &[u8]) -> Result<Header, SealError> {
        let magic_is_there = object.starts_with(&MAGIC) || MAGIC.starts_with(object);
        match object.first_chunk::<HEADER_LEN>() {
            _ if !magic_is_there => Err(SealError::Plaintext),
            None => Err(SealError::Tampered),
            Some(header) => match header.get(VERSION_AT) {
                Some(&VERSION) => Ok(Header(*header)),
                Some(&version) if version > VERSION => Err(SealError::Newer(version)),
                _ => Err(SealError::Tampered),
            },
        }
    }

    /// The epoch whose key is needed.
    pub fn epoch(&self) -> u32 {
        u32::from_le_bytes(self.part(EPOCH_AT))
    }

    fn part<const LEN: usize>(&self, at: usize) -> [u8; LEN] {
        let part = self.0.get(at..).and_then(<[u8]>::first_chunk);
        part.copied().unwrap_or([0; LEN])
    }

    fn set(&mut self, at: usize, part: &[u8]) {
        if let Some(place) = self.0.get_mut(at..at + part.len()) {
            place.copy_from_slice(part);
        }
    }
}

/// What encrypts or decrypts the pieces of one object.
pub struct Sealer {
    header: Header,
    key: LessSafeKey,
}

impl Sealer {
    /// Begins an object of a name, with a new salt.
    pub fn new(epoch: &EpochKey, name: &str) -> Result<Sealer, SealError> {
        let mut salt = [0; SALT_LEN];
        let filled = SystemRandom::new().fill(&mut salt);
        filled.map_err(|_| SealError::Failed)?;
        Sealer::with_salt(epoch, name, salt)
    }

    pub(super) fn with_salt(
        epoch: &EpochKey,
        name: &str,
        salt: [u8; SALT_LEN],
    ) -> Result<Sealer, SealError> {
        let mut header = Header([0; HEADER_LEN]);
        header.set(0, &MAGIC);
        header.set(VERSION_AT, &[VERSION]);
        header.set(EPOCH_AT, &epoch.number.to_le_bytes());
        header.set(SALT_AT, &salt);
        let derived = Derived::of(epoch, name, salt)?;
        header.set(CHECK_AT, &derived.check);
        header.set(COMMITMENT_AT, &derived.commitment);
        let key = derived.key;
        Ok(Sealer { header, key })
    }

    /// Makes ready to read an object of a name.
    pub fn open(epoch: &EpochKey, name: &str, header: Header) -> Result<Sealer, SealError> {
        let derived = Derived::of(epoch, name, header.part(SALT_AT))?;
        if derived.check != header.part::<CHECK_LEN>(CHECK_AT) {
            return Err(SealError::WrongKey(epoch.number));
        }
        if derived.commitment != header.part::<COMMITMENT_LEN>(COMMITMENT_AT) {
            return Err(SealError::Swapped);
        }
        let key = derived.key;
        Ok(Sealer { header, key })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Appends a sealed piece: all but the last one have [`PIECE_LEN`] bytes of content.
    pub fn seal(
        &self,
        number: u32,
        is_last: bool,
        content: &[u8],
        sealed: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        let start = sealed.len();
        sealed.extend_from_slice(content);
        let piece = sealed.get_mut(start..).ok_or(SealError::Failed)?;
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce(number, is_last), Aad::from(&self.header.0), piece)
            .map_err(|_| SealError::Failed)?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// Decrypts a piece where it lies; returns its content.
    pub fn unseal<'p>(
        &self,
        number: u32,
        is_last: bool,
        piece: &'p mut [u8],
    ) -> Result<&'p mut [u8], SealError> {
        self.key
            .open_in_place(nonce(number, is_last), Aad::from(&self.header.0), piece)
            .map_err(|_| SealError::Tampered)
    }
}

/// What follows from the key of an epoch for one object.
struct Derived {
    check: [u8; CHECK_LEN],
    commitment: [u8; COMMITMENT_LEN],
    key: LessSafeKey,
}

impl Derived {
    fn of(epoch: &EpochKey, name: &str, salt: [u8; SALT_LEN]) -> Result<Derived, SealError> {
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(&epoch.key);
        let of_object = [epoch.repository.as_slice(), name.as_bytes()];
        let mut check = [0; CHECK_LEN];
        let mut commitment = [0; COMMITMENT_LEN];
        let mut key = [0; 32];
        expand(&prk, &[b"walzip epoch"], &mut check)?;
        let with = |purpose| [purpose, of_object[0], of_object[1]];
        expand(&prk, &with(b"walzip name "), &mut commitment)?;
        expand(&prk, &with(b"walzip key  "), &mut key)?;
        let unbound = UnboundKey::new(&AES_256_GCM, &key).map_err(|_| SealError::Failed);
        zeroize::Zeroize::zeroize(&mut key);
        Ok(Derived {
            check,
            commitment,
            key: LessSafeKey::new(unbound?),
        })
    }
}

fn expand(prk: &hkdf::Prk, info: &[&[u8]], output: &mut [u8]) -> Result<(), SealError> {
    struct Len(usize);
    impl hkdf::KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    prk.expand(info, Len(output.len()))
        .and_then(|okm| okm.fill(output))
        .map_err(|_| SealError::Failed)
}

/// No two pieces of an object have the same one, and the last one's cannot be another's.
fn nonce(number: u32, is_last: bool) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    let number = number.to_be_bytes();
    for (byte, of_number) in nonce.iter_mut().skip(NONCE_LEN - 5).zip(number) {
        *byte = of_number;
    }
    if let Some(last) = nonce.last_mut() {
        *last = u8::from(is_last);
    }
    Nonce::assume_unique_for_key(nonce)
}

/// Bytes of the content of an encrypted object of this length.
pub fn content_len(object_len: u64) -> Result<u64, SealError> {
    let wrong = SealError::Length(object_len);
    let pieces_len = object_len.checked_sub(HEADER_LEN as u64).ok_or(wrong)?;
    let whole = (PIECE_LEN + TAG_LEN) as u64;
    // An object without content has one piece, and no other piece is empty.
    let rest = pieces_len % whole;
    let is_empty_rest = rest == TAG_LEN as u64 && pieces_len > rest;
    if pieces_len == 0 || (rest > 0 && rest < TAG_LEN as u64) || is_empty_rest {
        return Err(wrong);
    }
    Ok(pieces_len - pieces_len.div_ceil(whole) * TAG_LEN as u64)
}

/// How many pieces content of this length has.
pub fn pieces(content_len: u64) -> u64 {
    content_len.div_ceil(PIECE_LEN as u64).max(1)
}

/// Encrypts a whole object.
pub fn seal_whole(epoch: &EpochKey, name: &str, content: &[u8]) -> Result<Vec<u8>, SealError> {
    let sealer = Sealer::new(epoch, name)?;
    let pieces = pieces(content.len() as u64) as usize;
    let mut sealed = Vec::with_capacity(HEADER_LEN + content.len() + pieces * TAG_LEN);
    sealed.extend_from_slice(&sealer.header.0);
    for number in 0..pieces {
        let start = number * PIECE_LEN;
        let end = content.len().min(start + PIECE_LEN);
        let piece = content.get(start..end).unwrap_or_default();
        let index = u32::try_from(number).map_err(|_| SealError::Failed)?;
        sealer.seal(index, number + 1 == pieces, piece, &mut sealed)?;
    }
    Ok(sealed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(key: u8) -> EpochKey {
        EpochKey {
            repository: [7; 16],
            number: 3,
            key: [key; 32],
        }
    }

    fn open(object: &[u8], epoch: &EpochKey, name: &str) -> Result<Vec<u8>, SealError> {
        let sealer = Sealer::open(epoch, name, Header::read(object)?)?;
        content_len(object.len() as u64)?;
        let mut content = Vec::new();
        let mut pieces: Vec<Vec<u8>> = object[HEADER_LEN..]
            .chunks(PIECE_LEN + TAG_LEN)
            .map(<[u8]>::to_vec)
            .collect();
        let last = pieces.len() - 1;
        for (number, piece) in pieces.iter_mut().enumerate() {
            content.extend_from_slice(sealer.unseal(number as u32, number == last, piece)?);
        }
        Ok(content)
    }

    #[test]
    fn each_length_comes_back() {
        for len in [
            0,
            1,
            100,
            PIECE_LEN - 1,
            PIECE_LEN,
            PIECE_LEN + 1,
            3 * PIECE_LEN,
        ] {
            let content: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let object = seal_whole(&epoch(1), "wal/a", &content).expect("sealed");
            assert_eq!(content_len(object.len() as u64), Ok(len as u64));
            assert_eq!(open(&object, &epoch(1), "wal/a"), Ok(content));
        }
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let content = vec![5; 2 * PIECE_LEN + 9];
        let object = seal_whole(&epoch(1), "wal/a", &content).expect("sealed");
        assert_eq!(
            open(&object, &epoch(2), "wal/a"),
            Err(SealError::WrongKey(3))
        );
        assert_eq!(open(&object, &epoch(1), "wal/b"), Err(SealError::Swapped));
        let mut of_another = epoch(1);
        of_another.repository = [8; 16];
        assert_eq!(open(&object, &of_another, "wal/a"), Err(SealError::Swapped));
        assert_eq!(Header::read(b"{}").err(), Some(SealError::Plaintext));
        assert_eq!(Header::read(&object[..50]).err(), Some(SealError::Tampered));
        let mut newer = object.clone();
        newer[VERSION_AT] = 2;
        assert_eq!(Header::read(&newer).err(), Some(SealError::Newer(2)));
        // Cut at a piece's end, pieces exchanged, a bit of each part of the object.
        let piece = PIECE_LEN + TAG_LEN;
        let cut = &object[..HEADER_LEN + 2 * piece];
        assert_eq!(open(cut, &epoch(1), "wal/a"), Err(SealError::Tampered));
        let mut exchanged = object.clone();
        exchanged[HEADER_LEN..HEADER_LEN + 2 * piece].rotate_left(piece);
        assert_eq!(
            open(&exchanged, &epoch(1), "wal/a"),
            Err(SealError::Tampered)
        );
        for at in (0..object.len()).step_by(997).chain(0..HEADER_LEN) {
            let mut flipped = object.clone();
            flipped[at] ^= 0x10;
            assert!(open(&flipped, &epoch(1), "wal/a").is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_length_that_cannot_be_is_refused() {
        let piece = (PIECE_LEN + TAG_LEN) as u64;
        let header = HEADER_LEN as u64;
        for len in [
            0,
            header - 1,
            header,
            header + 15,
            header + piece + 3,
            header + piece + 16,
        ] {
            assert_eq!(content_len(len), Err(SealError::Length(len)));
        }
        assert_eq!(content_len(header + 16), Ok(0));
    }

    #[test]
    fn the_same_content_never_becomes_the_same_object() {
        let seal = || seal_whole(&epoch(1), "wal/a", b"content").expect("sealed");
        assert_ne!(seal(), seal());
    }
}
