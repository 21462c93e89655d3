//! Tables on a terminal.

use std::fmt;

/// The cells of a line.
pub type Row = Vec<String>;

/// Writes an empty line and aligned columns, the first to the left; nothing when there are no
/// rows.
pub fn write_table(f: &mut impl fmt::Write, heads: &[&str], rows: Vec<Row>) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let heads: Row = heads.iter().map(ToString::to_string).collect();
    let width = |column: usize| {
        let cells = std::iter::once(&heads)
            .chain(&rows)
            .map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    writeln!(f)?;
    for row in std::iter::once(&heads).chain(&rows) {
        let mut line = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
