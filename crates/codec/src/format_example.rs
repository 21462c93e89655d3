//! The worked examples of docs/format, as tests read them.

use crate::format_version::FormatVersion;
use crate::streams::coder::Coder;
use crate::streams::kind::StreamKind;
use crate::streams::{StreamReader, StreamWriter};

/// The pages that have examples.
const PAGES: [(&str, &str); 5] = [
    (
        "streams.md",
        include_str!("../../../docs/format/streams.md"),
    ),
    (
        "model/records.md",
        include_str!("../../../docs/format/model/records.md"),
    ),
    (
        "model/relations.md",
        include_str!("../../../docs/format/model/relations.md"),
    ),
    (
        "model/index.md",
        include_str!("../../../docs/format/model/index.md"),
    ),
    (
        "model/values.md",
        include_str!("../../../docs/format/model/values.md"),
    ),
];

/// The rows of the first table after the paragraph that begins with "**Example: `title`.**":
/// the first cell, and the bytes in the second one ("-" for none).
pub fn rows(page: &str, title: &str) -> Vec<(String, Vec<u8>)> {
    let text = PAGES.iter().find(|(name, _)| *name == page);
    let (_, text) = text.unwrap_or_else(|| panic!("{page} is not in the list"));
    let marker = format!("**Example: {title}.**");
    let rows: Vec<(String, Vec<u8>)> = text
        .lines()
        .skip_while(|line| !line.starts_with(&marker))
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(row)
        .collect();
    assert!(!rows.is_empty(), "{page}: no table after {marker}");
    rows
}

fn row(line: &str) -> (String, Vec<u8>) {
    let line = line.replace('`', "");
    let mut cells = line.trim_matches('|').split('|').map(str::trim);
    let (Some(name), Some(bytes)) = (cells.next(), cells.next()) else {
        panic!("two cells: {line}");
    };
    let bytes = bytes.split_whitespace().filter(|byte| *byte != "-");
    let bytes = bytes.map(|byte| u8::from_str_radix(byte, 16).expect(byte));
    (name.to_owned(), bytes.collect())
}

/// A decoder that has the streams of an example.
pub fn reader(page: &str, title: &str) -> StreamReader<'static> {
    let mut writer = StreamWriter::default();
    for (name, bytes) in rows(page, title) {
        let mut kinds = StreamKind::ALL.iter();
        let kind = kinds.find(|kind| format!("{kind:?}") == name).expect(&name);
        let stream = writer.open(*kind, 1);
        writer.append(stream, &bytes);
    }
    StreamReader::of_content(writer.into_content().bytes, FormatVersion::CURRENT).expect("streams")
}
