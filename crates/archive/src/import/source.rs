//! A WAL file in another archive, by its name.

use std::path::{Path, PathBuf};

use walzip_pgformat::wal_file_name::WalFileName;

/// What stands behind the names of compressed files.
pub(super) const SUFFIXES: [&str; 8] = ["gz", "lz4", "zst", "bz2", "xz", "lzma", "br", "wz"];

/// A WAL file in the other archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// Its size as it is there.
    pub(crate) size_bytes: u64,
    pub(crate) name: WalFileName,
    /// The hash of its content that pgBackRest put into its name.
    pub(crate) sha1: Option<[u8; 20]>,
    /// What its name says of its compression.
    pub(crate) suffix: Option<&'static str>,
}

impl Source {
    /// Reads a file's name; nothing where it is none of a WAL file.
    pub(crate) fn named(path: &Path, file_name: &str, size_bytes: u64) -> Option<Source> {
        let split = SUFFIXES.iter().find_map(|&suffix| {
            let stem = file_name.strip_suffix(suffix)?.strip_suffix('.')?;
            Some((stem, Some(suffix)))
        });
        let (stem, suffix) = split.unwrap_or((file_name, None));
        let (stem, sha1) = match stem.rsplit_once('-') {
            Some((stem, sum)) => (stem, Some(sha1(sum)?)),
            None => (stem, None),
        };
        Some(Source {
            path: path.to_owned(),
            size_bytes,
            name: stem.parse().ok()?,
            sha1,
            suffix,
        })
    }

    /// A history says what the segments after it belong to.
    pub(crate) fn is_history(&self) -> bool {
        matches!(self.name, WalFileName::History(_))
    }
}

fn sha1(text: &str) -> Option<[u8; 20]> {
    let mut sum = [0; 20];
    if text.len() != 2 * sum.len() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in sum.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(sum)
}
