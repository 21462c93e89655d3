//! Packs: objects that hold chunks, one behind the other, after a header.
//!
//! ```text
//! 0 magic "WZPK"   4 version u8   5 content u8   6 unused u16   8 key epoch u32   12 unused u32
//! ```

use walzip_pgformat::bytes::read_u32;

/// Length of the header, in bytes.
pub(crate) const HEADER_LEN: usize = 16;
/// Bytes at which a pack is closed by default.
pub(crate) const PACK_BYTES: u64 = 64 << 20;

const MAGIC: [u8; 4] = *b"WZPK";
const VERSION: u8 = 1;
/// Chunks of a backup's files.
const BACKUP: u8 = 1;
/// The chunks are not encrypted.
const NO_KEY: u32 = 0;

/// The header of a pack of a backup's files.
pub(crate) fn header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&MAGIC);
    header[4] = VERSION;
    header[5] = BACKUP;
    header
}

/// Refuses what is no pack of a backup's files that this walzip can read.
pub(crate) fn check_header(header: &[u8]) -> Result<(), String> {
    let field = |at: usize| header.get(at).copied();
    if header.len() < HEADER_LEN || !header.starts_with(&MAGIC) {
        return Err("it is no pack".to_owned());
    }
    if field(4) != Some(VERSION) {
        let version = field(4).unwrap_or_default();
        return Err(format!(
            "version {version} of packs is not known to this walzip"
        ));
    }
    if field(5) != Some(BACKUP) {
        return Err("it is no pack of a backup's files".to_owned());
    }
    if read_u32(header, 8) != Some(NO_KEY) {
        return Err("it is encrypted, which this walzip does not read".to_owned());
    }
    match header.get(6..8) == Some(&[0; 2]) && read_u32(header, 12) == Some(0) {
        true => Ok(()),
        false => Err("its header has bytes that have to be zero".to_owned()),
    }
}

/// The name of a pack below its backup's label.
pub(crate) fn name(number: usize) -> String {
    format!("pack.{number:04}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_header_is_refused() {
        assert_eq!(check_header(&header()), Ok(()));
        for at in 0..HEADER_LEN {
            let mut changed = header();
            changed[at] ^= 4;
            assert!(check_header(&changed).is_err(), "byte {at}");
            assert!(check_header(&header()[..at]).is_err(), "{at} bytes");
        }
    }
}
