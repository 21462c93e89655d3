//! The specification in docs/format and the code say the same.

use std::path::{Path, PathBuf};
use std::{fs, io};

use walzip_codec::table::{
    ALL_KEY_ATTRIBUTES_MAX, ATTRIBUTES_MAX, KEPT_MAX, KEY_ATTRIBUTES_MAX, SORT_KEY_LEN_MAX,
};
use walzip_codec::{HEADER_LEN_MAX, MAGIC, StreamKind, VERSION, limits};

fn in_the_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn page(name: &str) -> String {
    let path = in_the_repository(&format!("docs/format/{name}"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages that specify a member.
fn pages() -> Vec<String> {
    let own = [
        "container.md",
        "streams.md",
        "model.md",
        "mixing.md",
        "pages.md",
        "replay.md",
    ]
    .map(str::to_owned);
    own.into_iter().chain(model_pages()).collect()
}

fn model_pages() -> Vec<String> {
    let folder = in_the_repository("docs/format/model");
    let entries = fs::read_dir(folder).expect("the model's pages");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("can be read").file_name();
    let names = entries.map(name);
    names
        .map(|name| format!("model/{}", name.to_string_lossy()))
        .collect()
}

/// The headings of a page, as links name them.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            words.replace(' ', "-").replace([',', '`'], "")
        })
        .collect()
}

#[test]
fn the_pages_of_the_model_are_named_after_its_folders() {
    let folder = format!("{}/src/model", env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(&folder).expect("the model's folder");
    let entries = entries.map(|entry| entry.expect("can be read"));
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut expected: Vec<String> = folders
        .map(|folder| format!("model/{}.md", folder.file_name().to_string_lossy()))
        .collect();
    let mut found = model_pages();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn the_links_of_the_pages_lead_somewhere() {
    for name in pages() {
        let text = page(&name);
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut links = 0;
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().expect("the link");
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            links += 1;
            if let Some(folder) = file.strip_prefix("../../") {
                assert!(in_the_repository(folder).exists(), "{name}: {link}");
                continue;
            }
            let target = match file {
                "" => text.clone(),
                file => page(&format!("{folder}/{file}")),
            };
            let is_there = anchor.is_empty() || anchors(&target).iter().any(|a| a == anchor);
            assert!(is_there, "{name}: {link}");
        }
        assert!(links > 0, "{name} has no links");
    }
}

/// The cells of the rows of the first table below a heading.
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let below = page
        .lines()
        .skip_while(|line| line.trim_start_matches('#').trim() != heading);
    let rows: Vec<Vec<String>> = below
        .skip(1)
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().replace('`', "")).collect()
        })
        .collect();
    assert!(rows.len() > 2, "no table below \"{heading}\"");
    rows[2..].to_vec()
}

#[test]
fn the_kinds_of_streams_are_those_of_the_table() {
    let documented: Vec<(String, String, String)> = table(&page("streams.md"), "Kinds of streams")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone(), row[2].clone()))
        .collect();
    let known: Vec<(String, String, String)> = StreamKind::ALL
        .iter()
        .map(|kind| {
            (
                (*kind as u8).to_string(),
                format!("{kind:?}"),
                kind.label().to_owned(),
            )
        })
        .collect();
    assert_eq!(documented, known);
}

#[test]
fn the_limits_are_those_of_the_table() {
    let documented: Vec<(String, String)> = table(&page("container.md"), "Limits")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].replace(',', "")))
        .collect();
    let known = [
        ("MEMBER_LEN_MAX", limits::MEMBER_LEN_MAX as u64),
        ("CHUNK_LEN_MAX", limits::CHUNK_LEN_MAX as u64),
        ("NAME_LEN_MAX", limits::NAME_LEN_MAX as u64),
        ("CONTENT_EXPANSION_MAX", limits::CONTENT_EXPANSION_MAX),
        ("CHUNK_EXPANSION_MAX", limits::CHUNK_EXPANSION_MAX),
        ("CONTENT_LEN_BASE", limits::CONTENT_LEN_BASE),
        ("CONTENT_LEN_FREE", limits::CONTENT_LEN_FREE),
        ("CONTENT_PACKED_MAX", limits::CONTENT_PACKED_MAX),
        ("STREAMS_MAX", limits::STREAMS_MAX as u64),
        ("KINDS_MAX", limits::KINDS_MAX as u64),
        ("KIND_BLOCKS_MAX", limits::KIND_BLOCKS_MAX as u64),
        (
            "KIND_BLOCKS_TOTAL_MAX",
            limits::KIND_BLOCKS_TOTAL_MAX as u64,
        ),
        ("LISTS_COST_MAX", limits::LISTS_COST_MAX as u64),
        (
            "DICTIONARY_VALUE_COST",
            limits::DICTIONARY_VALUE_COST as u64,
        ),
        ("JSON_ENTRY_COST", limits::JSON_ENTRY_COST as u64),
        ("WORDS_COST", limits::WORDS_COST as u64),
        ("EXTRACTION_MAX", limits::EXTRACTION_MAX as u64),
        ("COMPRESSED_VALUE_MAX", limits::COMPRESSED_VALUE_MAX as u64),
        ("COMPRESSED_LZ4_MAX", limits::COMPRESSED_LZ4_MAX as u64),
        (
            "COMPRESSED_VALUES_MAX",
            limits::COMPRESSED_VALUES_MAX as u64,
        ),
        ("BLOCK_ROWS", limits::BLOCK_ROWS as u64),
        ("BINS_MAX", limits::BINS_MAX as u64),
        ("BIN_ROWS_MAX", limits::BIN_ROWS_MAX as u64),
        ("HISTORY_PAGES_MAX", limits::HISTORY_PAGES_MAX as u64),
        ("OWN_PAGES_FACTOR", limits::OWN_PAGES_FACTOR as u64),
        ("WINDOW_LOG_MAX", u64::from(limits::WINDOW_LOG_MAX)),
        ("HEADER_LEN_MAX", HEADER_LEN_MAX as u64),
    ];
    let known: Vec<(String, String)> = known
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.to_string()))
        .collect();
    assert_eq!(documented, known);
}

#[test]
fn the_bounds_of_a_table_are_those_of_its_page() {
    let documented: Vec<(String, String)> = table(&page("model/table.md"), "Bounds of a table")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].replace(',', "")))
        .collect();
    let known = [
        ("ATTRIBUTES_MAX", ATTRIBUTES_MAX),
        ("KEY_ATTRIBUTES_MAX", KEY_ATTRIBUTES_MAX),
        ("ALL_KEY_ATTRIBUTES_MAX", ALL_KEY_ATTRIBUTES_MAX),
        ("KEPT_MAX", KEPT_MAX),
        ("ROWS_MEMORY_MAX", limits::ROWS_MEMORY_MAX),
        ("SORT_KEY_LEN_MAX", SORT_KEY_LEN_MAX),
    ];
    let known = known.map(|(name, value)| (name.to_owned(), value.to_string()));
    assert_eq!(documented, known);
}

#[test]
fn the_header_is_as_in_the_table() {
    let rows = table(&page("container.md"), "Header");
    let magic: Vec<String> = MAGIC.iter().map(|byte| format!("{byte:02X}")).collect();
    assert!(rows[0][3].contains(&magic.join(" ")), "{:?}", rows[0]);
    assert!(rows[1][3].contains(&format!("{VERSION}")), "{:?}", rows[1]);
    // Offsets of the fields that come before the first number of variable length.
    let mut offset = 0;
    let fixed = rows.iter().take_while(|row| row[1] != "number");
    // In place of an identity, a member of differences has the hash of its base.
    for row in fixed.filter(|row| row[2] != "base") {
        assert_eq!(row[0], offset.to_string(), "{row:?}");
        offset += row[1].parse::<usize>().expect("a length in bytes");
    }
    assert_eq!(offset, 39 + 26, "bytes before the lengths");
}

#[test]
fn the_majors_are_those_of_the_table() {
    let documented: Vec<(String, String)> = table(&page("container.md"), "Majors")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    let known: Vec<(String, String)> = walzip_pgformat::version::VERSIONS
        .iter()
        .map(|version| {
            (
                format!("{:04X}", version.page_magic),
                version.major.to_string(),
            )
        })
        .collect();
    assert_eq!(documented, known);
}

#[test]
fn the_pages_and_the_compatibility_table_name_every_version() {
    for name in pages() {
        let page = page(&name);
        let title = page.lines().next().expect("a title");
        assert!(
            title.ends_with(&format!("formats 1 to {VERSION}")),
            "{title}"
        );
    }
    let documented: Vec<String> = table(&page("container.md"), "Compatibility")
        .into_iter()
        .map(|row| row[0].clone())
        .collect();
    let known: Vec<String> = (1..=VERSION).map(|version| version.to_string()).collect();
    assert_eq!(documented, known);
}

#[test]
fn the_example_of_a_member_is_one() {
    let page = page("container.md");
    let example = page
        .find("**Example: a foreign member.**")
        .expect("an example");
    let bytes: Vec<u8> = page[example..]
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .filter_map(|line| line.split('`').nth(1))
        .flat_map(str::split_whitespace)
        .map(|byte| u8::from_str_radix(byte, 16).expect(byte))
        .collect();
    assert_eq!(walzip_codec::decode(&bytes).expect("a member"), b"abc");
}
