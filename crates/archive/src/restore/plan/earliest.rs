//! From when on a cluster can be restored.

use super::Planner;
use crate::error::ArchiveError;
use crate::restore::target::{RecoveryTarget, TargetTimeline};

impl Planner<'_> {
    /// Refuses a time before the end of every backup, unless a timeline was named: not every backup leads to that. One
    /// that cannot be read may have ended before it.
    pub(super) fn refuse_too_early(&self) -> Result<(), ArchiveError> {
        let (RecoveryTarget::Time(target), None) = (self.target(), &self.asked) else {
            return Ok(());
        };
        if matches!(self.options.recovery.timeline, TargetTimeline::Id(_)) {
            return Ok(());
        }
        let mut listed = self.listed.iter();
        let may_serve = listed.any(|listed| match &listed.read {
            Ok(record) => record.stop.time <= *target,
            Err(_) => self.may_serve(&listed.label),
        });
        match self.records.iter().min_by_key(|record| record.stop.time) {
            Some(first) if !may_serve => Err(ArchiveError::TooEarly {
                target: *target,
                earliest: first.stop.time,
                label: first.label.clone(),
            }),
            _ => Ok(()),
        }
    }
}
