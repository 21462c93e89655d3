//! Golden files: one for each feature of the format, named by the version that wrote it.
//! Every later version reads them. `cargo run -p walzip-codec --example golden -- FOLDER`
//! makes them; once a version is released its files never change again.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use walzip_codec::{Header, VERSION, decode};

use crate::member_file::MemberFile;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// The golden files by name.
pub fn golden_files() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(FOLDER)
        .expect("the folder of golden files")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "wz"))
        .map(|path| {
            let name = path.file_name().expect("a file name").to_string_lossy();
            (name.into_owned(), fs::read(&path).expect("a golden file"))
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no golden files in {FOLDER}");
    files
}

/// The BLAKE3 hash of each original, by the name of its file.
fn hashes() -> BTreeMap<String, String> {
    let list = fs::read_to_string(Path::new(FOLDER).join("hashes.txt")).expect("hashes.txt");
    list.lines()
        .map(|line| {
            let (hash, name) = line.split_once("  ").expect("a hash and a name");
            (name.to_owned(), hash.to_owned())
        })
        .collect()
}

#[test]
fn golden_files_decode_to_what_they_did_when_they_were_made() {
    let found: BTreeMap<String, String> = golden_files()
        .into_iter()
        .map(|(name, file)| {
            let original = decode(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, blake3::hash(&original).to_hex().to_string())
        })
        .collect();
    assert_eq!(found, hashes());
}

#[test]
fn golden_files_are_small_and_named_by_version() {
    for (name, file) in golden_files() {
        let version = Header::read(&file).expect("a header").version;
        assert!(name.starts_with(&format!("v{version}_")), "{name}");
        assert!(file.len() <= 24 << 10, "{name}: {} bytes", file.len());
    }
}

/// What a version does not know is not read in it: a file says by its version what it needs.
#[test]
fn what_came_later_is_rejected_in_an_earlier_version() {
    for (name, file) in golden_files() {
        let (Some(versions), false) = (versions_of(&name), name.contains("mixed")) else {
            continue;
        };
        let member = MemberFile::open(&file);
        for version in 1..=VERSION {
            let other = member.clone().with_version(version).seal(&member.content);
            let decoded = decode(&other);
            assert_eq!(
                decoded.is_ok(),
                versions.contains(&version),
                "{name} as {version}"
            );
        }
    }
}

/// The versions that say what a golden file shows in the same way.
fn versions_of(name: &str) -> Option<RangeInclusive<u8>> {
    match name {
        "v15_compressed_values.wz" | "v15_tokens.wz" | "v15_image_rows.wz" => Some(15..=VERSION),
        name if name.ends_with("_own_pages.wz") => Some(14..=VERSION),
        "v4_words.wz" => Some(4..=VERSION),
        "v7_heap_pages.wz" | "v7_other_indexes.wz" => Some(7..=VERSION),
        // From version 15 on rows on images tell what comes after them.
        "v6_coded_streams.wz" | "v6_long_columns.wz" => Some(6..=14),
        "v1_commit.wz" => Some(1..=14),
        "v1_foreign.wz" | "v1_idle.wz" => Some(1..=VERSION),
        _ => None,
    }
}
