//! Indexes that are read as they were written, and what no index is.

use walzip_codec::table::{Attribute, KeyAttribute, Order, TableShape};

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
        index: None,
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
        ..Index::default()
    }
}

#[test]
fn is_read_as_it_was_written() {
    let text = index().write().expect("JSON");
    assert_eq!(Index::read(&mut text.as_slice()), Ok(index()));
}

#[test]
fn the_examples_of_the_specification_are_read() {
    let specification = include_str!("../../../../../../docs/format/backup.md");
    let examples = specification.split("```json\n").skip(1);
    let examples = examples.filter_map(|part| Some(part.split_once("```")?.0));
    let mut read = 0;
    for example in examples.filter(|example| example.starts_with("{\"chunk\"")) {
        let index = Index::read(&mut example.as_bytes()).expect("as it is written");
        assert_eq!(index.write().expect("JSON"), example.as_bytes());
        read += 1;
    }
    assert_eq!(read, 2);
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
        // Some of it cannot even be written.
        if let Ok(text) = changed.write() {
            assert!(Index::read(&mut text.as_slice()).is_err());
        }
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

const BLOCK: u64 = 8192;

fn piece(backup: u32, offset: u64, len: u64) -> Piece {
    Piece {
        backup,
        offset,
        len,
    }
}

fn in_pieces(path: &[u8], pieces: &[Piece]) -> Member {
    Member::File {
        entry: entry(path),
        size_bytes: pieces.iter().map(|piece| piece.len).sum(),
        shared_at: None,
        pieces: Some(pieces.to_vec()),
    }
}

/// A plain chunk of 200 bytes, and two of changed blocks.
fn referring() -> Index {
    let told = |offset, base: &[[u64; 2]], blocks: u64| Chunk {
        base: Some(base.to_vec()),
        ..chunk(0, offset, (blocks * BLOCK) as u32)
    };
    Index {
        chunks: vec![
            chunk(0, 40, 200),
            told(16, &[[0, BLOCK], [4 * BLOCK, BLOCK]], 2),
            told(60, &[], 1),
        ],
        members: vec![
            file(b"base/new", 100, None),
            in_pieces(
                b"base/a",
                &[
                    piece(1, 0, 4 * BLOCK),
                    piece(0, 200, BLOCK),
                    piece(1, 5 * BLOCK, BLOCK),
                    piece(0, 100, 50),
                ],
            ),
            file(b"base/same", 100, Some(0)),
            in_pieces(
                b"base/b",
                &[piece(0, 200 + BLOCK, 2 * BLOCK), piece(2, 77, 10)],
            ),
            file(b"base/last", 50, None),
        ],
        ..Index::default()
    }
}

#[test]
fn pieces_and_changed_blocks_are_read_as_they_were_written() {
    let text = referring().write().expect("JSON");
    assert_eq!(Index::read(&mut text.as_slice()), Ok(referring()));
    assert_eq!(
        referring().files_of(0),
        ["base/new", "base/a", "base/same", "base/last"]
    );
    assert_eq!(referring().files_of(1), ["base/a", "base/b"]);
    assert_eq!(referring().files_of(2), ["base/b"]);
}

/// A file in many pieces takes many lines, none of them a long one.
#[test]
fn a_file_may_have_any_number_of_pieces() {
    let mut index = referring();
    let pieces: Vec<Piece> = (0..5000)
        .map(|number| piece(1 + number % 2, u64::from(number) * 3 * BLOCK, BLOCK))
        .collect();
    index.members.push(in_pieces(b"base/many", &pieces));
    let text = index.write().expect("JSON");
    let longest = text.split(|&byte| byte == b'\n').map(<[u8]>::len).max();
    assert!(longest.expect("lines") < LINE_BYTES_MAX as usize);
    assert_eq!(Index::read(&mut text.as_slice()), Ok(index));
}

/// A chunk of changed blocks, each told from a block far from the others, in a stream of 100 TB.
#[test]
fn the_line_of_a_chunk_is_no_longer_than_a_line() {
    let base: Vec<[u64; 2]> = (0..512)
        .map(|run| [(100 << 40) + run * 3 * BLOCK, BLOCK])
        .collect();
    let mut index = referring();
    index.chunks[2] = Chunk {
        base: Some(base),
        ..chunk(0, 60, 512 * BLOCK as u32)
    };
    index.members.push(in_pieces(
        b"base/c",
        &[piece(0, 200 + 3 * BLOCK, 511 * BLOCK)],
    ));
    let text = index.write().expect("JSON");
    assert_eq!(Index::read(&mut text.as_slice()), Ok(index));
}

#[test]
fn backups_that_no_piece_names_are_left_out() {
    let mut index = referring();
    let labels = ["full", "first", "second", "third"].map(str::to_owned);
    assert_eq!(index.without_unused(labels.to_vec()), ["full", "first"]);
    assert_eq!(index, referring());
    let renumbered = |piece: &mut Piece| {
        piece.backup = match piece.backup {
            0 => 0,
            _ => 4,
        }
    };
    index.each_reference(renumbered);
    assert_eq!(index.without_unused(labels.to_vec()), ["full", "third"]);
    // The changed blocks are told from the first one.
    index.members.retain(|member| {
        !matches!(
            member,
            Member::File {
                pieces: Some(_),
                ..
            }
        )
    });
    assert_eq!(index.without_unused(labels.to_vec()), ["full"]);
}

#[test]
fn lines_of_pieces_that_cannot_be_are_refused() {
    let text = String::from_utf8(referring().write().expect("JSON")).expect("UTF-8");
    let changes = [
        // Too few, too many, of nothing, of no file, of one that has its own bytes.
        ("[50]]", "[49]]"),
        ("[50]]", "[51]]"),
        ("[50]]", "[0]]"),
        ("[50]]", "[50],[1]]"),
        (
            "{\"pieces\":[[32768",
            "{\"pieces\":[]}\n{\"directory\":{\"path\":\"x\",\"mode\":1}}\n{\"pieces\":[[32768",
        ),
        (",\"in_pieces\":true", ""),
        // Bytes that are nowhere, or are counted twice.
        ("[8192,1]", "[8192,2]"),
        ("[8192,1]", "[8192,0]"),
        ("[8192,1]", "[8192,1,200]"),
        ("[10,3,77]", "[10,3,18446744073709551615]"),
        ("[10,3,77]", "[10,5000,77]"),
        ("[10,3,77]", "[18446744073709551615,3,77]"),
        ("[10,3,77]", "[-10,3,77]"),
        // Bases of fewer or more bytes, or beyond everything.
        ("[[0,8192],", "[[0,8191],"),
        ("[[0,8192],", "[[0,0],[0,8192],"),
        ("[[0,8192],", "[[18446744073709551615,8192],"),
        ("[[0,8192],", "[[0,18446744073709551615],"),
        (",\"base\":[]", ""),
        // A file that shares bytes and has pieces.
        ("\"offset\":0}", "\"offset\":0,\"in_pieces\":true}"),
    ];
    for (from, to) in changes {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        assert!(Index::read(&mut changed.as_bytes()).is_err(), "{to}");
    }
    // A chunk behind the files.
    let (first, rest) = text.split_once('\n').expect("lines");
    assert!(Index::read(&mut format!("{rest}{first}\n").as_bytes()).is_err());
}

/// A chunk of other files, a table of two chunks, two chunks of its index, and a last one.
fn with_table() -> Index {
    let told = |offset, index| Chunk {
        index: Some([0, index]),
        ..chunk(0, offset, 2 * BLOCK as u32)
    };
    let key = |attribute| KeyAttribute {
        attribute,
        order: Order::Signed,
        descending: attribute > 0,
        nullable: false,
        nulls_first: attribute > 0,
    };
    let table = StoredTable {
        first_chunk: 1,
        chunks: 2,
        shape: TableShape {
            attributes: vec![Attribute::Fixed8, Attribute::Fixed4],
            indexes: vec![vec![key(0)], vec![key(1), key(0)]],
        },
    };
    Index {
        chunks: vec![
            chunk(0, 16, 100),
            chunk(0, 26, 4 * BLOCK as u32),
            chunk(0, 36, BLOCK as u32),
            told(46, 0),
            told(56, 1),
            chunk(0, 66, 50),
        ],
        tables: vec![table],
        members: vec![
            file(b"base/a", 100, None),
            file(b"base/table", 5 * BLOCK, None),
            file(b"base/index", 2 * BLOCK, None),
            file(b"base/other_index", 2 * BLOCK, None),
            file(b"base/b", 50, None),
        ],
    }
}

#[test]
fn tables_are_read_as_they_were_written() {
    let text = with_table().write().expect("JSON");
    assert_eq!(Index::read(&mut text.as_slice()), Ok(with_table()));
}

#[test]
fn an_index_needs_the_chunks_of_its_table() {
    let index = with_table();
    let chunks_of = |name: &str| {
        let selected = index.selected(|entry| entry.path == std::path::Path::new(name));
        index.chunks_of(&selected)
    };
    assert_eq!(chunks_of("base/other_index"), [1, 2, 4]);
    assert_eq!(chunks_of("base/table"), [1, 2]);
    assert_eq!(chunks_of("base/b"), [5]);
}

#[test]
fn tables_are_where_they_are_said_to_be() {
    type Change = fn(&mut Index);
    let changes: [(&str, Change); 13] = [
        ("before its table", |index| {
            index.chunks[0].index = Some([0, 0])
        }),
        ("of its table", |index| index.chunks[2].index = Some([0, 0])),
        ("no such table", |index| {
            index.chunks[3].index = Some([1, 0])
        }),
        ("no such index", |index| {
            index.chunks[3].index = Some([0, 2])
        }),
        ("no chunks", |index| index.tables[0].chunks = 0),
        ("too many chunks", |index| index.tables[0].chunks = 6),
        ("more than there can be", |index| {
            index.tables[0].chunks = u32::MAX
        }),
        ("no whole pages", |index| index.tables[0].first_chunk = 0),
        ("of an index that came before", |index| {
            index.chunks[3].index = Some([0, 1]);
            index.chunks[4].index = Some([0, 0]);
        }),
        ("an attribute twice", |index| {
            index.tables[0].shape.indexes[1][0].attribute = 0;
        }),
        ("no such attribute", |index| {
            index.tables[0].shape.indexes[0][0].attribute = 2;
        }),
        ("an order that cannot be", |index| {
            index.tables[0].shape.indexes[0][0].order = Order::Numeric;
        }),
        ("twice", |index| {
            let again = index.tables[0].clone();
            index.tables.push(again);
        }),
    ];
    for (what, change) in changes {
        let mut index = with_table();
        change(&mut index);
        let text = index.write().expect("JSON");
        assert!(Index::read(&mut text.as_slice()).is_err(), "{what}");
    }
}
