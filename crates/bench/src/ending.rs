//! What stands below tables and comma-separated values, whatever was measured.

use std::fmt;
use std::io;

use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::resume::Resumed;
use crate::server::Settings;
use crate::text::counted;

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
