//! Lengths of time as they are given on a command line: `12h`, `30d`, `2w`.

use jiff::SignedDuration;

/// More than a person means, and less than time arithmetic can hold.
const HOURS_MAX: i64 = 1000 * 366 * 24;

/// Seconds of a year: nobody waits longer, and it can be added to any moment.
pub const SECONDS_MAX: u64 = 366 * 24 * 60 * 60;

/// Reads a number of hours, days or weeks.
pub fn duration(text: &str) -> Result<SignedDuration, String> {
    let (number, hours) = match text.char_indices().last() {
        Some((at, 'h')) => (text.get(..at), 1),
        Some((at, 'd')) => (text.get(..at), 24),
        Some((at, 'w')) => (text.get(..at), 7 * 24),
        _ => (None, 0),
    };
    let number = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let count: Option<i64> = number.and_then(|number| number.parse().ok());
    let hours = count.and_then(|count| count.checked_mul(hours));
    hours
        .filter(|hours| *hours <= HOURS_MAX)
        .map(SignedDuration::from_hours)
        .ok_or_else(|| "it is a number followed by h, d or w, such as 14d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_hours_days_and_weeks() {
        for (text, hours) in [("12h", 12), ("30d", 720), ("2w", 336), ("0d", 0)] {
            assert_eq!(duration(text), Ok(SignedDuration::from_hours(hours)));
        }
        for text in [
            "",
            "d",
            "14",
            "-1d",
            "+1d",
            "1.5d",
            "1 d",
            "1m",
            "99999999999999999999d",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
