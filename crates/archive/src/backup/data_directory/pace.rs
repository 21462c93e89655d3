//! Reading no faster than was asked for.

use std::io::{self, Read};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes between two looks at the clock.
const PIECE_BYTES: usize = 64 << 10;

/// How many bytes were read since when.
pub(crate) struct Pace {
    /// Bytes a second.
    limit: Option<f64>,
    since: Instant,
    bytes: u64,
}

impl Pace {
    /// No limit, or kilobytes of 1024 bytes a second.
    pub(crate) fn new(limit_kilobytes: Option<u32>) -> Pace {
        Pace {
            limit: limit_kilobytes.map(|kilobytes| f64::from(kilobytes) * 1024.0),
            since: Instant::now(),
            bytes: 0,
        }
    }

    /// Waits until so many more bytes may have been read.
    fn keep(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if let Some(limit) = self.limit {
            let due = Duration::from_secs_f64(self.bytes as f64 / limit);
            thread::sleep(due.saturating_sub(self.since.elapsed()));
        }
    }
}

/// A reader that keeps the pace.
pub(super) struct Paced<'p, R> {
    pub(super) inner: &'p mut R,
    pub(super) pace: &'p mut Pace,
}

impl<R: Read> Read for Paced<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = match self.pace.limit {
            Some(_) => buffer.len().min(PIECE_BYTES),
            None => buffer.len(),
        };
        let (taken, _) = buffer.split_at_mut(len);
        let read = self.inner.read(taken)?;
        self.pace.keep(read);
        Ok(read)
    }
}
