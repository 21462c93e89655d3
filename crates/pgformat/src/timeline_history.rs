//! Timeline histories: the `.history` file that says from where a timeline branched off.
//!
//! Each line of the file names one ancestor, the position at which its child left it, and
//! why. The rules are those of `readTimeLineHistory` in access/transam/timeline.c: blank
//! lines and lines that begin with `#` are skipped, timelines rise from line to line and
//! stay below the file's own.
//!
//! Positions need not rise. A recovery that follows timeline 2 and stops before the place at
//! which 2 left 1 makes a timeline 3 whose history is `1 B`, `2 A` with A before B: nothing
//! of 2 was replayed. An ancestor therefore ends where it, or any later one, was left first.

use crate::units::{InvalidLsn, Lsn, TimelineId};

/// How one timeline came to be, from its oldest ancestor on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineHistory {
    /// The timeline whose history this is.
    pub timeline: TimelineId,
    /// Its ancestors, the oldest first.
    pub ancestors: Vec<Ancestor>,
}

/// One ancestor: a line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// The ancestor's timeline.
    pub timeline: TimelineId,
    /// The position at which the line says that the ancestor was left.
    pub switch: Lsn,
    /// Why the switch was made, in PostgreSQL's words.
    pub reason: String,
}

/// Why the text is not the history of a timeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimelineHistoryError {
    /// The line does not begin with a timeline.
    #[error("line {line} of the timeline history does not begin with a timeline")]
    Timeline {
        /// The line's number, from 1.
        line: usize,
    },
    /// The line has no position, or a wrong one, after its timeline.
    #[error("line {line} of the timeline history has no switch position: {source}")]
    Switch {
        /// The line's number, from 1.
        line: usize,
        /// What stands there instead.
        source: InvalidLsn,
    },
    /// Timelines do not rise from line to line, or reach the file's own.
    #[error("line {line} of the timeline history is out of order")]
    Order {
        /// The line's number, from 1.
        line: usize,
    },
}

impl TimelineHistory {
    /// Reads the content of the `.history` file of `timeline`.
    pub fn read(timeline: TimelineId, content: &[u8]) -> Result<Self, TimelineHistoryError> {
        let mut ancestors: Vec<Ancestor> = Vec::new();
        for (index, bytes) in content.split(|byte| *byte == b'\n').enumerate() {
            let line = index + 1;
            // The reason may quote a restore point's name in any server encoding.
            let text = String::from_utf8_lossy(bytes);
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let ancestor = read_ancestor(text, line)?;
            let rises = ancestors
                .last()
                .is_none_or(|previous| previous.timeline < ancestor.timeline);
            if !rises || ancestor.timeline >= timeline {
                return Err(TimelineHistoryError::Order { line });
            }
            ancestors.push(ancestor);
        }
        Ok(Self {
            timeline,
            ancestors,
        })
    }

    /// The timeline of this history on which the byte at `position` lies: the newest that had
    /// begun there, as `tliOfPointInHistory` finds it.
    pub fn timeline_at(&self, position: Lsn) -> TimelineId {
        let newest_first = self.ancestors.iter().rev();
        let mut timeline = self.timeline;
        for ancestor in newest_first {
            if ancestor.switch <= position {
                break;
            }
            timeline = ancestor.timeline;
        }
        timeline
    }

    /// Up to where an ancestor is part of this history; nothing for other timelines and for
    /// the history's own, which has no end yet.
    pub fn switch_of(&self, timeline: TimelineId) -> Option<Lsn> {
        let mut from_it_on = self
            .ancestors
            .iter()
            .skip_while(|ancestor| ancestor.timeline != timeline);
        let own = from_it_on.next()?.switch;
        let later = from_it_on.map(|ancestor| ancestor.switch);
        Some(later.fold(own, Lsn::min))
    }

    /// The ancestors of which something is part of this history, the oldest first, each with where it was left. One
    /// that was followed and not reached is not among them.
    pub fn parts(&self) -> impl Iterator<Item = (TimelineId, Lsn)> + '_ {
        let mut begin = Lsn(0);
        self.ancestors.iter().filter_map(move |ancestor| {
            let end = self.switch_of(ancestor.timeline)?;
            let is_reached = begin < end;
            begin = begin.max(end);
            is_reached.then_some((ancestor.timeline, end))
        })
    }

    /// Whether `timeline` is the history's own or an ancestor of which something is part of it.
    pub fn contains(&self, timeline: TimelineId) -> bool {
        timeline == self.timeline || self.parts().any(|(part, _)| part == timeline)
    }
}

fn read_ancestor(text: &str, line: usize) -> Result<Ancestor, TimelineHistoryError> {
    let (number, rest) = split_field(text);
    let digits_only = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let timeline = match number.parse() {
        Ok(timeline) if digits_only && timeline != 0 => TimelineId(timeline),
        _ => return Err(TimelineHistoryError::Timeline { line }),
    };
    let (position, reason) = split_field(rest);
    let switch = position
        .parse()
        .map_err(|source| TimelineHistoryError::Switch { line, source })?;
    Ok(Ancestor {
        timeline,
        switch,
        reason: reason.to_owned(),
    })
}

/// Splits off the text before the first white space.
fn split_field(text: &str) -> (&str, &str) {
    match text.split_once(|c: char| c.is_ascii_whitespace()) {
        Some((field, rest)) => (field, rest.trim_start()),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 wrote it after two promotions, the second to a restore point.
    const HISTORY: &[u8] = b"1\t0/4000000\tno recovery target specified\n\n\
        2\t0/50000D8\tat restore point \"before_upgrade\"\n";

    fn history() -> TimelineHistory {
        TimelineHistory::read(TimelineId(3), HISTORY).expect("a real history")
    }

    #[test]
    fn reads_what_postgresql_wrote() {
        let ancestor = |timeline, switch, reason: &str| Ancestor {
            timeline: TimelineId(timeline),
            switch: Lsn(switch),
            reason: reason.to_owned(),
        };
        assert_eq!(
            history().ancestors,
            [
                ancestor(1, 0x400_0000, "no recovery target specified"),
                ancestor(2, 0x500_00D8, "at restore point \"before_upgrade\""),
            ]
        );
    }

    #[test]
    fn finds_the_timeline_of_a_position() {
        let history = history();
        for (position, timeline) in [
            (0, 1),
            (0x3FF_FFFF, 1),
            (0x400_0000, 2),
            (0x500_00D7, 2),
            (0x500_00D8, 3),
            (u64::MAX, 3),
        ] {
            assert_eq!(history.timeline_at(Lsn(position)), TimelineId(timeline));
        }
    }

    #[test]
    fn knows_its_timelines_and_where_they_end() {
        let history = history();
        assert_eq!(history.switch_of(TimelineId(1)), Some(Lsn(0x400_0000)));
        assert_eq!(history.switch_of(TimelineId(3)), None);
        assert!(history.contains(TimelineId(3)));
        assert!(!history.contains(TimelineId(4)));
    }

    /// Timeline 3 followed 2, and left 1 before 2 did; 4 left 3.
    #[test]
    fn a_timeline_that_was_followed_and_not_reached_is_no_part() {
        let content = b"1\t0/500\tx\n2\t0/300\tx\n3\t0/400\tx\n";
        let history = TimelineHistory::read(TimelineId(4), content).expect("a history");
        let parts: Vec<(u32, u64)> = history.parts().map(|(of, end)| (of.0, end.0)).collect();
        assert_eq!(parts, [(1, 0x300), (3, 0x400)]);
        assert!([1, 3, 4].iter().all(|&of| history.contains(TimelineId(of))));
        assert!(!history.contains(TimelineId(2)));
    }

    #[test]
    fn skips_comments_and_needs_no_reason() {
        let content = b"# made by hand\n  1 0/04000000\r\n";
        let history = TimelineHistory::read(TimelineId(2), content).expect("a history");
        assert_eq!(history.switch_of(TimelineId(1)), Some(Lsn(0x400_0000)));
        assert_eq!(
            history.ancestors.first().map(|a| a.reason.as_str()),
            Some("")
        );
    }

    #[test]
    fn keeps_a_reason_in_an_unknown_encoding_readable() {
        let content = b"1\t0/4000000\tat restore point \"caf\xE9\"\n";
        let history = TimelineHistory::read(TimelineId(2), content).expect("a history");
        assert_eq!(
            history.ancestors[0].reason,
            "at restore point \"caf\u{FFFD}\""
        );
    }

    #[test]
    fn refuses_lines_without_timeline_or_position() {
        let error = |content| TimelineHistory::read(TimelineId(9), content).unwrap_err();
        assert_eq!(
            error(b"x\t0/0\n"),
            TimelineHistoryError::Timeline { line: 1 }
        );
        assert_eq!(
            error(b"+1\t0/0\n"),
            TimelineHistoryError::Timeline { line: 1 }
        );
        assert_eq!(
            error(b"0\t0/0\n"),
            TimelineHistoryError::Timeline { line: 1 }
        );
        assert!(matches!(
            error(b"1\t0/10\n2\n"),
            TimelineHistoryError::Switch { line: 2, .. }
        ));
        assert!(matches!(
            error(b"1 no recovery target specified"),
            TimelineHistoryError::Switch { line: 1, .. }
        ));
    }

    /// As PostgreSQL 15 writes it when a recovery along timeline 2 stops before timeline 2
    /// begins.
    #[test]
    fn leaves_out_an_ancestor_that_was_left_before_it_began() {
        let content =
            b"1\t0/5000000\tat restore point \"b\"\n\n2\t0/4000000\tat restore point \"a\"\n";
        let history = TimelineHistory::read(TimelineId(3), content).expect("a real history");
        for (position, timeline) in [
            (0x3FF_FFFF, 1),
            (0x400_0000, 3),
            (0x500_0000, 3),
            (u64::MAX, 3),
        ] {
            assert_eq!(history.timeline_at(Lsn(position)), TimelineId(timeline));
        }
        for timeline in [1, 2] {
            let end = history.switch_of(TimelineId(timeline));
            assert_eq!(end, Some(Lsn(0x400_0000)), "of timeline {timeline}");
        }
    }

    #[test]
    fn refuses_timelines_that_do_not_rise() {
        for content in [
            "2\t0/10\t\n1\t0/20\t\n",
            "1\t0/10\t\n1\t0/20\t\n",
            "1\t0/10\t\n9\t0/20\t\n",
        ] {
            assert_eq!(
                TimelineHistory::read(TimelineId(9), content.as_bytes()),
                Err(TimelineHistoryError::Order { line: 2 }),
                "{content}"
            );
        }
    }
}
