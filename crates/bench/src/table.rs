//! Tables on a terminal.

use std::fmt;

/// Writes lines of cells in aligned columns, the first to the left and the others to the right. A
/// line may be shorter than the others.
pub fn write_table(f: &mut impl fmt::Write, lines: &[Vec<String>]) -> fmt::Result {
    let mut widths = Vec::new();
    for line in lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    for line in lines {
        let mut text = String::new();
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            text += &match column {
                0 => format!("{cell:width$}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        writeln!(f, "{}", text.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let lines = [
            vec!["name", "bytes", "share"],
            vec!["größe", "1"],
            vec!["x", "1000000", "5 %"],
        ]
        .map(|line| line.iter().map(ToString::to_string).collect());
        let mut text = String::new();
        write_table(&mut text, &lines).unwrap();
        assert_eq!(
            text,
            "name     bytes  share\ngröße        1\nx      1000000    5 %\n"
        );
    }
}
