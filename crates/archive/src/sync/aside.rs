//! What was set aside in a repository of a timeline that lives on there, and what another one has under the same
//! names: the same, which has to stay away with all that follows it, or production's own.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::WalEntry;

use super::away;
use super::both::{Both, number};
use super::problem::{Problem, is_of_one_file};
use crate::error::ArchiveError;

/// What the comparison has shown.
#[derive(Default)]
pub(super) struct Aside {
    /// Names of what stays away.
    away: BTreeSet<String>,
    /// From which number on nothing of a timeline is brought over.
    until: BTreeMap<TimelineId, u64>,
}

impl Aside {
    pub(super) async fn compare(
        both: &Both<'_>,
        (there, refused, others): (&HashSet<&str>, &BTreeSet<TimelineId>, &BTreeSet<TimelineId>),
        problems: &mut Vec<Problem>,
    ) -> Result<Aside, ArchiveError> {
        let mut aside = Aside::default();
        for entry in &both.source {
            let Ok(name) = entry.name.parse::<WalFileName>() else {
                continue;
            };
            let is_asked = both.aside.contains_key(&entry.name)
                && !there.contains(entry.name.as_str())
                && !refused.contains(&name.timeline());
            if !is_asked {
                continue;
            }
            let number = number(&name, both.segment_size);
            let timeline = name.timeline();
            // Two servers may have the same history.
            let is_others = number.is_none() && others.contains(&timeline);
            if is_others || aside.is_behind(timeline, number) {
                continue;
            }
            let why = match is_same(both, &entry.name).await {
                // Production's own, which comes over like the rest.
                Ok(false) => continue,
                Ok(true) => "the other one has the same".to_owned(),
                Err(error) if is_of_one_file(&error) => error.to_string(),
                Err(error) => return Err(error),
            };
            aside.away.insert(entry.name.clone());
            let what = match number {
                None => String::new(),
                Some(number) => {
                    aside.until.insert(timeline, number);
                    format!(
                        ", and nothing of timeline {timeline} from there on. Where it is of an abandoned \
                         server, set it aside in the other repository too (walzip timeline set-aside \
                         {timeline} --from {} --confirm)",
                        entry.name
                    )
                }
            };
            let detail =
                format!("it was set aside in the repository ({why}): it is not brought over{what}");
            problems.push(Problem::new(&entry.name, detail));
        }
        Ok(aside)
    }

    /// Whether a file of the source is not to be brought over.
    pub(super) fn keeps_away(
        &self,
        entry: &WalEntry,
        name: &WalFileName,
        number: Option<u64>,
    ) -> bool {
        self.is_behind(name.timeline(), number) || self.away.contains(&entry.name)
    }

    fn is_behind(&self, timeline: TimelineId, number: Option<u64>) -> bool {
        let first = self.until.get(&timeline);
        number
            .zip(first)
            .is_some_and(|(number, &first)| number >= first)
    }
}

/// Whether the source has what was set aside under a name and any label. What was removed meanwhile is not brought.
async fn is_same(both: &Both<'_>, name: &str) -> Result<bool, ArchiveError> {
    for &label in both.aside.get(name).into_iter().flatten() {
        if away::is_same(both, label, name).await?.unwrap_or(true) {
            return Ok(true);
        }
    }
    Ok(false)
}
