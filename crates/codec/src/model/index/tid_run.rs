//! Targets of the tuples of a leaf page. Where keys have the order of the rows, each target is
//! close after the one before: a run. A target that is not is a stray one.

use crate::model::values::tid::Tid;
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Choices, Coder, LazyStream, StreamId};
use crate::streams::kind::StreamKind;

/// A code below this is the number of line pointers skipped in the run's block.
const NEXT_BLOCK: u8 = 250;
/// A code from `NEXT_BLOCK` up to here is one of the first line pointers of the next block.
const STRAY: u8 = 254;

/// The run of the targets of one index.
#[derive(Debug, Default)]
pub struct TidRun {
    /// The run's last target.
    at: Tid,
    /// The last target was a stray one. If the next one is too, the run continues from that.
    has_strayed: bool,
    code: LazyStream,
}

impl TidRun {
    /// The stream of the codes of steps.
    pub fn open<C: Coder>(&mut self, coder: &mut C) -> StreamId {
        self.code.open(coder, StreamKind::TidRun, 1)
    }

    /// The code of the step to a target: the encoder's choice.
    pub fn code_of(&self, choices: Choices, target: Tid) -> u8 {
        match choices.uses(OptionalModel::TidRuns) {
            true => self.step_to(target),
            false => STRAY,
        }
    }

    /// Whether a code is that of a step.
    pub fn is_step(code: u8) -> bool {
        code < STRAY
    }

    /// The target of the step that has this code. `None` for a stray target.
    pub fn follow(&mut self, code: u8) -> Option<Tid> {
        let (block, line_pointer) = self.at;
        self.at = match code {
            ..NEXT_BLOCK => (block, line_pointer.wrapping_add(1 + u16::from(code))),
            NEXT_BLOCK..STRAY => (block.wrapping_add(1), u16::from(code - NEXT_BLOCK) + 1),
            _ => return None,
        };
        self.has_strayed = false;
        Some(self.at)
    }

    /// Records a target for which [`TidRun::follow`] returned `None`.
    pub fn stray(&mut self, target: Tid) {
        if self.has_strayed {
            self.at = target;
        }
        self.has_strayed = true;
    }

    fn step_to(&self, (block, line_pointer): Tid) -> u8 {
        let (run_block, run_line_pointer) = self.at;
        let (steps, codes) = if block == run_block {
            let first = run_line_pointer.wrapping_add(1);
            (line_pointer.wrapping_sub(first), 0..NEXT_BLOCK)
        } else if block == run_block.wrapping_add(1) {
            (line_pointer.wrapping_sub(1), NEXT_BLOCK..STRAY)
        } else {
            return STRAY;
        };
        if usize::from(steps) < codes.len() {
            codes.start + steps as u8
        } else {
            STRAY
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_example;
    use crate::format_version::FormatVersion;
    use crate::streams::{StreamReader, StreamWriter};
    use proptest::prelude::*;

    fn code<C: Coder>(run: &mut TidRun, coder: &mut C, target: Tid) -> Option<Tid> {
        let stream = run.open(coder);
        let code = run.code_of(coder.choices(), target);
        let code = coder.u8(stream, code);
        run.follow(code)
    }

    proptest! {
        #[test]
        fn comes_back(targets in prop::collection::vec((prop_oneof![0u32..4, Just(u32::MAX)], any::<u16>().prop_map(|offset| offset % 300)), 1..400)) {
            let mut coder = StreamWriter::default();
            let strays = coder.open(StreamKind::IndexTid, 6);
            let mut run = TidRun::default();
            for &target in &targets {
                match code(&mut run, &mut coder, target) {
                    Some(found) => prop_assert_eq!(found, target),
                    None => {
                        coder.u32(strays, target.0);
                        coder.u16(strays, target.1);
                        run.stray(target);
                    }
                }
            }
            let mut reader = StreamReader::of_content(coder.into_content().bytes, FormatVersion::CURRENT).unwrap();
            let strays = reader.open(StreamKind::IndexTid, 6);
            let mut run = TidRun::default();
            for &target in &targets {
                let found = code(&mut run, &mut reader, (0, 0)).unwrap_or_else(|| {
                    let stray = (reader.u32(strays, 0), reader.u16(strays, 0));
                    run.stray(stray);
                    stray
                });
                prop_assert_eq!(found, target);
            }
            prop_assert!(reader.exhausted() && !reader.failed());
        }
    }

    #[test]
    fn a_stray_target_does_not_end_the_run_but_two_begin_another() {
        let mut coder = StreamWriter::default();
        let mut run = TidRun::default();
        let mut strays = |targets: &[Tid]| -> Vec<Tid> {
            let is_stray = |target: &&Tid| {
                let found = code(&mut run, &mut coder, **target);
                if found.is_none() {
                    run.stray(**target);
                }
                found.is_none()
            };
            targets.iter().filter(is_stray).copied().collect()
        };
        assert_eq!(
            strays(&[(0, 1), (0, 2), (9, 40), (0, 4), (1, 1), (1, 2)]),
            [(9, 40)]
        );
        assert_eq!(strays(&[(7, 7), (7, 8), (7, 9), (8, 1)]), [(7, 7), (7, 8)]);
    }

    #[test]
    fn decodes_the_example_of_the_specification() {
        let mut reader = format_example::reader("model/index.md", "runs of targets");
        let offsets = reader.open(StreamKind::IndexTid, 2);
        let blocks = reader.open(StreamKind::IndexTid, 4);
        let mut run = TidRun::default();
        for target in [(0, 1), (0, 2), (9, 40), (0, 4), (1, 1)] {
            let found = code(&mut run, &mut reader, (0, 0)).unwrap_or_else(|| {
                let offset = reader.u16(offsets, 0);
                let stray = (reader.u32(blocks, 0), offset);
                run.stray(stray);
                stray
            });
            assert_eq!(found, target);
        }
        assert!(reader.exhausted() && !reader.failed());
    }
}
