//! From when on a cluster can be restored.

use super::Planner;
use crate::error::ArchiveError;
use crate::restore::target::RecoveryTarget;

impl Planner<'_> {
    /// Refuses a time before the end of every backup, whichever timeline would be followed. One that cannot be read
    /// may have ended before it.
    pub(super) fn refuse_too_early(&self) -> Result<(), ArchiveError> {
        let (RecoveryTarget::Time(target), None) = (self.target(), &self.asked) else {
            return Ok(());
        };
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
