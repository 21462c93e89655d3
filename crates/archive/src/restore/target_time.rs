//! A time to restore to, read as PostgreSQL writes it and as nobody can misread it.
//!
//! A restore to another moment than was meant is wrong data without an error. So a time is taken
//! where its moment is certain, and is otherwise refused with the moments that it may mean.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use super::time_zone;
use crate::error::time_error::{TimeError, clock, written};

/// PostgreSQL's words for times, which say another moment whenever they are read, or none.
const WORDS: &[&str] = &[
    "now",
    "today",
    "tomorrow",
    "yesterday",
    "noon",
    "midnight",
    "allballs",
    "epoch",
    "infinity",
    "-infinity",
    "+infinity",
];

/// One of the moments that a refused time may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The same time with an offset, as it is taken.
    pub time: String,
    /// Whose time that is.
    pub meaning: String,
}

/// Reads a time with its zone: `2026-11-21 22:01:30.439 UTC`, `2026-11-21T22:01:30+05:30`,
/// `2026-11-21 22:01:30 Europe/Berlin`.
pub(super) fn read(text: &str) -> Result<Timestamp, TimeError> {
    read_with(text, jiff::tz::db())
}

fn read_with(text: &str, rules: &TimeZoneDatabase) -> Result<Timestamp, TimeError> {
    let text = text.trim();
    let first = text.split_whitespace().next().unwrap_or_default();
    if WORDS.contains(&first.to_ascii_lowercase().as_str()) {
        return Err(TimeError::Word(first.to_owned()));
    }
    let unreadable = || TimeError::Unreadable(text.to_owned());
    let (date, rest) = split_date(text).ok_or_else(unreadable)?;
    // Something that cannot be a time of day is a zone, or nothing.
    let rest = match rest.strip_prefix(['T', 't']) {
        Some(rest) => rest,
        None => rest.trim_start(),
    };
    if !rest.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(TimeError::DateOnly(text.to_owned()));
    }
    let clock_end = rest
        .find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.')
        .unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(clock_end);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let nanoseconds = nanoseconds(fraction).ok_or_else(unreadable)?;
    if nanoseconds % 1000 != 0 {
        return Err(TimeError::TooFine(text.to_owned()));
    }
    let (year, month, day) = date;
    let [hour, minute, second] = time_of_day(clock).ok_or_else(unreadable)?;
    let at = DateTime::new(year, month, day, hour, minute, second, nanoseconds)
        .map_err(|_| unreadable())?;
    let zone = zone.trim();
    if zone.is_empty() {
        return Err(TimeError::NoZone { at });
    }
    // More than a zone stands there: a line of a log, perhaps.
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "+-:/_".contains(c);
    if !zone.chars().all(is_sign) {
        return Err(unreadable());
    }
    let offset = time_zone::offset(at, zone, rules)?;
    offset.to_timestamp(at).map_err(|_| TimeError::Range(at))
}

/// The year, month and day at the beginning, and what follows.
fn split_date(text: &str) -> Option<((i16, i8, i8), &str)> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut fields = date.split('-');
    let year = number(fields.next()?, 4)?;
    let month = number(fields.next()?, 2)?;
    let day = number(fields.next()?, 2)?;
    let ends = rest
        .chars()
        .next()
        .is_none_or(|next| !next.is_ascii_digit());
    (fields.next().is_none() && ends).then_some(((year, month, day), rest))
}

/// Hours, minutes and, if they are there, seconds.
fn time_of_day(clock: &str) -> Option<[i8; 3]> {
    let mut fields = clock.split(':');
    let hour = number(fields.next()?, 2)?;
    let minute = number(fields.next()?, 2)?;
    let second = match fields.next() {
        Some(second) => number(second, 2)?,
        None => 0,
    };
    fields.next().is_none().then_some([hour, minute, second])
}

/// A number of exactly so many digits.
fn number<N: std::str::FromStr>(text: &str, digits: usize) -> Option<N> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// The digits after the point, of which there are nine at most.
fn nanoseconds(fraction: &str) -> Option<i32> {
    let plain = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| format!("{fraction:0<9}").parse().ok())?
}

impl TimeError {
    /// The moments that the time may mean, each in a form that is taken. A time without a zone
    /// may be of this machine's.
    pub fn readings(&self, machine: &TimeZone) -> Vec<Reading> {
        match self {
            TimeError::NoZone { at } => without_zone(*at, machine),
            TimeError::Sign { at, east, .. } => vec![
                reading(
                    *at,
                    *east,
                    "with + for east of Greenwich, ahead of UTC".to_owned(),
                ),
                reading(
                    *at,
                    -*east,
                    "with + for west of Greenwich, behind UTC".to_owned(),
                ),
            ],
            TimeError::SeveralZones {
                at,
                abbreviation,
                meanings,
            } => {
                let known = meanings.iter().filter_map(|(seconds, whose)| {
                    Some((Offset::from_seconds(*seconds).ok()?, whose))
                });
                known
                    .map(|(offset, whose)| reading(*at, offset, format!("{whose} {abbreviation}")))
                    .collect()
            }
            TimeError::OutOfSeason {
                at,
                abbreviation,
                offset,
                zone,
                in_force,
            } => vec![
                reading(*at, *offset, format!("{abbreviation} to the letter")),
                reading(*at, *in_force, format!("the clocks' time in {zone}")),
            ],
            TimeError::Skipped {
                at, before, after, ..
            } => {
                let lost = SignedDuration::from_secs((after.seconds() - before.seconds()).into());
                let shown = |shown: DateTime| format!("when the clocks showed {}", clock(&shown));
                vec![
                    reading(*at, *before, shown(at.saturating_add(lost))),
                    reading(*at, *after, shown(at.saturating_sub(lost))),
                ]
            }
            TimeError::Repeated {
                at, before, after, ..
            } => vec![
                reading(*at, *before, "the first time".to_owned()),
                reading(*at, *after, "the second time".to_owned()),
            ],
            _ => Vec::new(),
        }
    }
}

/// A time without a zone is UTC's or this machine's, as its clocks stood then.
fn without_zone(at: DateTime, machine: &TimeZone) -> Vec<Reading> {
    let name = machine.iana_name().unwrap_or("the zone");
    let here = |offset| reading(at, offset, format!("{name} of this machine"));
    let utc = || reading(at, Offset::UTC, "UTC".to_owned());
    if machine.is_unknown() {
        return vec![utc()];
    }
    match machine.to_ambiguous_timestamp(at).offset() {
        AmbiguousOffset::Unambiguous { offset } if offset == Offset::UTC => {
            vec![reading(at, offset, "UTC and this machine's".to_owned())]
        }
        AmbiguousOffset::Unambiguous { offset } => vec![utc(), here(offset)],
        AmbiguousOffset::Gap { before, after } | AmbiguousOffset::Fold { before, after } => {
            vec![utc(), here(before), here(after)]
        }
    }
}

fn reading(at: DateTime, offset: Offset, meaning: String) -> Reading {
    Reading {
        time: format!("{}{}", clock(&at), written(offset)),
        meaning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> TimeError {
        match read(text) {
            Err(error) => error,
            Ok(time) => panic!("{text} was taken as {time}"),
        }
    }

    /// A refusal's readings, every one of which is itself taken.
    fn readings(text: &str, machine: &str) -> Vec<String> {
        let machine = TimeZone::get(machine).expect("a zone");
        let readings = refused(text).readings(&machine);
        for reading in &readings {
            read(&reading.time).expect("a reading is taken");
        }
        readings.into_iter().map(|reading| reading.time).collect()
    }

    #[test]
    fn takes_what_servers_and_people_write() {
        let expected: Timestamp = "2026-11-23T07:01:51.439Z".parse().expect("valid");
        for text in [
            "2026-11-23 07:01:51.439 UTC",
            "2026-11-23 07:01:51.439 GMT",
            "2026-11-23 07:01:51.439 utc",
            "2026-11-23 07:01:51.439+00",
            "2026-11-23 07:01:51.439000+00",
            "2026-11-23 07:01:51.439000000+00",
            "2026-11-23 07:01:51.439-00",
            "2026-11-23T07:01:51.439Z",
            "2026-11-23t07:01:51.439z",
            " 2026-11-23  12:31:51.439 +05:30 ",
            "2026-11-23T12:31:51.439+0530",
            "2026-11-23 08:01:51.439 CET",
            "2026-11-23 08:01:51.439 Europe/Berlin",
            "2026-11-23 08:01:51.439 europe/berlin",
            "2026-11-23 12:31:51.439 Asia/Kolkata",
            "2026-11-23 00:01:51.439 MST",
            "2026-11-23 10:01:51.439 +03",
            "2026-11-23 16:01:51.439 JST",
            "2026-11-23 02:01:51.439 America/New_York",
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        let minute = read("2026-11-23 07:01+00").expect("without seconds");
        assert_eq!(minute.to_string(), "2026-11-23T07:01:00Z");
    }

    #[test]
    fn a_time_without_a_zone_is_refused_with_both_readings() {
        let text = "2026-11-23 07:01:51.439";
        assert_eq!(
            readings(text, "Asia/Kolkata"),
            [
                "2026-11-23 07:01:51.439+00",
                "2026-11-23 07:01:51.439+05:30"
            ]
        );
        assert_eq!(readings(text, "UTC"), ["2026-11-23 07:01:51.439+00"]);
        assert_eq!(
            readings("2026-10-25 02:30", "Europe/Berlin"),
            [
                "2026-10-25 02:30:00+00",
                "2026-10-25 02:30:00+02",
                "2026-10-25 02:30:00+01"
            ]
        );
        let nowhere = refused(text).readings(&TimeZone::unknown());
        assert_eq!(nowhere.len(), 1, "{nowhere:?}");
    }

    #[test]
    fn a_time_that_the_clocks_left_out_or_showed_twice_is_refused_with_both_offsets() {
        let skipped = refused("2026-03-29 02:30:00 Europe/Berlin");
        assert_eq!(
            skipped.to_string(),
            "there was no 2026-03-29 02:30:00 in Europe/Berlin: the clocks went from +01 to +02"
        );
        let readings_of = skipped.readings(&TimeZone::UTC);
        assert_eq!(readings_of[0].time, "2026-03-29 02:30:00+01");
        assert_eq!(
            readings_of[0].meaning,
            "when the clocks showed 2026-03-29 03:30:00"
        );
        assert_eq!(readings_of[1].time, "2026-03-29 02:30:00+02");
        assert_eq!(
            readings_of[1].meaning,
            "when the clocks showed 2026-03-29 01:30:00"
        );
        let repeated = refused("2026-10-25 02:30:00 Europe/Berlin");
        assert_eq!(
            repeated.to_string(),
            "2026-10-25 02:30:00 was twice in Europe/Berlin: the clocks went back from +02 to +01"
        );
        assert_eq!(
            readings("2026-10-25 02:30:00 Europe/Berlin", "UTC"),
            ["2026-10-25 02:30:00+02", "2026-10-25 02:30:00+01"]
        );
        // The abbreviation of a log says which of the two it was.
        let first = read("2026-10-25 02:30:00 CEST").expect("certain");
        let second = read("2026-10-25 02:30:00 CET").expect("certain");
        assert_eq!(second.duration_since(first).as_secs(), 3600);
    }

    #[test]
    fn what_can_be_misread_is_refused_with_its_readings() {
        for (text, expected) in [
            ("2026-11-23 07:01:51 CST", vec!["-06", "-05", "+08"]),
            ("2026-11-23 07:01:51 ist", vec!["+05:30", "+02", "+01"]),
            ("2026-07-01 07:01:51 CET", vec!["+01", "+02"]),
            ("2026-01-01 07:01:51 CEST", vec!["+02", "+01"]),
            ("2013-01-01 07:01:51 MSK", vec!["+03", "+04"]),
            ("2026-11-23 07:01:51 UTC+1", vec!["+01", "-01"]),
            ("2026-11-23 07:01:51 GMT-05:30", vec!["-05:30", "+05:30"]),
            ("2026-11-23 07:01:51 Etc/GMT+5", vec!["+05", "-05"]),
        ] {
            let clock = &text[..19];
            let expected: Vec<String> = expected.iter().map(|o| format!("{clock}{o}")).collect();
            assert_eq!(readings(text, "UTC"), expected, "{text}");
        }
    }

    #[test]
    fn words_dates_and_other_forms_are_refused() {
        let word = |text: &str| matches!(refused(text), TimeError::Word(_));
        for text in [
            "now",
            "Yesterday",
            "yesterday 12:00+00",
            "epoch",
            "-infinity",
        ] {
            assert!(word(text), "{text}");
        }
        let date = |text: &str| matches!(refused(text), TimeError::DateOnly(_));
        for text in [
            "2026-11-23",
            "2026-11-23 UTC",
            "2026-11-23+01",
            "2026-11-23T",
        ] {
            assert!(date(text), "{text}");
        }
        let offset = |text: &str| matches!(refused(text), TimeError::Offset(_));
        for text in ["2026-11-23 07:01:51+1", "2026-11-23 07:01:51 +16:00"] {
            assert!(offset(text), "{text}");
        }
        let unknown = |text: &str| matches!(refused(text), TimeError::UnknownZone { .. });
        for zone in [
            "Berlin",
            "Nowhere/Else",
            "XYZ",
            "EST5EDT",
            "Japan",
            "right/Europe/Berlin",
            "posix/Europe/Berlin",
            "/usr/share/zoneinfo/Europe/Berlin",
        ] {
            let text = format!("2026-11-23 07:01:51 {zone}");
            assert!(unknown(&text), "{text}");
        }
        let unreadable = |text: &str| matches!(refused(text), TimeError::Unreadable(_));
        for text in [
            "",
            "1795417311",
            "07:01:51+00",
            "23.11.2026 07:01:51+00",
            "11/23/2026 07:01:51+00",
            "2026-02-30 07:01:51+00",
            "2026-11-23 24:00:00+00",
            "2026-11-23 23:59:60+00",
            "2026-11-23 7:01:51+00",
            "2026-11-23 07+00",
            "2026-11-23 07:01:51.+00",
            "2026-11-23 07:01:51 UTC [4711] LOG:  statement",
            "2026-11-23 07:01:51 PM UTC",
            "2026-11-23 07:01:51+00' || 'x",
        ] {
            assert!(unreadable(text), "{text}: {:?}", refused(text));
        }
        let fine = refused("2026-11-23 07:01:51.1234567+00");
        assert!(matches!(fine, TimeError::TooFine(_)), "{fine}");
    }

    #[test]
    fn without_a_time_zone_database_offsets_are_left() {
        let nothing = TimeZoneDatabase::none();
        for text in [
            "2026-11-23 07:01:51 UTC",
            "2026-11-23 16:01:51 JST",
            "2026-11-23 07:01:51+00",
        ] {
            let time = read_with(text, &nothing).expect(text);
            assert_eq!(time.to_string(), "2026-11-23T07:01:51Z");
        }
        for text in [
            "2026-11-23 08:01:51 Europe/Berlin",
            "2026-11-23 08:01:51 CET",
        ] {
            let error = read_with(text, &nothing).expect_err(text);
            assert!(
                error.to_string().contains("no time zone database"),
                "{error}"
            );
        }
    }
}
