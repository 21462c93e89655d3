//! Why a text does not say at which moment recovery is to end.

use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Why a text does not say at which moment recovery is to end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// It has another form.
    #[error(
        "\"{}\" is not a time as PostgreSQL writes it, such as 2026-11-21 22:01:30.439 UTC \
         or 2026-11-21 22:01:30+00", .0.escape_debug()
    )]
    Unreadable(String),
    /// It is a word such as `yesterday`.
    #[error("\"{0}\" is a word and not a moment")]
    Word(String),
    /// The time of day is missing.
    #[error("\"{0}\" has a date and no time of day")]
    DateOnly(String),
    /// It is finer than what PostgreSQL can tell.
    #[error("\"{0}\" is finer than PostgreSQL's microseconds")]
    TooFine(String),
    /// It lies where no server ever was.
    #[error("{0} is not a time that PostgreSQL knows")]
    Range(DateTime),
    /// The zone is missing.
    #[error("{} has no time zone", clock(.at))]
    NoZone {
        /// The time.
        at: DateTime,
    },
    /// The offset has another form.
    #[error("\"{0}\" is not an offset from UTC such as +00, -05 or +05:30")]
    Offset(String),
    /// The zone is not known.
    #[error("the time zone \"{}\" is not known{}", zone.escape_debug(), without_rules(*has_rules))]
    UnknownZone {
        /// The zone.
        zone: String,
        /// Whether this machine has a time zone database.
        has_rules: bool,
    },
    /// The zone has a sign that POSIX reads the other way round.
    #[error("\"{zone}\" is read in two ways: for PostgreSQL a + there is west of Greenwich")]
    Sign {
        /// The time.
        at: DateTime,
        /// The zone.
        zone: String,
        /// The offset when + is east.
        east: Offset,
    },
    /// The abbreviation is used for several zones.
    #[error("\"{abbreviation}\" stands for several time zones")]
    SeveralZones {
        /// The time.
        at: DateTime,
        /// The abbreviation.
        abbreviation: String,
        /// The offsets in seconds, and whose they are.
        meanings: &'static [(i32, &'static str)],
    },
    /// The clocks that the abbreviation belongs to showed another one then.
    #[error("{} is not in force at {} in {zone}, whose clocks have {} then",
        abbreviation, clock(.at), written(*.in_force))]
    OutOfSeason {
        /// The time.
        at: DateTime,
        /// The abbreviation.
        abbreviation: String,
        /// Its offset.
        offset: Offset,
        /// A zone that uses it.
        zone: String,
        /// The zone's offset then.
        in_force: Offset,
    },
    /// The clocks were put forward over it.
    #[error("there was no {} in {zone}: the clocks went from {} to {}",
        clock(.at), written(*.before), written(*.after))]
    Skipped {
        /// The time.
        at: DateTime,
        /// The zone.
        zone: String,
        /// The offset before the change.
        before: Offset,
        /// The offset after it.
        after: Offset,
    },
    /// The clocks were put back over it.
    #[error("{} was twice in {zone}: the clocks went back from {} to {}",
        clock(.at), written(*.before), written(*.after))]
    Repeated {
        /// The time.
        at: DateTime,
        /// The zone.
        zone: String,
        /// The offset before the change.
        before: Offset,
        /// The offset after it.
        after: Offset,
    },
}

/// A time of the clock, with as many digits after the point as it has.
pub(crate) fn clock(at: &DateTime) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S%.f").to_string()
}

/// An offset as PostgreSQL writes it: `+00`, `-05`, `+05:30`.
pub(crate) fn written(offset: Offset) -> String {
    let sign = if offset.seconds() < 0 { '-' } else { '+' };
    let seconds = offset.seconds().abs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{sign}{hours:02}");
    if minutes + rest > 0 {
        text.push_str(&format!(":{minutes:02}"));
    }
    if rest > 0 {
        text.push_str(&format!(":{rest:02}"));
    }
    text
}

fn without_rules(has_rules: bool) -> &'static str {
    match has_rules {
        true => "",
        false => ", since this machine has no time zone database (/usr/share/zoneinfo)",
    }
}
