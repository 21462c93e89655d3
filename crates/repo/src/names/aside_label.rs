//! Under what name WAL is set aside.

use std::fmt;
use std::str::FromStr;

use crate::error::RepoError;

/// Under what a timeline and its descendants are set aside: its number, as in `00000002`, and for
/// another timeline of the same number a count after it, as in `00000002-2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AsideLabel {
    timeline: u32,
    count: u32,
}

impl AsideLabel {
    /// The first label of a timeline.
    pub fn first(timeline: u32) -> AsideLabel {
        AsideLabel { timeline, count: 1 }
    }

    /// The label after this one.
    pub fn next(self) -> AsideLabel {
        AsideLabel {
            count: self.count.saturating_add(1),
            ..self
        }
    }

    /// The timeline that was set aside, with its descendants.
    pub fn timeline(self) -> u32 {
        self.timeline
    }
}

impl fmt::Display for AsideLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08X}", self.timeline)?;
        match self.count {
            1 => Ok(()),
            count => write!(f, "-{count}"),
        }
    }
}

impl FromStr for AsideLabel {
    type Err = RepoError;

    fn from_str(text: &str) -> Result<AsideLabel, RepoError> {
        let (timeline, count) = text.split_once('-').unwrap_or((text, "1"));
        let label = u32::from_str_radix(timeline, 16)
            .ok()
            .zip(count.parse().ok())
            .map(|(timeline, count)| AsideLabel { timeline, count });
        // Each label is written in one way only.
        label
            .filter(|label| label.count > 0 && label.to_string() == text)
            .ok_or_else(|| RepoError::InvalidName {
                what: "what was set aside",
                name: text.to_owned(),
                detail: "it has the form 00000002 or 00000002-2",
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_written_in_one_way_only() {
        for text in ["00000002", "0000000A-2", "FFFFFFFF-4294967295"] {
            let label: AsideLabel = text.parse().expect("a label");
            assert_eq!(label.to_string(), text);
        }
        for text in [
            "",
            "2",
            "0000000a",
            "00000002-1",
            "00000002-0",
            "00000002-02",
            "+0000002",
            "00000002-+2",
            "00000002/x",
            "000000002",
        ] {
            assert!(text.parse::<AsideLabel>().is_err(), "{text}");
        }
        let first = AsideLabel::first(2);
        assert_eq!(first.next().next().to_string(), "00000002-3");
    }
}
