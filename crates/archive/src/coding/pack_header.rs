//! The header of packs: objects that hold what was encoded, one behind the other.
//!
//! ```text
//! 0 magic "WZPK"   4 version u8   5 content u8   6 unused u16   8 key epoch u32   12 unused u32
//! ```

use walzip_pgformat::bytes::read_u32;

/// Length of the header, in bytes.
pub(crate) const HEADER_LEN: usize = 16;

const MAGIC: [u8; 4] = *b"WZPK";
/// What it holds is not encrypted: a store may encrypt all of it.
const NO_KEY: u32 = 0;

/// What a pack holds. The number is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Chunks of a backup's files.
    Backup = 1,
    /// Segments of WAL.
    Wal = 2,
}

impl Content {
    fn noun(self) -> &'static str {
        match self {
            Content::Backup => "a backup's files",
            Content::Wal => "WAL",
        }
    }

    /// The version that is written. Those before it are read.
    pub(crate) fn version(self) -> u8 {
        match self {
            Content::Backup => 1,
            Content::Wal => 3,
        }
    }
}

/// The header of a pack.
pub(crate) fn header(content: Content) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&MAGIC);
    header[4] = content.version();
    header[5] = content as u8;
    header
}

/// The version of a pack of this content. Refuses what this walzip cannot read.
pub(crate) fn check_header(header: &[u8], content: Content) -> Result<u8, String> {
    let field = |at: usize| header.get(at).copied();
    if header.len() < HEADER_LEN || !header.starts_with(&MAGIC) {
        return Err("it is no pack".to_owned());
    }
    let version = field(4).unwrap_or_default();
    if version == 0 || version > content.version() {
        return Err(format!(
            "version {version} of packs is not known to this walzip"
        ));
    }
    if field(5) != Some(content as u8) {
        return Err(format!("it is no pack of {}", content.noun()));
    }
    if read_u32(header, 8) != Some(NO_KEY) {
        return Err("it is encrypted, which this walzip does not read".to_owned());
    }
    match header.get(6..8) == Some(&[0; 2]) && read_u32(header, 12) == Some(0) {
        true => Ok(version),
        false => Err("its header has bytes that have to be zero".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_header_is_refused() {
        for content in [Content::Backup, Content::Wal] {
            let version = content.version();
            assert_eq!(check_header(&header(content), content), Ok(version));
            for at in 0..HEADER_LEN {
                let mut changed = header(content);
                changed[at] ^= 4;
                assert!(check_header(&changed, content).is_err(), "byte {at}");
                let short = &header(content)[..at];
                assert!(check_header(short, content).is_err(), "{at} bytes");
            }
        }
        let other = header(Content::Backup);
        assert!(check_header(&other, Content::Wal).is_err());
    }
}
