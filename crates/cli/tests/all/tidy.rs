//! The repository checks itself: what ARCHITECTURE.md and CONTRIBUTING.md promise about the
//! sources holds for every file.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// How long a source file may be.
const LINES_MAX: usize = 600;

/// Where `unsafe` is: where C is called, where the processor is told what will be read, for which
/// Rust has no safe name yet, where instructions are used that not every processor has, and where
/// a test counts the memory that is taken.
const MAY_BE_UNSAFE: &[&str] = &[
    "crates/cli/examples/fragment_memory.rs",
    "crates/cli/src/allocator.rs",
    "crates/cli/src/system_user.rs",
    "crates/codec/src/compressors/lz4_block.rs",
    "crates/codec/src/compressors/zstd_1_5_7.rs",
    "crates/codec/src/compressors/zstd_sequences.rs",
    "crates/pgformat/src/prefetch.rs",
    "crates/codec/tests/all/counting_allocator.rs",
    "crates/pgformat/src/wal/checksum.rs",
];

/// What a crate keeps out, so that it has one reason to change.
struct Boundary {
    folder: &'static str,
    /// The crates of this workspace that it may depend on.
    may_use: &'static [&'static str],
    /// What its sources must not contain.
    must_not_name: &'static [&'static str],
}

/// Synchronous code over byte slices touches nothing outside itself.
const PURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::time",
    "async fn",
    "tokio",
    "object_store",
    "println!",
    "eprintln!",
    "print!(",
    "eprint!(",
    "dbg!(",
];

/// A library leaves words, settings and the process to the command line.
const LIBRARY: &[&str] = &[
    "println!",
    "eprintln!",
    "print!(",
    "eprint!(",
    "dbg!(",
    "env::var",
    "env::args",
    "env::current_dir",
    "env::temp_dir",
    "process::exit",
    "use clap",
];

const BOUNDARIES: &[Boundary] = &[
    Boundary {
        folder: "pgformat",
        may_use: &[],
        must_not_name: PURE,
    },
    Boundary {
        folder: "replay",
        may_use: &["pgformat"],
        must_not_name: PURE,
    },
    Boundary {
        folder: "codec",
        may_use: &["pgformat", "replay"],
        must_not_name: PURE,
    },
    Boundary {
        folder: "repo",
        may_use: &[],
        must_not_name: LIBRARY,
    },
    Boundary {
        folder: "archive",
        may_use: &["pgformat", "codec", "repo"],
        must_not_name: LIBRARY,
    },
    Boundary {
        folder: "bench",
        may_use: &["pgformat", "codec"],
        must_not_name: LIBRARY,
    },
    Boundary {
        folder: "cli",
        may_use: &["pgformat", "replay", "codec", "repo", "archive", "bench"],
        must_not_name: &["dbg!("],
    },
    Boundary {
        folder: "testing",
        may_use: &[],
        must_not_name: &["println!", "print!(", "dbg!("],
    },
];

#[test]
fn dependencies_point_one_way() {
    let mut faults = String::new();
    for boundary in BOUNDARIES {
        let manifest = read(
            &root()
                .join("crates")
                .join(boundary.folder)
                .join("Cargo.toml"),
        );
        let mut is_for_tests = false;
        for line in manifest.lines() {
            if line.starts_with('[') {
                is_for_tests = line == "[dev-dependencies]";
            }
            let Some(rest) = line.strip_prefix("walzip-") else {
                continue;
            };
            let used = rest.split(['.', ' ', '=']).next().expect("a name");
            let is_testing = used == "testing" && is_for_tests;
            if used != boundary.folder && !boundary.may_use.contains(&used) && !is_testing {
                writeln!(
                    faults,
                    "crates/{} must not depend on {used}",
                    boundary.folder
                )
                .unwrap();
            }
        }
    }
    assert_eq!(faults, "");
}

#[test]
fn every_crate_has_a_boundary() {
    let mut folders: Vec<String> = fs::read_dir(root().join("crates"))
        .expect("the crates")
        .map(|entry| {
            entry
                .expect("a crate")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    let mut known: Vec<&str> = BOUNDARIES.iter().map(|boundary| boundary.folder).collect();
    folders.sort();
    known.sort_unstable();
    assert_eq!(folders, known);
}

#[test]
fn no_crate_names_what_its_boundary_forbids() {
    let mut faults = String::new();
    for boundary in BOUNDARIES {
        for path in files(
            &root().join("crates").join(boundary.folder).join("src"),
            "rs",
        ) {
            for (number, line) in numbered_code(&read(&path)) {
                let named = boundary
                    .must_not_name
                    .iter()
                    .find(|name| line.contains(*name));
                if let Some(name) = named {
                    writeln!(faults, "{}:{number} names {name}", shown(&path)).unwrap();
                }
            }
        }
    }
    assert_eq!(faults, "");
}

#[test]
fn unsafe_is_only_where_nothing_else_will_do() {
    let mut faults = String::new();
    for path in files(&root().join("crates"), "rs") {
        let name = shown(&path);
        // This file names the words itself.
        if MAY_BE_UNSAFE.contains(&name.as_str()) || name.ends_with("tests/all/tidy.rs") {
            continue;
        }
        for (number, line) in numbered_code(&read(&path)) {
            if ["unsafe {", "unsafe fn", "unsafe impl"]
                .iter()
                .any(|word| line.contains(word))
            {
                writeln!(faults, "{name}:{number} is unsafe").unwrap();
            }
        }
    }
    assert_eq!(faults, "");
}

#[test]
fn files_are_short_begin_with_their_purpose_and_keep_no_promises_for_later() {
    let later = [
        "todo!(",
        "unimplemented!(",
        "#[ignore",
        "TODO",
        "FIXME",
        "XXX",
    ];
    let mut faults = String::new();
    for path in files(&root().join("crates"), "rs") {
        let text = read(&path);
        let lines = text.lines().count();
        if lines > LINES_MAX {
            writeln!(faults, "{} has {lines} lines", shown(&path)).unwrap();
        }
        if !text.starts_with("//!") {
            writeln!(faults, "{} does not say what it is for", shown(&path)).unwrap();
        }
        if shown(&path).ends_with("tests/all/tidy.rs") {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(word) = later.iter().find(|word| line.contains(*word)) {
                writeln!(faults, "{}:{number} says {word}", shown(&path)).unwrap();
            }
        }
    }
    assert_eq!(faults, "");
}

#[test]
fn nothing_depends_on_one_machine() {
    // Written apart, so that this file passes its own test.
    let foreign = [
        ["/wo", "rk/"],
        ["/home", "/"],
        ["anthro", "pic"],
        ["cla", "ude"],
        ["chat", "gpt"],
        ["deb.debian", ".org"],
        ["repo1.ma", "ven"],
        ["repo.ma", "ven"],
        ["pypi", ".org"],
        ["registry.np", "mjs"],
        ["localhost", ":"],
    ]
    .map(|parts| parts.concat());
    let mut faults = String::new();
    for path in project_files() {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.to_lowercase();
            if let Some(word) = foreign.iter().find(|word| line.contains(word.as_str())) {
                writeln!(faults, "{}:{number} names {word}", shown(&path)).unwrap();
            }
        }
    }
    assert_eq!(faults, "");
}

#[test]
fn every_link_leads_somewhere() {
    let mut faults = String::new();
    let mut links = 0;
    for path in project_files() {
        let extension = path.extension().and_then(|extension| extension.to_str());
        if !matches!(extension, Some("md" | "rs")) || shown(&path).ends_with("tests/all/tidy.rs") {
            continue;
        }
        let text = read(&path);
        let beside = path.parent().expect("a file has a directory");
        if extension == Some("md") {
            for (link, section) in markdown_links(&text) {
                links += 1;
                let target = match link {
                    "" => path.clone(),
                    link => beside.join(link),
                };
                let is_there = match section {
                    Some(section) => target.is_file() && has_section(&read(&target), section),
                    None => target.exists(),
                };
                if !is_there {
                    writeln!(faults, "{}: {link} {section:?}", shown(&path)).unwrap();
                }
            }
        }
        for document in documents_named(&text) {
            links += 1;
            if !root().join(document).exists() {
                writeln!(faults, "{}: {document}", shown(&path)).unwrap();
            }
        }
    }
    assert_eq!(faults, "");
    assert!(links > 20, "only {links} links were found");
}

/// The targets of relative links, and the sections after a `#`.
fn markdown_links(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let targets = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let relative = targets.filter(|target| !target.contains("://"));
    relative.map(|target| match target.split_once('#') {
        Some((target, section)) => (target, Some(section)),
        None => (target, None),
    })
}

/// Whether a document has a heading of this anchor, as GitHub makes anchors.
fn has_section(text: &str, section: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let mut anchors = headings.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c })
            .collect::<String>()
    });
    anchors.any(|anchor| anchor == section)
}

/// Documents that a sentence or a comment names by their path from the top.
fn documents_named(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let words = text.split(move |c| !is_path(c));
    words.filter(|word| word.starts_with("docs/") && word.ends_with(".md"))
}

/// The lines of code with their numbers: no comments, and nothing from the unit tests on,
/// which end a file.
fn numbered_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let numbered = (1..).zip(code.lines());
    numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace")
}

pub fn shown(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file that belongs to the project.
pub fn project_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root()).expect("the workspace") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("UTF-8");
        if path.is_file() && name != "Cargo.lock" {
            found.push(path);
        } else if ["crates", "docs", "scripts", "contrib", ".ci", "fuzz"].contains(&name) {
            found.extend(files_where(&path, &|_| true));
        }
    }
    assert!(found.len() > 100, "only {} files were found", found.len());
    found
}

pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    files_where(folder, &|path| {
        path.extension().is_some_and(|found| found == extension)
    })
}

/// Files below a folder, without what builds and fuzzers leave behind.
fn files_where(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("UTF-8");
        if path.is_dir() && !["target", "corpus", "artifacts", "coverage"].contains(&name) {
            found.extend(files_where(&path, wanted));
        } else if path.is_file() && wanted(&path) {
            found.push(path);
        }
    }
    found
}
