//! Streams as the encoder filled them, out of content: the layouts of some are undone in place, the
//! others are decoded behind them. Each is a task by itself, so that two threads can share them.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Mutex, PoisonError};

use super::bins::{self, Scratch};
use super::directory::{Entry, read_directory};
use super::layout::Layout;
use crate::error::{DecodeError, NO_MEMORY};
use crate::format_version::FormatVersion;
use crate::run_both::{RunBoth, run_in_turn};

/// The directory says what no encoder says.
pub const BAD_DIRECTORY: DecodeError = DecodeError::Corrupt("directory of streams");
const TOO_MUCH: DecodeError = DecodeError::Corrupt("more streams than the member can have");

/// Fewer bytes are not worth a second thread.
const SHARED_FROM: usize = 1 << 20;

/// Undoes the layouts of all streams; returns where each one is, and for each kind the number of the
/// first one. The directory and all streams may have `len_max` bytes together.
pub fn unpack(
    content: &mut Vec<u8>,
    format: FormatVersion,
    len_max: usize,
    run_both: RunBoth,
) -> Result<(Vec<Entry>, Vec<usize>), DecodeError> {
    let (mut streams, next) = read_directory(content, content.len()).ok_or(BAD_DIRECTORY)?;
    let layouts = streams.iter().map(|stream| Layout::from_id(stream.layout));
    let layouts: Option<Vec<Layout>> = layouts.collect();
    let layouts = layouts.ok_or(BAD_DIRECTORY)?;
    // The coded streams follow all others.
    let first_coded = streams.iter().zip(&layouts).find(|(_, l)| l.is_coded());
    let coded_start = first_coded.map_or(content.len(), |(stream, _)| stream.at);
    if first_coded.is_some() && !format.has_coded_streams() {
        return Err(BAD_DIRECTORY);
    }
    let coded = content.split_off(coded_start);
    let parts = place_decoded(&mut streams, &layouts, &coded, coded_start)?;
    let end = streams.iter().map(|stream| stream.end).max();
    let end = end.unwrap_or(coded_start).max(coded_start);
    if !parts.is_empty() && end > len_max {
        return Err(TOO_MUCH);
    }
    content
        .try_reserve_exact(end - coded_start)
        .map_err(|_| NO_MEMORY)?;
    content.resize(end, 0);
    let tasks = tasks(content, &streams, &layouts, parts, format).ok_or(BAD_DIRECTORY)?;
    let run_both = match end < SHARED_FROM {
        true => run_in_turn,
        false => run_both,
    };
    run(tasks, run_both)?;
    Ok((streams, next))
}

/// Gives the coded streams their places behind the others; returns the bytes of each one.
fn place_decoded<'c>(
    streams: &mut [Entry],
    layouts: &[Layout],
    mut coded: &'c [u8],
    coded_start: usize,
) -> Result<Vec<&'c [u8]>, DecodeError> {
    let mut parts = Vec::new();
    let mut end = coded_start;
    let pairs = streams.iter_mut().zip(layouts);
    for (stream, _) in pairs.filter(|(_, layout)| layout.is_coded()) {
        let part = coded.split_off(..stream.end.saturating_sub(stream.at));
        let part = part.ok_or(BAD_DIRECTORY)?;
        let len = bins::claimed_len(part, usize::from(stream.width))?;
        stream.at = end;
        end = end.checked_add(len).ok_or(TOO_MUCH)?;
        stream.end = end;
        parts.push(part);
    }
    Ok(parts)
}

/// What is to be done for a stream.
struct Task<'c> {
    layout: Layout,
    width: usize,
    /// Rows that are laid out together.
    block_rows: usize,
    /// The stream as it is coded, if it is.
    coded: Option<&'c [u8]>,
    /// Its place: its bytes as they are laid out, or zeros.
    bytes: &'c mut [u8],
}

impl Task<'_> {
    fn run(self, scratch: &mut (Vec<u8>, Scratch)) -> Result<(), DecodeError> {
        let (layout, width) = (self.layout, self.width);
        match self.coded {
            Some(coded) => layout.decode(coded, width, &mut scratch.1, self.bytes),
            None => layout.undo_blocks(self.bytes, width, self.block_rows, &mut scratch.0),
        }
    }
}

/// The tasks, the longest last.
fn tasks<'c>(
    mut content: &'c mut [u8],
    streams: &[Entry],
    layouts: &[Layout],
    parts: Vec<&'c [u8]>,
    format: FormatVersion,
) -> Option<Vec<Task<'c>>> {
    let mut tasks = Vec::with_capacity(streams.len());
    let mut parts = parts.into_iter();
    let mut at = 0;
    for is_coded in [false, true] {
        let pairs = streams.iter().zip(layouts);
        for (stream, &layout) in pairs.filter(|(_, layout)| layout.is_coded() == is_coded) {
            content.split_off_mut(..stream.at.checked_sub(at)?)?;
            at = stream.end;
            tasks.push(Task {
                layout,
                width: usize::from(stream.width),
                block_rows: format.block_rows(),
                coded: if is_coded { Some(parts.next()?) } else { None },
                bytes: content.split_off_mut(..stream.end.checked_sub(stream.at)?)?,
            });
        }
    }
    tasks.sort_by_key(|task| task.bytes.len());
    Some(tasks)
}

/// Runs all tasks. A thread takes the next one when it is done with the last.
fn run(tasks: Vec<Task<'_>>, run_both: RunBoth) -> Result<(), DecodeError> {
    let tasks = Mutex::new(tasks);
    let failure = Mutex::new(None);
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || {
        let mut scratch = (Vec::new(), Scratch::default());
        while let Some(task) = next() {
            if let Err(error) = task.run(&mut scratch) {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return;
            }
        }
    };
    run_both(&work, &mut || work());
    // What a caller did not run is not undone.
    work();
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(()),
        Some(error) => Err(error),
    }
}
