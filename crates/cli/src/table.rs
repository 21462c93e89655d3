//! Tables in the output of a command.

use std::fmt;

/// The cells of a line.
pub type Row = Vec<String>;

/// Writes an empty line and a table; nothing when there are no rows.
pub fn write_section(f: &mut impl fmt::Write, heads: &[&str], mut rows: Vec<Row>) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    rows.insert(0, heads.iter().map(ToString::to_string).collect());
    writeln!(f)?;
    walzip_bench::write_table(f, &rows)
}
