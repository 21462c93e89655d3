//! The majors of PostgreSQL that messages, scripts and documents name are those of `VERSIONS`.

use std::fmt::Write;

use walzip_pgformat::version::VERSIONS;

use crate::clusters::site::majors_with_servers;
use crate::tidy::{project_files, shown};

/// Known from a release candidate: no server of these can be fetched.
const WITHOUT_SERVERS: &[u32] = &[19];

#[test]
fn servers_of_every_known_major_are_fetched() {
    let known = VERSIONS.iter().map(|version| version.major);
    let expected: Vec<u32> = known.filter(|m| !WITHOUT_SERVERS.contains(m)).collect();
    assert_eq!(majors_with_servers(), expected);
}

/// What was written about a time that is over may name the majors of then.
fn is_dated(name: &str) -> bool {
    ["docs/decisions/", "docs/results/"]
        .iter()
        .any(|folder| name.starts_with(folder))
}

#[test]
fn ranges_of_majors_are_those_that_are_known_or_tested() {
    let oldest = VERSIONS[0].major;
    let known = VERSIONS[VERSIONS.len() - 1].major;
    let tested = *majors_with_servers().last().expect("a major");
    let mut faults = String::new();
    let mut seen = Vec::new();
    for path in project_files() {
        let name = shown(&path);
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        if is_dated(&name) || name.ends_with("tests/all/majors.rs") {
            continue;
        }
        for (first, last) in ranges(&text) {
            if first != oldest || ![known, tested].contains(&last) {
                writeln!(faults, "{name}: PostgreSQL {first} to {last}").unwrap();
            }
            seen.push((name.clone(), last));
        }
    }
    assert_eq!(faults, "");
    for (name, last) in [
        ("README.md", known),
        ("README.md", tested),
        ("crates/cli/src/archive_error.rs", known),
    ] {
        assert!(seen.contains(&(name.to_owned(), last)), "{name}: {last}");
    }
}

/// Every "PostgreSQL 13 to 19" of a text, also where a line ends in it.
fn ranges(text: &str) -> Vec<(u32, u32)> {
    let number = |word: Option<&str>| -> Option<u32> {
        word?
            .trim_end_matches(|c: char| !c.is_ascii_digit())
            .parse()
            .ok()
    };
    let after = text.split("PostgreSQL ").skip(1);
    let read = after.filter_map(|rest| {
        let mut words = rest.split_whitespace();
        let first = number(words.next())?;
        (words.next()? == "to").then_some((first, number(words.next())?))
    });
    read.collect()
}

#[test]
fn a_range_is_found_in_a_sentence() {
    let text = "**PostgreSQL 13 to\n19**, PostgreSQL 15 or newer, PostgreSQL 14 to 18.";
    assert_eq!(ranges(text), [(13, 19), (14, 18)]);
}
