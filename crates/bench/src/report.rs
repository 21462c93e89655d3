//! Results as one HTML file that can be sent to a colleague.
//!
//! A file holds everything that it needs, data, style and script, and its own policy forbids
//! the browser to fetch anything: it opens from a disk, without a network, for years. Tables
//! and bars are drawn here and can be read where scripts are switched off; the script adds the
//! theme's switch, sorting, and values under the pointer.
//!
//! [`page`] is for experiments whose results are tables and bars. The comparison of programs has
//! a page of its own (`wal/report.rs`), made of the same style and the same script.

mod bars;
mod pairs;
mod panels;
mod scale;
mod scatter;
mod table;

use crate::provenance::Provenance;

pub use bars::Bars;
pub use pairs::Pairs;
pub use panels::Panels;
pub use scatter::Scatter;
pub use table::{Cell, Table};

pub(crate) const STYLE: &str = include_str!("report/style.css");
pub(crate) const SCRIPT: &str = include_str!("report/common.js");
const PAGE: &str = include_str!("report/page.html");

/// A part of a page, with a title.
#[derive(Clone, Debug, Default)]
pub struct Section {
    title: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Paragraph(String),
    Note(String),
    Warning(String),
    Code(Vec<String>),
    Table(Table),
    Bars(Bars),
    Panels(Panels),
    Pairs(Pairs),
    Scatter(Scatter),
}

impl Section {
    /// A section with nothing in it yet.
    pub fn new(title: impl Into<String>) -> Section {
        Section {
            title: title.into(),
            parts: Vec::new(),
        }
    }

    /// Adds a paragraph.
    pub fn paragraph(mut self, text: impl Into<String>) -> Section {
        self.parts.push(Part::Paragraph(text.into()));
        self
    }

    /// Adds a paragraph in small print: what a table's columns mean, where figures come from.
    pub fn note(mut self, text: impl Into<String>) -> Section {
        self.parts.push(Part::Note(text.into()));
        self
    }

    /// Adds what the reader must not miss: a failure, a figure that is not to be trusted.
    pub fn warning(mut self, text: impl Into<String>) -> Section {
        self.parts.push(Part::Warning(text.into()));
        self
    }

    /// Adds lines that can be copied.
    pub fn code(mut self, lines: &[String]) -> Section {
        self.parts.push(Part::Code(lines.to_vec()));
        self
    }

    /// Adds a table.
    pub fn table(mut self, table: Table) -> Section {
        self.parts.push(Part::Table(table));
        self
    }

    /// Adds points by two values.
    pub fn scatter(mut self, scatter: Scatter) -> Section {
        self.parts.push(Part::Scatter(scatter));
        self
    }

    /// Adds charts side by side.
    pub fn panels(mut self, panels: Panels) -> Section {
        self.parts.push(Part::Panels(panels));
        self
    }

    /// Adds two values of each of several things.
    pub fn pairs(mut self, pairs: Pairs) -> Section {
        self.parts.push(Part::Pairs(pairs));
        self
    }

    /// Adds bars.
    pub fn bars(mut self, bars: Bars) -> Section {
        self.parts.push(Part::Bars(bars));
        self
    }
}

/// A whole page; everything in it is escaped. The answer to what the title asks comes first, in one
/// sentence with its uncertainty.
pub fn page(title: &str, answer: &str, sections: &[Section], provenance: &Provenance) -> String {
    let mut body = String::new();
    for section in sections {
        section.write(&mut body);
    }
    how_it_was_measured(provenance).write(&mut body);
    let day = provenance.date.split('T').next().unwrap_or_default();
    let subtitle = format!("{day}, {}", provenance.machine());
    let slots = [
        ("TITLE", escaped(title)),
        ("SUBTITLE", escaped(&subtitle)),
        ("ANSWER", escaped(answer)),
        ("BUSY", busy(provenance.load_of_others(), provenance)),
        ("LOAD", load_class(provenance.load_of_others()).to_owned()),
        ("STYLE", STYLE.to_owned()),
        ("BODY", body),
        ("SCRIPT", SCRIPT.to_owned()),
    ];
    fill(PAGE, &slots)
}

/// What the page of a busy machine says at its top, given the load of others.
pub(crate) fn busy(load: Option<f64>, provenance: &Provenance) -> String {
    let when = match provenance.load_of_others() == load {
        true => "before this began",
        false => "while this was measured",
    };
    let said = load.map(|load| {
        format!(
            "<p class=\"warning\" id=\"busy\">The machine was busy {when} (load {load:.1} on {} \
             processors): trust sizes and processor seconds. What rests on wall times is grey.</p>",
            provenance.cpus
        )
    });
    said.unwrap_or_default()
}

/// The class of the body of such a page.
pub(crate) fn load_class(load: Option<f64>) -> &'static str {
    match load {
        Some(_) => "busy",
        None => "idle",
    }
}

/// Puts the measurements and the command that made them at the end of a page.
pub(crate) fn with_data(html: &str, csv: &str, command: Option<&str>) -> String {
    // Text that is shown is escaped, so this is the template's own.
    let Some((page, end)) = html.rsplit_once("</main>") else {
        return html.to_owned();
    };
    let command = command.map_or(String::new(), |command| {
        format!(
            "<p>Made by <code id=\"command\">{}</code></p>\n",
            escaped(command)
        )
    });
    format!(
        "{page}<section id=\"data-section\">\n<h2>The measurements</h2>\n{command}\
         <p><button type=\"button\" id=\"save-csv\">Save as CSV</button></p>\n\
         <details><summary>All of them, one a line</summary>\
         <pre id=\"csv\" tabindex=\"0\">{}</pre></details>\n</section>\n</main>{end}",
        escaped(csv)
    )
}

/// Adds what went wrong to a section: the reader must not miss it.
pub(crate) fn ending(
    section: Section,
    reasons: impl Iterator<Item = String>,
    stopped: &Option<String>,
) -> Section {
    let section = reasons.fold(section, Section::warning);
    match stopped {
        Some(reason) => section.warning(format!("Incomplete: {reason}.")),
        None => section,
    }
}

fn how_it_was_measured(provenance: &Provenance) -> Section {
    let load = |load: Option<f64>| load.map_or_else(Cell::none, |load| Cell::number(load, 2));
    let mut table = Table::new(["what", "here"]);
    let mut row = |name: &str, value: Cell| table.row([Cell::from(name), value.left()]);
    row("machine", provenance.machine().into());
    row("begun", provenance.date.as_str().into());
    row("harness", provenance.harness.as_str().into());
    row("load before", load(provenance.load_average_before));
    row("load after", load(provenance.load_average_after));
    Section::new("How it was measured").table(table)
}

impl Section {
    fn write(&self, html: &mut String) {
        html.push_str("<section>\n");
        write_html(html, "<h2>", &self.title, "</h2>\n");
        for part in &self.parts {
            match part {
                Part::Paragraph(text) => write_html(html, "<p>", text, "</p>\n"),
                Part::Note(text) => write_html(html, "<p class=\"note\">", text, "</p>\n"),
                Part::Warning(text) => write_html(html, "<p class=\"warning\">", text, "</p>\n"),
                Part::Code(lines) => {
                    let lines = lines.join("\n");
                    write_html(
                        html,
                        "<pre class=\"code\" tabindex=\"0\">",
                        &lines,
                        "</pre>\n",
                    );
                }
                Part::Table(table) => table.write(html),
                Part::Bars(bars) => bars.write(html),
                Part::Panels(panels) => panels.write(html),
                Part::Pairs(pairs) => pairs.write(html),
                Part::Scatter(scatter) => scatter.write(html),
            }
        }
        html.push_str("</section>\n");
    }
}

fn write_html(html: &mut String, before: &str, text: &str, after: &str) {
    html.push_str(before);
    html.push_str(&escaped(text));
    html.push_str(after);
}

/// Text that cannot be taken for anything else, between tags and within attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

/// The text that was escaped.
pub(crate) fn unescaped(html: &str) -> String {
    let marks = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        // Last, so that nothing becomes a mark by it.
        ("&amp;", "&"),
    ];
    marks
        .into_iter()
        .fold(html.to_owned(), |text, (mark, plain)| {
            text.replace(mark, plain)
        })
}

/// Fills the slots of a template, which are written `@@NAME@@`. What is filled in is not
/// looked at again.
pub(crate) fn fill(template: &str, slots: &[(&str, String)]) -> String {
    let mut filled = String::new();
    let mut pieces = template.split("@@");
    filled.push_str(pieces.next().unwrap_or_default());
    while let (Some(name), Some(text)) = (pieces.next(), pieces.next()) {
        let slot = slots.iter().find(|(slot, _)| *slot == name);
        filled.push_str(slot.map_or("", |(_, value)| value));
        filled.push_str(text);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> String {
        let mut table = Table::new(["setting", "MB", "published MB"]);
        table.row([
            Cell::from("<off>"),
            Cell::number(208.14, 1).ours(),
            Cell::none(),
        ]);
        let mut bars = Bars::new("s", 1);
        bars.bar("cp & sync", Some(5.0), Some(17.4));
        bars.bar("scp", None, None);
        bars.ours("walzip", Some(1000.0));
        let section = Section::new("Sizes")
            .paragraph("one")
            .note("two")
            .warning("three @@BODY@@")
            .table(table)
            .bars(bars);
        page("A \"title\"", "Yes & no.", &[section], &idle())
    }

    fn idle() -> Provenance {
        Provenance {
            load_average_before: Some(0.0),
            ..Provenance::gather(None)
        }
    }

    #[test]
    fn the_answer_comes_first_and_the_measurements_and_their_command_last() {
        let page = with_data(&example(), "a,b\n1,</pre>\n", Some("walzip bench <x>"));
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
        assert!(place("<p id=\"answer\">Yes &amp; no.</p>") < place("<section>"));
        assert!(place("<section>") < place("walzip bench &lt;x&gt;</code>"));
        assert!(page.contains("<pre id=\"csv\" tabindex=\"0\">a,b\n1,&lt;/pre&gt;\n</pre>"));
        assert_eq!(
            unescaped(&escaped("<a> & \"b\" 'c' &lt;")),
            "<a> & \"b\" 'c' &lt;"
        );
    }

    #[test]
    fn a_busy_machine_is_said_at_the_top_and_what_rests_on_wall_times_is_marked() {
        let mut table = Table::new(["setting", "s", "MB"]).wall(["s"]);
        table.row([
            Cell::from("off"),
            Cell::number(1.0, 1),
            Cell::number(2.0, 1),
        ]);
        let mut provenance = idle();
        let section = Section::new("Times").table(table);
        let html = page("T", "A.", std::slice::from_ref(&section), &provenance);
        assert!(html.contains("<body class=\"idle\">") && !html.contains("id=\"busy\""));
        provenance.load_average_before = Some(90.0);
        let html = page("T", "A.", &[section], &provenance);
        assert!(html.contains("<body class=\"busy\">"));
        assert!(html.find("id=\"busy\"") < html.find("<section>"));
        assert_eq!(html.matches("<td class=\" wall\"").count(), 1);
    }

    #[test]
    fn a_page_is_complete_in_itself_and_refers_to_nothing_outside() {
        let page = example();
        assert!(page.contains(STYLE) && page.contains(SCRIPT));
        for outside in ["://", "src=", "href=", "url(", "@import", "fetch("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn what_is_shown_is_escaped_and_not_taken_for_a_slot() {
        let page = example();
        assert!(page.contains("&lt;off&gt;") && !page.contains("<off>"));
        assert!(page.contains("cp &amp; sync") && page.contains("A &quot;title&quot;"));
        assert!(page.contains("three @@BODY@@"));
    }

    #[test]
    fn numbers_sort_by_their_value() {
        let page = example();
        assert!(page.contains("data-value=\"208.14\">208.1</td>"));
        assert!(page.contains("not measured") && page.contains("17.4 s published"));
    }
}
