//! What `walzip pack` would save: the newest segments that follow one another, encoded one by one, and each
//! told from those before it.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use walzip_codec::{HistoryDecoder, HistoryEncoder, Level, encode};
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::SegmentHeader;

use super::wal_survey::is_at;
use crate::cancel::Cancel;
use crate::error::Error;
use crate::input::segment_name;
use crate::progress::Progress;

/// Fewer segments tell nothing: what is known of pages is worth something when they come back.
pub(super) const SEGMENTS_MIN: usize = 8;
/// More are not encoded: each takes some tenths of a second, and what is known of pages takes memory.
const SEGMENTS_MAX: usize = 32;

/// What some segments take one by one, and in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Packing {
    /// How many follow one another.
    pub segments: usize,
    /// walzip's level for both.
    pub level: u8,
    /// Bytes of the segments.
    pub original_bytes: u64,
    /// What they take one by one.
    pub single_bytes: u64,
    /// What they take in a pack.
    pub packed_bytes: u64,
    /// What the second half of them takes one by one.
    pub later_single_bytes: u64,
    /// What the second half of them takes in a pack.
    pub later_packed_bytes: u64,
    /// Seconds that packing one takes, its proof included.
    pub seconds: f64,
}

impl Packing {
    /// Encodes the newest of these files, oldest first, that follow one another; nothing where they are too few.
    pub(super) fn measure(
        looked_at: &[PathBuf],
        cancel: &Cancel,
        progress: &mut impl Progress,
    ) -> Result<Option<Packing>, Error> {
        let newest = newest_run(looked_at);
        if newest.len() < SEGMENTS_MIN {
            return Ok(None);
        }
        let level = Level::default();
        let mut encoder = HistoryEncoder::new(level);
        let mut files = Vec::new();
        let mut packing = Packing {
            segments: 0,
            level: level.get(),
            original_bytes: 0,
            single_bytes: 0,
            packed_bytes: 0,
            later_single_bytes: 0,
            later_packed_bytes: 0,
            seconds: 0.0,
        };
        for (number, path) in newest.iter().enumerate() {
            if cancel.is_requested() {
                return Err(Error::Interrupted);
            }
            let segment = match fs::read(path) {
                Ok(segment) => segment,
                // A server renames its segments when they are archived and old: the next ones count.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(source) => return Err(Error::file(path, source)),
            };
            let single = encode(&segment, level);
            let since = Instant::now();
            let packed = encoder.encode(&segment);
            packing.seconds += since.elapsed().as_secs_f64();
            let (single, packed) = match (single, packed) {
                (Ok(single), Ok(packed)) => {
                    let lens = (single.len() as u64, packed.len() as u64);
                    files.push(packed);
                    lens
                }
                (Err(error), _) | (_, Err(error)) => {
                    progress.note(&format!("{} was not encoded: {error}", path.display()));
                    break;
                }
            };
            packing.segments += 1;
            packing.original_bytes += segment.len() as u64;
            packing.single_bytes += single;
            packing.packed_bytes += packed;
            if number >= newest.len() / 2 {
                packing.later_single_bytes += single;
                packing.later_packed_bytes += packed;
            }
        }
        // Its memory goes before the decoder takes as much.
        drop(encoder);
        packing.seconds += seconds_to_decode(&files);
        packing.seconds /= packing.segments.max(1) as f64;
        Ok((packing.segments >= SEGMENTS_MIN).then_some(packing))
    }

    /// The size in a pack, of that one by one.
    pub(super) fn ratio(&self) -> f64 {
        self.packed_bytes as f64 / (self.single_bytes as f64).max(1.0)
    }

    /// The same of the second half.
    pub(super) fn later_ratio(&self) -> f64 {
        self.later_packed_bytes as f64 / (self.later_single_bytes as f64).max(1.0)
    }
}

/// The time that it takes to decode files in their order, which is the proof of a pack.
fn seconds_to_decode(files: &[Vec<u8>]) -> f64 {
    let mut decoder = HistoryDecoder::new();
    let since = Instant::now();
    for file in files {
        if decoder.decode(file, &mut std::io::sink()).is_err() {
            break;
        }
    }
    since.elapsed().as_secs_f64()
}

/// The newest segments that follow one another, oldest first.
fn newest_run(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut run = Vec::new();
    let mut next: Option<SegmentHeader> = None;
    for path in paths.iter().rev() {
        let Some(header) = header(path).filter(|header| is_at(&segment_name(path), header)) else {
            break;
        };
        let follows = next.is_none_or(|next| {
            header.start.0.checked_add(header.segment_size.into()) == Some(next.start.0)
                && header.system_id == next.system_id
        });
        if !follows || run.len() == SEGMENTS_MAX {
            break;
        }
        next = Some(header);
        run.push(path.clone());
    }
    run.reverse();
    run
}

fn header(path: &Path) -> Option<SegmentHeader> {
    let mut beginning = Vec::new();
    let file = File::open(path).ok()?;
    file.take(PAGE_SIZE as u64)
        .read_to_end(&mut beginning)
        .ok()?;
    SegmentHeader::read(&beginning).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    const SIZE: u32 = 1 << 20;

    /// Writes a segment that has nothing but its first page's header.
    fn write(directory: &Path, number: u32, system_id: u64) -> PathBuf {
        let mut bytes = Vec::new();
        bytes.extend(0xD110_u16.to_le_bytes());
        bytes.extend(2_u16.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(u64::from(number * SIZE).to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(system_id.to_le_bytes());
        bytes.extend(SIZE.to_le_bytes());
        bytes.extend(8192_u32.to_le_bytes());
        bytes.resize(SIZE as usize, 0);
        let path = directory.join(format!("0000000100000000{number:08X}"));
        fs::write(&path, bytes).expect("written");
        path
    }

    #[test]
    fn the_newest_segments_that_follow_one_another_are_packed() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut paths: Vec<PathBuf> = [1, 2, 3, 7, 8, 9, 10, 11, 12, 13, 14]
            .map(|number| write(directory.path(), number, 5))
            .to_vec();
        let measure = |paths: &[PathBuf]| {
            Packing::measure(paths, &Cancel::default(), &mut Silent).expect("measured")
        };
        let packing = measure(&paths).expect("enough of them");
        assert_eq!(packing.segments, 8);
        assert_eq!(packing.original_bytes, 8 << 20);
        assert!(packing.later_single_bytes * 2 == packing.single_bytes);
        assert!(packing.packed_bytes > 0 && packing.ratio() > 0.0);
        // Of another cluster, or of another position than its name says.
        paths.push(write(directory.path(), 15, 6));
        assert_eq!(measure(&paths), None);
        paths.pop();
        fs::rename(
            &paths[10],
            directory.path().join("00000001000000000000000F"),
        )
        .expect("renamed");
        paths[10] = directory.path().join("00000001000000000000000F");
        assert_eq!(measure(&paths), None);
        assert_eq!(measure(&[]), None);
    }
}
