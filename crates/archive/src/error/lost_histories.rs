//! Timelines whose history an archive lacks, and by what that is known.

use std::fmt;

use walzip_pgformat::TimelineId;

use super::shown::numbers;

/// Timelines whose history is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostHistories {
    /// Those of which the archive has WAL.
    pub with_wal: Vec<TimelineId>,
    /// Those of which it has none, each with a later timeline that comes from it.
    pub named: Vec<(TimelineId, TimelineId)>,
    /// Those of which nothing else is known.
    pub others: Vec<TimelineId>,
}

impl fmt::Display for LostHistories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = Vec::new();
        if !self.with_wal.is_empty() {
            let of = numbers(&self.with_wal);
            said.push(format!("has WAL of timeline {of}, but not its history"));
        }
        let named = self.named.iter().map(|(lost, by)| {
            format!("does not have the history of timeline {lost}, from which timeline {by} comes")
        });
        said.extend(named);
        if !self.others.is_empty() {
            let of = numbers(&self.others);
            said.push(format!("does not have the history of timeline {of}"));
        }
        write!(f, "the archive {}", said.join("; it "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_wal_is_said_to_have_it() {
        let [two, three, five] = [2, 3, 5].map(TimelineId);
        let mut lost = LostHistories {
            named: vec![(two, three)],
            ..LostHistories::default()
        };
        let named = "does not have the history of timeline 2, from which timeline 3 comes";
        assert_eq!(lost.to_string(), format!("the archive {named}"));
        lost.with_wal.push(five);
        let with_wal = "the archive has WAL of timeline 5, but not its history";
        assert_eq!(lost.to_string(), format!("{with_wal}; it {named}"));
    }
}
