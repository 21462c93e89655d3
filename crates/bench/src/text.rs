//! How results are written as text: what stands below tables, numbers with nouns, values for CSV.

use std::fmt;
use std::io;

use crate::server::Settings;
use crate::{Program, Provenance, Resumed};

/// What the reader of a table must not miss.
pub(crate) fn write_ending(
    f: &mut fmt::Formatter<'_>,
    left_out: &[String],
    resumed: &[Resumed],
    provenance: &Provenance,
    stopped: &Option<String>,
) -> fmt::Result {
    for reason in left_out {
        writeln!(f, "\n{reason}")?;
    }
    for Resumed { date, measurements } in resumed {
        let taken = counted(*measurements, "measurement");
        writeln!(f, "\n{taken} of an earlier run were taken over ({date}).")?;
    }
    if let Some(load) = provenance.load_of_others() {
        let cpus = provenance.cpus;
        writeln!(
            f,
            "\nThe machine was busy before this began (load {load:.1} on {cpus} processors): \
             do not trust the wall times."
        )?;
    }
    match stopped {
        Some(reason) => writeln!(f, "\nIncomplete: {reason}."),
        None => Ok(()),
    }
}

/// The ending where what was not measured is a "-" in a table.
pub(crate) fn write_gaps(f: &mut fmt::Formatter<'_>, stopped: &Option<String>) -> fmt::Result {
    match stopped {
        Some(reason) => writeln!(f, "\nIncomplete: {reason}. What is missing shows \"-\"."),
        None => Ok(()),
    }
}

/// What a headline says of a quick look at a server's work.
pub(crate) fn quick_look(quick: bool) -> &'static str {
    match quick {
        true => "; quick: too small to conclude from",
        false => "",
    }
}

/// The line about a server before comma-separated values.
pub(crate) fn write_csv_server(
    to: &mut dyn io::Write,
    server: &Program,
    settings: &Settings,
) -> io::Result<()> {
    writeln!(to, "# server: {}, {}", server.version, settings.line())
}

/// The last lines before comma-separated values.
pub(crate) fn write_csv_ending(
    to: &mut dyn io::Write,
    resumed: &[Resumed],
    left_out: &[String],
    stopped: &Option<String>,
) -> io::Result<()> {
    for Resumed { date, measurements } in resumed {
        writeln!(to, "# resumed: {measurements} measurements of {date}")?;
    }
    for reason in left_out {
        writeln!(to, "# {}", reason.replace('\n', " "))?;
    }
    match stopped {
        Some(reason) => writeln!(to, "# incomplete: {}", reason.replace('\n', " ")),
        None => Ok(()),
    }
}

/// Bytes as the megabytes of disks, a million bytes each.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A number with its noun.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}

/// A value of a CSV line.
pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Bytes in the unit that a person would use.
pub(crate) fn bytes(bytes: f64) -> String {
    match bytes.abs() {
        b if b < 1e3 => format!("{bytes:.0} bytes"),
        b if b < 1e6 => format!("{:.1} KB", bytes / 1e3),
        b if b < 1e9 => format!("{:.1} MB", bytes / 1e6),
        b if b < 1e12 => format!("{:.2} GB", bytes / 1e9),
        _ => format!("{:.2} TB", bytes / 1e12),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_a_comma_or_a_quote_is_quoted() {
        assert_eq!(quoted("oltp-mixed"), "oltp-mixed");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"no\""), "\"say \"\"no\"\"\"");
    }
}
