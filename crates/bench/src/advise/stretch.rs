//! What checkpoints cost, where segments follow one another.
//!
//! The first change of a page after a checkpoint writes the whole page. An image of a page that
//! had one in the interval before is therefore there only because of the checkpoint between
//! them: without it, it would not have been written. Counting those says what a greater distance
//! saves, from the WAL alone.

use std::collections::HashMap;

use serde::Serialize;
use walzip_pgformat::wal::{RelFileLocator, SegmentHeader};

/// A time, and the position in the WAL that was written then.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// The position in bytes.
    pub position: u64,
    /// Microseconds since 2000-01-01, as PostgreSQL counts.
    pub microseconds: i64,
}

/// A page: relation, fork, block.
type Page = (RelFileLocator, u8, u32);

/// An image of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub(super) position: u64,
    pub(super) page: Page,
    pub(super) bytes: u32,
}

/// Segments that follow one another.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stretch {
    /// How many.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Checkpoints whose redo position lies within.
    pub checkpoints: usize,
    /// The mean distance of their redo positions; none with fewer than two.
    pub checkpoint_distance_bytes: Option<f64>,
    /// Bytes of page images.
    pub image_bytes: u64,
    /// Bytes of images that would not have been written with every second checkpoint.
    pub avoidable_bytes_half: f64,
    /// The same with every fourth.
    pub avoidable_bytes_quarter: f64,
    /// The same without any checkpoint in the stretch: the most that can be saved.
    pub avoidable_bytes_most: f64,
    /// From the first end of a transaction to the last.
    pub seconds: Option<f64>,
}

/// Walks along segments, and notices where one does not follow the last.
#[derive(Default)]
pub(super) struct Walk {
    finished: Vec<Stretch>,
    current: Option<Current>,
}

struct Current {
    system_id: u64,
    next: u64,
    first: u64,
    segments: usize,
    redo: Vec<u64>,
    touches: Vec<Touch>,
    transactions: Option<(Moment, Moment)>,
}

impl Walk {
    /// A segment begins.
    pub(super) fn enter(&mut self, header: &SegmentHeader) {
        let start = header.start.0;
        let follows = self.current.as_ref().is_some_and(|current| {
            current.next == start && current.system_id == header.system_id.0
        });
        if !follows {
            self.close();
        }
        let current = self.current.get_or_insert_with(|| Current {
            system_id: header.system_id.0,
            next: start,
            first: start,
            segments: 0,
            redo: Vec::new(),
            touches: Vec::new(),
            transactions: None,
        });
        current.segments += 1;
        current.next = start + u64::from(header.segment_size);
    }

    pub(super) fn checkpoint(&mut self, redo: Option<u64>) {
        if let (Some(current), Some(redo)) = (&mut self.current, redo) {
            current.redo.push(redo);
        }
    }

    pub(super) fn image(&mut self, touch: Touch) {
        if let Some(current) = &mut self.current {
            current.touches.push(touch);
        }
    }

    pub(super) fn transaction(&mut self, moment: Moment) {
        if let Some(current) = &mut self.current {
            let (_, last) = current.transactions.get_or_insert((moment, moment));
            *last = moment;
        }
    }

    pub(super) fn finish(mut self) -> Vec<Stretch> {
        self.close();
        self.finished
    }

    fn close(&mut self) {
        if let Some(current) = self.current.take() {
            self.finished.push(current.stretch());
        }
    }
}

impl Current {
    fn stretch(mut self) -> Stretch {
        let within = self.first..self.next;
        self.redo.retain(|redo| within.contains(redo));
        self.redo.sort_unstable();
        self.redo.dedup();
        let distance = match (self.redo.first(), self.redo.last(), self.redo.len()) {
            (Some(first), Some(last), count @ 2..) => {
                Some((last - first) as f64 / (count - 1) as f64)
            }
            _ => None,
        };
        let seconds = self
            .transactions
            .map(|(first, last)| (last.microseconds - first.microseconds) as f64 / 1e6);
        Stretch {
            segments: self.segments,
            bytes: self.next - self.first,
            checkpoints: self.redo.len(),
            checkpoint_distance_bytes: distance,
            image_bytes: self
                .touches
                .iter()
                .map(|touch| u64::from(touch.bytes))
                .sum(),
            avoidable_bytes_half: avoidable(&self.touches, &self.redo, 2),
            avoidable_bytes_quarter: avoidable(&self.touches, &self.redo, 4),
            avoidable_bytes_most: avoidable(&self.touches, &self.redo, self.redo.len() + 1),
            seconds,
        }
    }
}

/// Bytes of images that are there only because of the checkpoints that would be left out when
/// one of `every` remains: the mean over which of them remain.
fn avoidable(touches: &[Touch], redo: &[u64], every: usize) -> f64 {
    // Without any checkpoint there is nothing to choose.
    let phases = if every > redo.len() { 1 } else { every };
    let mut bytes = 0u64;
    for phase in 0..phases {
        let mut last: HashMap<Page, (usize, usize)> = HashMap::new();
        for touch in touches {
            let interval = redo.partition_point(|redo| *redo <= touch.position);
            let merged = (interval + phase) / every;
            let before = last.insert(touch.page, (interval, merged));
            if before.is_some_and(|(old, old_merged)| old != interval && old_merged == merged) {
                bytes += u64::from(touch.bytes);
            }
        }
    }
    bytes as f64 / phases.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(position: u64, number: u32) -> Touch {
        Touch {
            position,
            page: (RelFileLocator::default(), 0, number),
            bytes: 100,
        }
    }

    #[test]
    fn an_image_is_avoidable_when_its_page_had_one_before_a_checkpoint_that_is_left_out() {
        let redo = [10, 20, 30];
        let touches = [touch(5, 1), touch(15, 1), touch(25, 1), touch(35, 1)];
        // Without any, one image remains; with every second, one of two.
        assert_eq!(avoidable(&touches, &redo, 4), 300.0);
        assert_eq!(avoidable(&touches, &redo, 2), (200.0 + 100.0) / 2.0);
        assert_eq!(avoidable(&touches, &redo, 1), 0.0);
    }

    #[test]
    fn other_pages_and_the_same_interval_save_nothing() {
        let touches = [touch(5, 1), touch(6, 1), touch(15, 2)];
        assert_eq!(avoidable(&touches, &[10], 2), 0.0);
    }
}
