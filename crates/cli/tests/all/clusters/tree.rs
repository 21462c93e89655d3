//! What is in a directory, to be compared with another one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What something in a directory is, with its permissions: a directory, a link or a file's content.
#[derive(Clone, PartialEq, Eq)]
pub enum Node {
    Directory(u32),
    Link,
    File(u32, Vec<u8>),
    Other,
}

/// Everything below a directory, by its path there. The time in the settings that a restore writes
/// is left out.
pub fn tree(directory: &Path) -> BTreeMap<String, Node> {
    let mut found = BTreeMap::new();
    add(directory, "", &mut found);
    found
}

fn add(directory: &Path, prefix: &str, found: &mut BTreeMap<String, Node>) {
    for entry in fs::read_dir(directory).expect("readable") {
        let entry = entry.expect("an entry");
        let path = entry.path();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let metadata = path.symlink_metadata().expect("there");
        let mode = metadata.mode() & 0o7777;
        let node = if metadata.is_dir() {
            add(&path, &format!("{name}/"), found);
            Node::Directory(mode)
        } else if metadata.is_symlink() {
            Node::Link
        } else if metadata.is_file() {
            Node::File(mode, content(&path))
        } else {
            Node::Other
        };
        found.insert(name, node);
    }
}

fn content(path: &Path) -> Vec<u8> {
    let content = fs::read(path).expect("readable");
    if !path.ends_with("postgresql.auto.conf") {
        return content;
    }
    let lines = content.split_inclusive(|&byte| byte == b'\n');
    let kept = lines.filter(|line| !line.starts_with(b"# Written by walzip restore at"));
    kept.flatten().copied().collect()
}

/// Fails with the names of what is not the same in two directories.
#[track_caller]
pub fn assert_same(one: &Path, other: &Path) {
    let (found, expected) = (tree(one), tree(other));
    let names = found.keys().chain(expected.keys());
    let mut different: Vec<&String> = names
        .filter(|&name| found.get(name) != expected.get(name))
        .collect();
    different.dedup();
    assert!(
        different.is_empty(),
        "{} and {} differ in {different:?}",
        one.display(),
        other.display()
    );
    assert!(!expected.is_empty(), "nothing in {}", other.display());
}

/// When the files below a directory were last written to, by their paths.
pub fn times(directory: &Path) -> BTreeMap<String, (i64, i64)> {
    let mut times = BTreeMap::new();
    for (name, node) in tree(directory) {
        if let Node::File(..) = node {
            let metadata = fs::metadata(directory.join(&name)).expect("there");
            times.insert(name, (metadata.mtime(), metadata.mtime_nsec()));
        }
    }
    times
}
