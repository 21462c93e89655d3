//! Replay makes the server's own pages: WAL of real servers, replayed on no pages at all, ends with
//! what stands in their files, but for what no record says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use walzip_codec::{HistoryDecoder, HistoryEncoder, Level, encode};
use walzip_pgformat::wal::{Compression, Event, RecordLayout, SegmentReader};
use walzip_replay::{Page, PageBytes, PageCache, PageKey, Record, Revision, Rules, redo};

use crate::clusters::server::Server;
use crate::clusters::site::{Site, majors_with_servers};

const PAGE: usize = 8192;
/// `BTP_DELETED`
const DELETED: u8 = 4;

/// `GIN_DELETED`
const GIN_DELETED: u8 = 4;

/// Every record that tables and B-trees have, and several checkpoints.
const WORKLOAD: &str = "
CREATE TABLE rows (id int PRIMARY KEY, name text, price numeric, data text);
CREATE INDEX rows_name ON rows (name);
CREATE INDEX rows_price ON rows (price, id);
INSERT INTO rows SELECT g, 'name ' || g % 50, g % 900, repeat('x', g % 90) FROM generate_series(1, 6000) g;
CHECKPOINT;
UPDATE rows SET price = price + 1 WHERE id % 7 = 0;
UPDATE rows SET name = name || '!' WHERE id % 11 = 0;
DELETE FROM rows WHERE id % 5 = 0;
VACUUM rows;
CHECKPOINT;
INSERT INTO rows SELECT g, 'name ' || g % 60, g % 700, repeat('y', g % 70) FROM generate_series(6001, 9000) g;
SELECT count(*) FROM (SELECT * FROM rows WHERE id < 800 FOR UPDATE) AS locked;
BEGIN; UPDATE rows SET price = 0 WHERE id < 300; SAVEPOINT s; UPDATE rows SET data = 'z' WHERE id > 8800; ROLLBACK TO s; COMMIT;
VACUUM FREEZE rows;
CHECKPOINT;
DELETE FROM rows WHERE id BETWEEN 2000 AND 4000;
VACUUM rows;
INSERT INTO rows SELECT g, 'name ' || g % 40, g % 30, 'again' FROM generate_series(10001, 13000) g;
UPDATE rows SET data = repeat('w', id % 40) WHERE id % 3 = 0;
CHECKPOINT;
UPDATE rows SET price = price + 2 WHERE id % 13 = 0;
VACUUM rows;
";

/// Indexes of every other type, with splits, pending lists, dead rows and pages that go.
const OTHER_INDEXES: &str = "
CREATE TABLE others (id int PRIMARY KEY, tags int[], words tsvector, at point, range int4range, name text, hash text, n int);
CREATE INDEX others_tags ON others USING gin (tags) WITH (fastupdate = off);
CREATE INDEX others_words ON others USING gin (words);
CREATE INDEX others_at ON others USING gist (at);
CREATE INDEX others_range ON others USING gist (range);
CREATE INDEX others_name ON others USING spgist (name);
CREATE INDEX others_quad ON others USING spgist (at);
CREATE INDEX others_hash ON others USING hash (hash);
CREATE INDEX others_n ON others USING brin (n) WITH (pages_per_range = 2);
CREATE FUNCTION add_others(a int, b int) RETURNS void LANGUAGE sql AS $$ INSERT INTO others SELECT g, ARRAY[g % 7, g % 90, g % 400], to_tsvector('simple', 'w' || g % 13 || ' w' || g % 301 || ' w' || g), point(g * 37 % 211, g * 53 % 307), int4range(g * 71 % 5003, g * 71 % 5003 + 9), md5((g * 7919)::text), md5((g * 31)::text), g FROM generate_series(a, b) g $$;
SELECT add_others(1, 3000);
CHECKPOINT;
SELECT add_others(3001, 4200);
UPDATE others SET tags = ARRAY[id % 11, id % 70], at = point(id % 101, id % 307) WHERE id % 6 = 0;
CHECKPOINT;
DELETE FROM others WHERE id % 3 = 0;
VACUUM others;
SELECT add_others(5001, 6500);
CHECKPOINT;
DELETE FROM others WHERE id BETWEEN 1000 AND 3500;
VACUUM others;
SELECT brin_summarize_new_values('others_n');
SELECT add_others(7001, 7800);
UPDATE others SET n = -n WHERE id % 40 = 0;
SELECT brin_desummarize_range('others_n', 0);
";

/// The segments in `pg_wal` up to the one that is written, in their order.
fn segments(server: &Server<'_>) -> Vec<Vec<u8>> {
    let last = server.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    let folder = server.data().join("pg_wal");
    let entries = fs::read_dir(&folder).expect("pg_wal");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.len() == 24 && *name <= last)
        .collect();
    names.sort();
    let read = |name: &String| fs::read(folder.join(name)).expect("a segment");
    names.iter().map(read).collect()
}

/// The pages after all records of the segments. Records that cross to another segment are put
/// together.
fn replayed(segments: &[Vec<u8>]) -> (PageCache, Vec<PageKey>) {
    let mut cache = PageCache::new(1 << 16);
    let mut keys = Vec::new();
    let mut begun = Vec::new();
    for segment in segments {
        let mut reader = SegmentReader::new(segment).expect("a segment");
        let version = reader.header().version;
        let start = reader.header().start.0;
        let mut layout = RecordLayout::default();
        while let Some(event) = reader.next_event(&mut layout) {
            let bytes = match event {
                Event::Record { .. } => reader.bytes().to_vec(),
                Event::Tail { .. } => {
                    begun = reader.bytes().to_vec();
                    continue;
                }
                Event::Lead { whole: true } if !begun.is_empty() => {
                    let mut record = std::mem::take(&mut begun);
                    record.extend_from_slice(reader.bytes());
                    if layout.read(&record, version).is_err() {
                        continue;
                    }
                    record
                }
                _ => continue,
            };
            let rules = Rules {
                version,
                revision: Revision::Third,
            };
            let record = Record {
                rules,
                layout: &layout,
                bytes: &bytes,
            };
            let _ = redo(&record, &mut cache);
            let end = start + reader.next_offset() as u64;
            for block in &layout.blocks {
                let key = PageKey::from(block);
                if let Some(image) = block.image {
                    assert_eq!(image.compression, Compression::None);
                    let (hole, page) = (usize::from(image.hole_offset), cache.get_or_new(key));
                    let image = &bytes[image.start..image.start + usize::from(image.len)];
                    page.fill(0);
                    page[..hole].copy_from_slice(&image[..hole]);
                    let back = &image[hole..];
                    page[PAGE - back.len()..].copy_from_slice(back);
                }
                if let Some(page) = cache.get_mut(&key) {
                    page.set_lsn(end);
                    keys.push(key);
                }
            }
        }
    }
    keys.sort_by_key(|key| (key.locator, key.fork, key.block));
    keys.dedup();
    (cache, keys)
}

/// A page without what no record says: hints, checksums, command ids, the free space and padding.
fn without_hints(page: &PageBytes, is_index: bool) -> BTreeMap<u16, Vec<u8>> {
    let mut items = BTreeMap::new();
    let mut header = page[12..20].to_vec();
    header.push(page[10] & 4);
    items.insert(0, header);
    for number in 1..=page.items() {
        let pointer = page.line_pointer(number).expect("a line pointer");
        let mut item = page.item(number).unwrap_or_default().to_vec();
        // Where it stands: pages are compacted as the server does it.
        item.extend(pointer.offset.to_le_bytes());
        if is_index {
            item.push(pointer.state as u8 & 1);
        } else {
            item.push(pointer.state as u8);
            if item.len() > 25 {
                // t_cid, the hints of t_infomask and what they say of a combined command.
                item[8..12].fill(0);
                item[20] &= !0x20;
                item[21] &= !0x0F;
            }
        }
        items.insert(number, item);
    }
    items
}

/// The indexes of [`OTHER_INDEXES`].
const OTHERS: [&str; 8] = [
    "others_tags",
    "others_words",
    "others_at",
    "others_range",
    "others_name",
    "others_quad",
    "others_hash",
    "others_n",
];

fn is_gin(index: &str) -> bool {
    matches!(index, "others_tags" | "others_words")
}

/// The bytes of a page of an index without those that no record says: its position, checksum and free
/// space, and of GiST the position of the last split.
fn comparable(page: &PageBytes, index: &str) -> Vec<u8> {
    let mut page = *page;
    page[..10].fill(0);
    let (start, len) = page.hole();
    let is_map = index == "others_n" && page[PAGE - 2..] == [0x92, 0xF0];
    if !is_map {
        page[start..start + len].fill(0);
    }
    if matches!(index, "others_at" | "others_range") {
        page[PAGE - 16..PAGE - 8].fill(0);
    }
    page.to_vec()
}

fn file_of(server: &Server<'_>, table: &str) -> (u32, Vec<u8>) {
    let path = server.sql(&format!("SELECT pg_relation_filepath('{table}')"));
    let number = Path::new(&path).file_name().and_then(|name| name.to_str());
    let number = number.and_then(|name| name.parse().ok());
    let bytes = fs::read(server.data().join(&path)).expect("a relation's file");
    (number.expect("a file number"), bytes)
}

#[test]
fn pages_after_replay_are_the_servers() {
    for major in majors_with_servers() {
        let Some(site) = Site::new(major) else { return };
        let server = Server::create(&site, "primary", 1);
        server.configure(
            "wal_keep_size = 1GB\nautovacuum = off\nwal_compression = off\nfsync = off\n\
             full_page_writes = on",
        );
        server.start(&[]);
        let statements = WORKLOAD.split(";\n").chain(OTHER_INDEXES.split(";\n"));
        for statement in statements.filter(|text| !text.trim().is_empty()) {
            server.sql(statement);
        }
        server.sql("CHECKPOINT");
        let segments = segments(&server);
        let (mut cache, keys) = replayed(&segments);
        let mut compared = 0;
        for (name, is_index) in [
            ("rows", false),
            ("rows_pkey", true),
            ("rows_name", true),
            ("rows_price", true),
        ] {
            let (relation, file) = file_of(&server, name);
            let pages = file.as_chunks::<PAGE>().0;
            for key in &keys {
                if key.locator.relation != relation || key.fork != 0 || (is_index && key.block == 0)
                {
                    continue;
                }
                let Some(expected) = pages.get(key.block as usize) else {
                    continue;
                };
                // Of a page that is gone the server leaves what was there.
                if is_index && expected[PAGE - 4] & DELETED != 0 {
                    continue;
                }
                let found = cache.get_mut(key).expect("a page");
                let (found, expected) = (
                    without_hints(found, is_index),
                    without_hints(expected, is_index),
                );
                let differing = expected
                    .iter()
                    .find(|(number, item)| found.get(number) != Some(*item));
                let found = differing.map(|(number, _)| found.get(number));
                assert!(
                    differing.is_none(),
                    "{major}: {name}, block {}: {differing:?}, not {found:?}",
                    key.block
                );
                compared += 1;
            }
        }
        assert!(compared > 150, "{major}: {compared} pages");
        for name in OTHERS {
            let (relation, file) = file_of(&server, name);
            let pages = file.as_chunks::<PAGE>().0;
            let (mut equal, mut different) = (0, Vec::new());
            for key in &keys {
                let expected = pages.get(key.block as usize);
                if key.locator.relation != relation || key.fork != 0 {
                    continue;
                }
                let (Some(found), Some(expected)) = (cache.get_mut(key), expected) else {
                    continue;
                };
                // What the server remembers on a metapage for itself is not logged.
                if matches!(name, "others_name" | "others_quad") && key.block == 0 {
                    continue;
                }
                // Of a page that is gone the server leaves what was there.
                if is_gin(name) && expected[PAGE - 2] & GIN_DELETED != 0 {
                    continue;
                }
                match comparable(found, name) == comparable(expected, name) {
                    true => equal += 1,
                    false => different.push(key.block),
                }
            }
            println!("{major}: {name}: {equal} pages, not {different:?}");
            assert!(
                equal >= 2 && different.is_empty(),
                "{major}: {name}: {equal}, not {different:?}"
            );
        }
        come_back_small(major, &segments);
        server.stop();
    }
}

/// The same segments, each told from those before it.
fn come_back_small(major: u32, segments: &[Vec<u8>]) {
    let mut encoder = HistoryEncoder::new(Level::MIN);
    let mut decoder = HistoryDecoder::new();
    let (mut after, mut alone) = (0, 0);
    for segment in segments {
        let file = encoder.encode(segment).expect("encodes");
        let mut back = Vec::new();
        decoder.decode(&file, &mut back).expect("decodes");
        assert!(back == *segment, "{major}");
        after += file.len();
        alone += encode(segment, Level::MIN).expect("encodes").len();
    }
    println!("{major}: {after} bytes, {alone} without the WAL before");
    assert!(after * 10 < alone * 9, "{major}: {after} of {alone} bytes");
}
