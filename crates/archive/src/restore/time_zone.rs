//! What the end of a time says: its offset from UTC, or a zone whose offset then is known.
//!
//! A zone is taken only where everybody reads it alike: PostgreSQL, whoever wrote it, and whoever
//! reads it. Whatever has two readings is refused with both. The rules of named zones are the
//! machine's (the time zone database in /usr/share/zoneinfo); without it offsets are left, and
//! the abbreviations that mean the same all year.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

use crate::error::time_error::TimeError;

/// PostgreSQL takes no offset of 16 hours or more.
const OFFSET_SECONDS_MAX: i32 = 16 * 3600 - 1;

/// Names of UTC, in PostgreSQL's set of abbreviations and elsewhere.
const UTC: &[&str] = &["UTC", "GMT", "Z", "UT", "UCT", "ZULU", "ETC/UTC", "ETC/GMT"];

/// Abbreviations with one meaning in PostgreSQL's own set (timezone/tznames/Default, where the
/// others are marked as conflicts) and in the time zone database since 2015: seconds east of UTC
/// and, where clocks change, a zone that shows whether the abbreviation is in force.
const ABBREVIATIONS: &[(&str, i32, Option<&str>)] = &[
    ("ACDT", 37_800, Some("Australia/Adelaide")),
    ("ACST", 34_200, Some("Australia/Adelaide")),
    ("ADT", -10_800, Some("America/Halifax")),
    ("AEDT", 39_600, Some("Australia/Sydney")),
    ("AEST", 36_000, Some("Australia/Sydney")),
    ("AKDT", -28_800, Some("America/Anchorage")),
    ("AKST", -32_400, Some("America/Anchorage")),
    ("AWST", 28_800, None),
    ("CEST", 7_200, Some("Europe/Berlin")),
    ("CET", 3_600, Some("Europe/Berlin")),
    ("EAT", 10_800, None),
    ("EDT", -14_400, Some("America/New_York")),
    ("EEST", 10_800, Some("Europe/Athens")),
    ("EET", 7_200, Some("Europe/Athens")),
    ("HKT", 28_800, None),
    ("HST", -36_000, None),
    ("JST", 32_400, None),
    ("MDT", -21_600, Some("America/Denver")),
    ("MSK", 10_800, Some("Europe/Moscow")),
    ("MST", -25_200, Some("America/Denver")),
    ("NZDT", 46_800, Some("Pacific/Auckland")),
    ("NZST", 43_200, Some("Pacific/Auckland")),
    ("PDT", -25_200, Some("America/Los_Angeles")),
    ("PKT", 18_000, None),
    ("SAST", 7_200, None),
    ("WEST", 3_600, Some("Europe/Lisbon")),
    ("WET", 0, Some("Europe/Lisbon")),
];

/// Abbreviations that people use for several zones: PostgreSQL takes one of them.
const SEVERAL: &[(&str, &[(i32, &str)])] = &[
    (
        "AST",
        &[(-14_400, "Atlantic Canada's"), (10_800, "Arabia's")],
    ),
    ("BST", &[(3_600, "Britain's"), (39_600, "Bougainville's")]),
    ("CDT", &[(-18_000, "North America's"), (-14_400, "Cuba's")]),
    (
        "CST",
        &[
            (-21_600, "North America's"),
            (-18_000, "Cuba's"),
            (28_800, "China's"),
        ],
    ),
    (
        "EST",
        &[(-18_000, "North America's"), (36_000, "Australia's")],
    ),
    (
        "IST",
        &[
            (19_800, "India's"),
            (7_200, "Israel's"),
            (3_600, "Ireland's"),
        ],
    ),
    (
        "PST",
        &[(-28_800, "North America's"), (28_800, "the Philippines'")],
    ),
];

/// The offset that a zone, as it stands after a time, has at that time.
pub(super) fn offset(
    at: DateTime,
    zone: &str,
    rules: &TimeZoneDatabase,
) -> Result<Offset, TimeError> {
    let unknown = || TimeError::UnknownZone {
        zone: zone.to_owned(),
        has_rules: !rules.is_definitively_empty(),
    };
    if zone.starts_with(['+', '-']) {
        return numeric(zone).ok_or_else(|| TimeError::Offset(zone.to_owned()));
    }
    let upper = zone.to_ascii_uppercase();
    if UTC.contains(&upper.as_str()) {
        return Ok(Offset::UTC);
    }
    if let Some(east) = signed(&upper) {
        return Err(TimeError::Sign {
            at,
            zone: zone.to_owned(),
            east,
        });
    }
    if let Some((_, meanings)) = SEVERAL.iter().find(|(name, _)| *name == upper) {
        return Err(TimeError::SeveralZones {
            at,
            abbreviation: upper,
            meanings,
        });
    }
    if let Some((name, seconds, reference)) = ABBREVIATIONS.iter().find(|(name, ..)| *name == upper)
    {
        let offset = Offset::from_seconds(*seconds).map_err(|_| unknown())?;
        let Some(reference) = reference else {
            return Ok(offset);
        };
        let reference = rules.get(reference).map_err(|_| unknown())?;
        return in_season(at, name, offset, &reference);
    }
    // Names without a slash are abbreviations, or read like one.
    if !zone.contains('/') {
        return Err(unknown());
    }
    let zone = rules.get(zone).map_err(|_| unknown())?;
    of_zone(at, &zone)
}

/// The offset of a zone at a time of its clocks.
fn of_zone(at: DateTime, zone: &TimeZone) -> Result<Offset, TimeError> {
    let name = || zone.iana_name().unwrap_or("the zone").to_owned();
    match zone.to_ambiguous_timestamp(at).offset() {
        AmbiguousOffset::Unambiguous { offset } => Ok(offset),
        AmbiguousOffset::Gap { before, after } => Err(TimeError::Skipped {
            at,
            zone: name(),
            before,
            after,
        }),
        AmbiguousOffset::Fold { before, after } => Err(TimeError::Repeated {
            at,
            zone: name(),
            before,
            after,
        }),
    }
}

/// Who writes CET in July may mean the time in Berlin, or the offset that CET stands for:
/// PostgreSQL takes the offset, which is then an hour later.
fn in_season(
    at: DateTime,
    abbreviation: &str,
    offset: Offset,
    reference: &TimeZone,
) -> Result<Offset, TimeError> {
    let moment = offset.to_timestamp(at).map_err(|_| TimeError::Range(at))?;
    let then = reference.to_offset_info(moment);
    if then.offset() == offset && then.abbreviation() == abbreviation {
        return Ok(offset);
    }
    Err(TimeError::OutOfSeason {
        at,
        abbreviation: abbreviation.to_owned(),
        offset,
        zone: reference.iana_name().unwrap_or_default().to_owned(),
        in_force: then.offset(),
    })
}

/// `+00`, `-05:30`, `+0530` or, as PostgreSQL writes old local times, `+00:53:28`.
fn numeric(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let fields: Vec<&str> = match digits.len() {
        4 => vec![digits.get(..2)?, digits.get(2..)?],
        _ => digits.split(':').collect(),
    };
    let mut seconds = 0;
    for (field, (unit, max)) in fields.iter().zip([(3600, 15), (60, 59), (1, 59)]) {
        seconds += unit * two_digits(field).filter(|&value| value <= max)?;
    }
    let offset = Offset::from_seconds(sign * seconds).ok()?;
    (fields.len() <= 3 && seconds <= OFFSET_SECONDS_MAX).then_some(offset)
}

fn two_digits(text: &str) -> Option<i32> {
    let plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// `UTC+1`: the offset that most people read in it. PostgreSQL reads the opposite, as POSIX does.
fn signed(upper: &str) -> Option<Offset> {
    let names = ["ETC/GMT", "UTC", "GMT", "UT", "Z"];
    let rest = names.iter().find_map(|name| upper.strip_prefix(name))?;
    let (sign, rest) = rest.trim_start().split_at_checked(1)?;
    let hours = rest.split(':').next().unwrap_or_default();
    let padded = match hours.len() {
        1 => format!("{sign}0{rest}"),
        _ => format!("{sign}{rest}"),
    };
    numeric(&padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_two_digits_for_each_of_its_fields() {
        for (text, seconds) in [
            ("+00", 0),
            ("-00", 0),
            ("+05:30", 19_800),
            ("-0530", -19_800),
            ("+00:53:28", 3208),
            ("+15:59:59", OFFSET_SECONDS_MAX),
        ] {
            assert_eq!(numeric(text).map(Offset::seconds), Some(seconds), "{text}");
        }
        for text in [
            "+",
            "+1",
            "+100",
            "+16",
            "+05:60",
            "+05:3",
            "+05:30:00:00",
            "+0x",
            "+٠٠",
        ] {
            assert_eq!(numeric(text), None, "{text}");
        }
    }

    #[test]
    fn no_abbreviation_has_two_entries() {
        let names = ABBREVIATIONS.iter().map(|(name, ..)| *name);
        let mut names: Vec<&str> = names.chain(SEVERAL.iter().map(|(name, _)| *name)).collect();
        names.extend(UTC);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// Every zone that has used one of the abbreviations since 2015 has meant the same by it, and
    /// those said to have several meanings are no zone's only by habit.
    #[test]
    fn the_time_zone_database_agrees_with_every_abbreviation() {
        let rules = TimeZoneDatabase::from_env();
        let days = (0..12 * 365).step_by(15).map(|day| {
            let second = 1_420_070_400 + day * 86_400;
            jiff::Timestamp::from_second(second).expect("in range")
        });
        let days: Vec<jiff::Timestamp> = days.collect();
        let mut seen = 0;
        for name in rules.available() {
            let zone = rules.get(name.as_str()).expect("it is there");
            // Pyongyang's KST was half an hour behind Seoul's: KST is not among ours.
            for day in &days {
                let then = zone.to_offset_info(*day);
                let ours = ABBREVIATIONS
                    .iter()
                    .find(|(name, ..)| *name == then.abbreviation());
                if let Some((abbreviation, seconds, _)) = ours {
                    assert_eq!(
                        then.offset().seconds(),
                        *seconds,
                        "{abbreviation} in {name:?}"
                    );
                    seen += 1;
                }
            }
        }
        assert!(seen > 10_000, "is the time zone database here? {seen} uses");
    }
}
