//! Numbers with a unit: positions, timelines and system identifiers.

use std::fmt;
use std::str::FromStr;

/// A position in the write-ahead log, in bytes (`XLogRecPtr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 as u32)
    }
}

/// The text was not a position such as `16/B374D848`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a WAL position such as 16/B374D848")]
pub struct InvalidLsn(String);

impl FromStr for Lsn {
    type Err = InvalidLsn;

    /// Reads both `0/2000028` and the zero-padded `0/02000028` of PostgreSQL 19.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let half = |digits: &str| {
            let valid =
                (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
            valid
                .then(|| u64::from_str_radix(digits, 16).ok())
                .flatten()
        };
        let (high, low) = text.split_once('/').unwrap_or_default();
        match (half(high), half(low)) {
            (Some(high), Some(low)) => Ok(Lsn(high << 32 | low)),
            _ => Err(InvalidLsn(text.to_owned())),
        }
    }
}

/// A timeline: one line of history of a cluster (`TimeLineID`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineId(pub u32);

impl fmt::Display for TimelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What `initdb` drew to tell one cluster from another (`system_identifier`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SystemId(pub u64);

impl fmt::Display for SystemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints_positions() {
        assert_eq!("16/B374D848".parse(), Ok(Lsn(0x16_B374_D848)));
        assert_eq!("0/02000028".parse(), Ok(Lsn(0x0200_0028)));
        assert_eq!(Lsn(0x16_B374_D848).to_string(), "16/B374D848");
    }

    #[test]
    fn refuses_what_is_not_a_position() {
        for text in [
            "",
            "/",
            "1/",
            "/1",
            "1",
            "g/0",
            "1/123456789",
            "+1/0",
            "1/2/3",
        ] {
            assert!(text.parse::<Lsn>().is_err(), "{text}");
        }
    }
}
