//! A page over all reports of a directory: what each asks, what it answers, and when.
//!
//! What is shown is taken from the pages themselves, so it needs neither their data nor this
//! version. A page that was made before pages had an answer is listed without one.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::output::Files;
use crate::report::{escaped, fill, unescaped};

const PAGE: &str = include_str!("report/index.html");
const STYLE: &str = crate::report::STYLE;
const SCRIPT: &str = crate::report::SCRIPT;

/// The name of the page that is written.
pub const NAME: &str = "index.html";

/// What a report says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file's name.
    pub name: String,
    /// What it asks.
    pub title: String,
    /// What it answers, in one sentence.
    pub answer: Option<String>,
    /// When and on what it was measured.
    pub subtitle: String,
    /// What has to be known of it.
    pub remarks: Vec<&'static str>,
}

/// What a page has that is to be known of it, and the words for that. The data of a comparison are in
/// its page.
const REMARKS: [(&str, &str); 3] = [
    ("id=\"busy\"", "the machine was busy: wall times are grey"),
    (">Incomplete: ", "incomplete"),
    ("\"stopped\":\"", "incomplete"),
];

/// Writes the index of a directory's reports into it. Returns what is in it.
pub fn write(directory: &Path, force: bool) -> Result<Vec<Entry>, Error> {
    let entries = entries(directory)?;
    if entries.is_empty() {
        return Err(Error::Usage(format!(
            "{} has no page that --report wrote",
            directory.display()
        )));
    }
    let files = Files {
        report: Some(directory.join(NAME)),
        // An index is made from what lies beside it: another one of it loses nothing.
        force: force || is_index(&directory.join(NAME)),
        ..Files::default()
    };
    files.check()?;
    let page = page(&entries);
    files.put(files.report.as_deref(), |to| to.write_all(page.as_bytes()))?;
    Ok(entries)
}

/// The reports of a directory: the newest of each question first.
fn entries(directory: &Path) -> Result<Vec<Entry>, Error> {
    let found = fs::read_dir(directory).map_err(|source| Error::file(directory, source))?;
    let mut entries = Vec::new();
    for path in found.flatten().map(|entry| entry.path()) {
        let is_page = path.extension().is_some_and(|suffix| suffix == "html");
        if !is_page || path.ends_with(NAME) {
            continue;
        }
        let html = fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        entries.extend(entry(&name, &html));
    }
    entries.sort_by(|a, b| (&a.title, &b.name).cmp(&(&b.title, &a.name)));
    Ok(entries)
}

/// What a page says of itself; none where it is no report.
fn entry(name: &str, html: &str) -> Option<Entry> {
    let between = |start: &str, end: &str| {
        let text = html.split(start).nth(1)?.split(end).next()?;
        Some(unescaped(text.trim()))
    };
    if !html.contains("id=\"theme\"") {
        return None;
    }
    let answer = between("<p id=\"answer\">", "</p>").filter(|answer| !answer.is_empty());
    let subtitle = between("<p id=\"subtitle\">", "</p>").filter(|text| !text.is_empty());
    let remarks = REMARKS.iter().filter(|(mark, _)| html.contains(mark));
    Some(Entry {
        name: name.to_owned(),
        title: between("<title>", "</title>")?,
        answer,
        // A comparison writes its own when it is opened; the day is in its data.
        subtitle: subtitle
            .or_else(|| between("\"date\":\"", "T"))
            .unwrap_or_default(),
        remarks: remarks.map(|(_, words)| *words).collect(),
    })
}

fn is_index(path: &Path) -> bool {
    let html = fs::read_to_string(path).unwrap_or_default();
    html.contains("<meta name=\"walzip\" content=\"index\">")
}

fn page(entries: &[Entry]) -> String {
    let mut body = String::new();
    for entry in entries {
        let answer = entry.answer.as_deref();
        let answer = answer.unwrap_or("This page was made before pages had an answer.");
        let remarks = entry.remarks.iter().map(|remark| format!("; {remark}"));
        let remarks: Vec<String> = remarks.collect();
        // The name of a file in the same directory, whatever is in it.
        let link = format!("./{}", percent_encoded(&entry.name));
        body += &format!(
            "<section class=\"entry\"><h2><a href=\"{link}\">{}</a></h2>\n<p>{}</p>\n\
             <p class=\"note\">{}; {}{}</p></section>\n",
            escaped(&entry.title),
            escaped(answer),
            escaped(&entry.name),
            escaped(&entry.subtitle),
            escaped(&remarks.concat()),
        );
    }
    let slots = [
        ("STYLE", STYLE.to_owned()),
        ("BODY", body),
        ("SCRIPT", SCRIPT.to_owned()),
    ];
    fill(PAGE, &slots)
}

fn percent_encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let encoded = name.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::provenance::Provenance;
    use crate::report;

    #[test]
    fn each_report_is_listed_with_its_answer_and_what_is_none_is_not() {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        let provenance = Provenance::gather(None);
        let html = report::page("Is <a> smaller?", "Yes: 2 & 3.", &[], &provenance);
        fs::write(at("a b.html"), html).unwrap();
        fs::write(at("other.html"), "<title>Mine</title>").unwrap();
        let before = "<title>Old</title><button id=\"theme\">";
        fs::write(at("old.html"), before).unwrap();
        let compared = "<title>Compared</title><button id=\"theme\"><p id=\"subtitle\"></p>\
            {\"date\":\"2026-11-26T01:02:03Z\",\"stopped\":\"interrupted\"}";
        fs::write(at("wal.html"), compared).unwrap();
        let entries = write(directory.path(), false).unwrap();
        let of_wal = entries
            .iter()
            .find(|entry| entry.name == "wal.html")
            .unwrap();
        assert_eq!(
            (&*of_wal.subtitle, &*of_wal.remarks),
            ("2026-11-26", &["incomplete"][..])
        );
        let titles: Vec<&str> = entries.iter().map(|entry| &*entry.title).collect();
        assert_eq!(titles, ["Compared", "Is <a> smaller?", "Old"]);
        assert_eq!(entries[1].answer.as_deref(), Some("Yes: 2 & 3."));
        let index = fs::read_to_string(at(NAME)).unwrap();
        assert!(index.contains("href=\"./a%20b.html\"") && index.contains("Yes: 2 &amp; 3."));
        assert!(index.contains("made before pages had an answer"));
        // Another index takes its place, and what is none stays.
        write(directory.path(), false).unwrap();
        fs::write(at(NAME), "mine").unwrap();
        assert!(matches!(
            write(directory.path(), false),
            Err(Error::Exists(_))
        ));
        assert!(write(TempDir::new().unwrap().path(), false).is_err());
    }
}
