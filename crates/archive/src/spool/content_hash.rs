//! The hash of a file in the spool: HighwayHash, of 256 bits, without a key.
//!
//! It tells what was damaged or cut, and not what was forged: only this user can write there. A
//! recovery waits for it, and it takes less time than BLAKE3.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};

use highway::{HighwayHash, HighwayHasher};

const BUFFER_LEN: usize = 256 << 10;

/// The hash in hexadecimal digits, and how many bytes there are, of which at most so many are read.
pub(super) fn of_file(file: File, len_max: u64) -> io::Result<(String, u64)> {
    let mut file = file.take(len_max);
    let mut hasher = HighwayHasher::default();
    let mut buffer = vec![0; BUFFER_LEN];
    let mut len = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((hexadecimal(hasher.finalize256()), len)),
            read => {
                hasher.append(&buffer[..read]);
                len += read as u64;
            }
        }
    }
}

fn hexadecimal(words: [u64; 4]) -> String {
    words.iter().fold(String::new(), |mut text, word| {
        let _ = write!(text, "{word:016x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(bytes: &[u8], len_max: u64) -> (String, u64) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        of_file(File::open(file.path()).expect("opened"), len_max).expect("read")
    }

    #[test]
    fn every_byte_counts_and_no_byte_beyond_the_limit() {
        let bytes: Vec<u8> = (0..BUFFER_LEN * 2 + 5).map(|at| (at % 251) as u8).collect();
        let (hash, len) = hash_of(&bytes, u64::MAX);
        assert_eq!((hash.len(), len), (64, bytes.len() as u64));
        for at in [0, BUFFER_LEN - 1, BUFFER_LEN, bytes.len() - 1] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(hash_of(&other, u64::MAX).0, hash, "{at}");
        }
        assert_ne!(hash_of(&bytes[..bytes.len() - 1], u64::MAX).0, hash);
        assert_eq!(hash_of(&bytes, 3), hash_of(&bytes[..3], u64::MAX));
    }
}
