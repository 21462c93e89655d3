//! Indexes that are read as they were written, and what no index is.

use super::*;

fn chunk(pack: u32, offset: u64, original_bytes: u32) -> Chunk {
    Chunk {
        pack,
        offset,
        size_bytes: 10,
        original_bytes,
        blake3: blake3::hash(b"encoded"),
        original_blake3: blake3::hash(b"original"),
        base: None,
    }
}

fn entry(path: &[u8]) -> Entry {
    Entry::new(None, path, 0o600).expect("a path")
}

fn file(path: &[u8], size_bytes: u64, shared_at: Option<u64>) -> Member {
    Member::File {
        entry: entry(path),
        size_bytes,
        shared_at,
        pieces: None,
    }
}

fn index() -> Index {
    Index {
        chunks: vec![chunk(0, 16, 100), chunk(0, 26, 50), chunk(1, 16, 60)],
        members: vec![
            Member::Directory(entry(b"base")),
            file(b"base/a", 120, None),
            file(b"base/empty", 0, None),
            file(b"base/\xff", 90, None),
            file(b"base/same", 120, Some(0)),
        ],
    }
}

#[test]
fn is_read_as_it_was_written() {
    let text = index().write().expect("JSON");
    assert_eq!(Index::read(&mut text.as_slice()), Ok(index()));
}

#[test]
fn the_example_of_the_specification_is_read() {
    let specification = include_str!("../../../../../docs/format/backup.md");
    let (_, rest) = specification.split_once("## The index").expect("a heading");
    let (_, rest) = rest.split_once("```json\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let index = Index::read(&mut example.as_bytes()).expect("as it is written");
    assert_eq!(index.write().expect("JSON"), example.as_bytes());
}

#[test]
fn names_the_files_of_a_chunk() {
    assert_eq!(index().files_of(0), ["base/a", "base/same"]);
    assert_eq!(
        index().files_of(1),
        ["base/a", "base/\u{fffd}", "base/same"]
    );
    assert_eq!(index().files_of(2), ["base/\u{fffd}"]);
    assert_eq!(index().files_of(3), Vec::<String>::new());
}

#[test]
fn files_with_the_same_bytes_come_together() {
    let selected = index().selected(|_| true);
    let names = selected.iter().map(|of| of.entries.len());
    assert_eq!(names.collect::<Vec<_>>(), [2, 1, 1]);
    assert_eq!(index().original_bytes(), 330);
}

#[test]
fn says_which_chunks_have_the_files_that_are_wanted() {
    let chunks = |names: &[&[u8]]| {
        let is_wanted = |entry: &Entry| names.contains(&entry.name().as_slice());
        index().chunks_of(&index().selected(is_wanted))
    };
    assert_eq!(chunks(&[]), Vec::<usize>::new());
    assert_eq!(chunks(&[b"base/empty"]), Vec::<usize>::new());
    assert_eq!(chunks(&[b"base/a"]), [0, 1]);
    assert_eq!(chunks(&[b"base/same"]), [0, 1]);
    assert_eq!(chunks(&[b"base/\xff"]), [1, 2]);
    assert_eq!(chunks(&[b"base/a", b"base/\xff"]), [0, 1, 2]);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let refused = |change: fn(&mut Index)| {
        let mut changed = index();
        change(&mut changed);
        let text = changed.write().expect("JSON");
        assert!(Index::read(&mut text.as_slice()).is_err());
    };
    refused(|index| index.chunks.truncate(2));
    refused(|index| index.members.truncate(3));
    refused(|index| index.chunks.swap(0, 1));
    refused(|index| index.chunks[1].offset = 25);
    refused(|index| index.chunks[1].size_bytes = 0);
    refused(|index| index.chunks[2].original_bytes = CHUNK_BYTES_MAX + 1);
    refused(|index| index.members[1] = file(b"base/a", u64::MAX, None));
    refused(|index| index.members[4] = file(b"base/same", 119, Some(0)));
    refused(|index| index.members[4] = file(b"base/same", 120, Some(1)));
    refused(|index| index.members.swap(1, 4));
    let long = format!("{{\"file\":{{\"path\":\"{}\"", "x".repeat(1 << 20));
    for text in [
        "{\n",
        "{\"chunk\":{}}\n",
        "{\"file\":{\"path\":\"../x\",\"mode\":1,\"size_bytes\":0}}\n",
        "{\"file\":{\"path\":\"x\",\"mode\":1,\"size_bytes\":0}}",
        &long,
    ] {
        assert!(Index::read(&mut text.as_bytes()).is_err(), "{text}");
    }
}
