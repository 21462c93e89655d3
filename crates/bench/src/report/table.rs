//! Tables: rows under heads, of which some rest on wall times, and why cells are empty.

use std::fmt::{self, Write};

use super::write_html;
use crate::table::write_table;

/// What a cell says where nothing is known.
const NONE: &str = "\u{2013}";

/// Rows under heads; a click on a head sorts.
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// Heads of columns that rest on wall times.
    wall: Vec<String>,
    /// Why cells under some heads are empty.
    empty: Vec<(String, &'static str)>,
}

impl Table {
    /// A table without rows yet.
    pub fn new<H: Into<String>>(heads: impl IntoIterator<Item = H>) -> Table {
        Table {
            heads: heads.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            wall: Vec::new(),
            empty: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Names columns that rest on wall times: they are grey where the machine was busy.
    pub fn wall<H: Into<String>>(mut self, heads: impl IntoIterator<Item = H>) -> Table {
        self.wall.extend(heads.into_iter().map(Into::into));
        self
    }

    /// Says why cells under a head are empty, where they are.
    pub fn empty(mut self, head: impl Into<String>, reason: &'static str) -> Table {
        self.empty.push((head.into(), reason));
        self
    }

    /// Why cells are empty, each reason with the heads that it is of.
    fn reasons(&self) -> Vec<(&'static str, Vec<&str>)> {
        let mut reasons: Vec<(&'static str, Vec<&str>)> = Vec::new();
        for (column, head) in self.heads.iter().enumerate() {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            if !cells.any(|cell| cell.text == NONE) {
                continue;
            }
            let reason = self.why_empty(head);
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, heads)) if heads.contains(&head.as_str()) => {}
                Some((_, heads)) => heads.push(head),
                None => reasons.push((reason, vec![head])),
            }
        }
        reasons
    }

    fn why_empty(&self, head: &str) -> &'static str {
        let said = self.empty.iter().find(|(of, _)| *of == head);
        match said {
            Some((_, reason)) => reason,
            None if head.contains("published") => "not published",
            None if head.contains("spread") => "a single run has none",
            None => "not measured",
        }
    }

    fn is_wall(&self, column: usize) -> bool {
        let head = self.heads.get(column);
        head.is_some_and(|head| self.wall.contains(head))
    }

    /// Adds a row that is walzip's, or another.
    pub(crate) fn row_of(&mut self, is_walzip: bool, cells: Vec<Cell>) {
        match is_walzip {
            true => self.row(cells.into_iter().map(Cell::ours)),
            false => self.row(cells),
        }
    }
}

/// As a terminal shows it.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |cell: &Cell| match cell.text.as_str() {
            NONE => "-".to_owned(),
            text => text.to_owned(),
        };
        let rows = self.rows.iter().map(|row| row.iter().map(text).collect());
        let lines: Vec<_> = std::iter::once(self.heads.clone()).chain(rows).collect();
        write_table(f, &lines)
    }
}

/// A cell of a table: what is shown and what it is sorted by.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    value: Option<f64>,
    kind: &'static str,
}

impl Cell {
    /// A number, with so many decimals.
    pub fn number(value: f64, decimals: usize) -> Cell {
        Cell::said(value, format!("{value:.decimals$}"))
    }

    /// A number where there is one.
    pub fn number_or_none(value: Option<f64>, decimals: usize) -> Cell {
        value.map_or_else(Cell::none, |value| Cell::number(value, decimals))
    }

    /// Nothing is known.
    pub fn none() -> Cell {
        Cell::from(NONE)
    }

    /// A number in words of its own, such as `1.2 GB`.
    pub fn said(value: f64, text: String) -> Cell {
        Cell {
            text,
            value: Some(value),
            kind: "",
        }
    }

    /// A share as a percentage, where there is one.
    pub fn percent(share: Option<f64>) -> Cell {
        share.map_or_else(Cell::none, |share| {
            Cell::said(share, format!("{:.0}%", share * 100.0))
        })
    }

    /// What is shown.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Marks what is walzip's.
    pub fn ours(mut self) -> Cell {
        self.kind = "ours";
        self
    }

    /// Text that is longer than a figure: set to the left.
    pub fn left(mut self) -> Cell {
        self.kind = "left";
        self
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell {
            text: text.into(),
            ..Cell::default()
        }
    }
}

impl Table {
    pub(super) fn write(&self, html: &mut String) {
        html.push_str("<div class=\"scroll\"><table><thead><tr>");
        for (column, head) in self.heads.iter().enumerate() {
            let first = self.rows.first().and_then(|row| row.get(column));
            let before = match first.map(|cell| cell.kind) {
                Some("left") => "<th class=\"left\"><button type=\"button\">",
                _ => "<th><button type=\"button\">",
            };
            write_html(html, before, head, "</button></th>");
        }
        html.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            html.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let wall = if self.is_wall(column) { " wall" } else { "" };
                let _infallible = write!(html, "<td class=\"{}{wall}\"", cell.kind);
                if let Some(value) = cell.value {
                    let _infallible = write!(html, " data-value=\"{value}\"");
                }
                write_html(html, ">", &cell.text, "</td>");
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n");
        let reasons = self.reasons();
        if let [(reason, _)] = reasons.as_slice() {
            write_html(html, "<p class=\"note\">\u{2013}: ", reason, ".</p>\n");
        } else if !reasons.is_empty() {
            let said = reasons.iter().map(|(reason, heads)| {
                let heads: Vec<String> = heads
                    .iter()
                    .map(|head| format!("\u{201c}{head}\u{201d}"))
                    .collect();
                format!("under {}, {reason}", heads.join(", "))
            });
            let said: Vec<String> = said.collect();
            write_html(
                html,
                "<p class=\"note\">\u{2013}: ",
                &said.join("; "),
                ".</p>\n",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_cells_say_why() {
        let mut table =
            Table::new(["way", "s", "published s", "price"]).empty("price", "no price is known");
        table.row([
            Cell::from("cp"),
            Cell::number(1.0, 1),
            Cell::none(),
            Cell::number(1.0, 0),
        ]);
        let html = |table: &Table| {
            let mut html = String::new();
            table.write(&mut html);
            html
        };
        assert!(html(&table).contains("<p class=\"note\">\u{2013}: not published.</p>"));
        table.row([Cell::from("scp"), Cell::none(), Cell::none(), Cell::none()]);
        let said = "\u{2013}: under \u{201c}s\u{201d}, not measured; under \u{201c}published s\u{201d}, \
            not published; under \u{201c}price\u{201d}, no price is known.";
        assert!(html(&table).contains(said), "{}", html(&table));
    }
}
