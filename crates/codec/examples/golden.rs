//! Makes the golden files of this version of the format:
//!
//! ```text
//! mkdir FOLDER
//! cargo run --release -p walzip-codec --example golden -- FOLDER
//! ```
//!
//! Each shows one feature, and is small: a sample segment is cut down to the header of its
//! first page and the few pages that have the feature, with zeros between and behind them, so
//! that every record keeps its place. `hashes.txt` gets the BLAKE3 hash of each original. The samples are
//! in the folder that `WALZIP_SAMPLES` names, else in `../shared/wal-samples`.
//!
//! What is in crates/codec/tests/golden stays there. The files of features that this version
//! introduced, and their lines of `hashes.txt`, are copied to it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use walzip_codec::table::{Entries, TableRows};
use walzip_codec::{
    ChunkEncoder, Encoder, Extent, Header, Level, MemberKind, RunBoth, VERSION, encode_chunk,
    encode_differences, encode_verified, name_file,
};
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::rmgr_id::{BTREE, GIN, HEAP, HEAP2, XACT, XLOG};
use walzip_pgformat::wal::{Compression, Event, Image, PageHeader, RecordLayout, SegmentReader};

#[path = "../tests/all/table_pages.rs"]
mod table_pages;

type Error = Box<dyn std::error::Error>;

/// What a file shows, and which record of a sample has it.
struct Feature {
    name: &'static str,
    workload: &'static str,
    /// Looks at a record and its bytes.
    has: fn(&RecordLayout, &[u8]) -> bool,
    /// Pages that the file shows, from that record on.
    pages: usize,
}

impl Feature {
    /// More pages, for what only many records show.
    const fn on_pages(mut self, pages: usize) -> Feature {
        self.pages = pages;
        self
    }
}

const fn feature(
    name: &'static str,
    workload: &'static str,
    has: fn(&RecordLayout, &[u8]) -> bool,
) -> Feature {
    Feature {
        name,
        workload,
        has,
        pages: 2,
    }
}

const FEATURES: &[Feature] = &[
    feature("heap_and_btree", "oltp-steady", |r, _| {
        is(r, BTREE, 0x00) && !has_image(r)
    }),
    feature("heap_update", "oltp-steady", |r, _| {
        is(r, HEAP, 0x20) && !has_image(r)
    }),
    feature("heap_delete", "oltp-mixed", |r, _| {
        is(r, HEAP, 0x10) && !has_image(r)
    }),
    feature("heap_multi_insert", "bulk-copy", |r, _| is(r, HEAP2, 0x50)),
    feature("rows_of_a_copy", "bulk-copy", |r, _| is(r, HEAP2, 0x50)).on_pages(8),
    feature("jsonb", "oltp-steady", |r, _| is(r, HEAP, 0x00)).on_pages(8),
    feature("coded_streams", "oltp-steady", |r, _| is(r, HEAP, 0x00)).on_pages(16),
    feature("heap_prune", "oltp-mixed", |r, _| {
        is(r, HEAP2, 0x10) && !has_image(r)
    }),
    feature("heap_page", "pg16-oltp", |r, _| {
        is(r, HEAP, 0x40) && plain_image(r)
    }),
    feature("btree_split", "oltp-steady", |r, _| {
        is(r, BTREE, 0x30) || is(r, BTREE, 0x40)
    }),
    feature("btree_dedup", "oltp-mixed", |r, _| is(r, BTREE, 0x60)),
    feature("btree_page", "oltp-mixed", |r, _| {
        is(r, BTREE, 0x00) && plain_image(r)
    }),
    feature("btree_build", "create-index", |r, _| {
        is(r, XLOG, 0xB0) && plain_image(r)
    }),
    feature("gin_list_page", "oltp-mixed", |r, _| is(r, GIN, 0x70)),
    feature("gin_meta_page", "oltp-mixed", |r, _| is(r, GIN, 0x60)),
    feature("gin_entries", "oltp-mixed", |r, bytes| {
        gin_page(r, bytes, 2)
    }),
    feature("gin_posting_page", "oltp-mixed", |r, bytes| {
        gin_page(r, bytes, 0x83)
    }),
    feature("gin_split", "oltp-mixed", |r, _| is(r, GIN, 0x30)),
    feature("commit", "pgbench-off", |r, _| is(r, XACT, 0x00)),
    feature("toplevel_xid", "oltp-logical", |r, _| {
        r.toplevel_xid.is_some()
    }),
    feature("image_pglz", "pgbench-pglz", |r, _| {
        image_by(r, Compression::Pglz)
    }),
    feature("image_pglz_14", "pg14-oltp-on", |r, _| {
        image_by(r, Compression::Pglz)
    }),
    feature("image_lz4", "pgbench-lz4", |r, _| {
        image_by(r, Compression::Lz4)
    }),
    feature("image_zstd", "pgbench-zstd", |r, _| {
        image_by(r, Compression::Zstd)
    }),
    feature("postgresql_13", "pg13-oltp", |_, _| true),
    feature("postgresql_14", "pg14-oltp", |_, _| true),
    feature("postgresql_17", "pg17-oltp", |_, _| true),
    feature("postgresql_18", "pg18-oltp", |_, _| true),
    feature("idle", "idle", |_, _| true),
    feature("segment_of_64_mb", "seg64", |_, _| true),
];

/// Features of the coding behind the streams, which the strongest level has.
const MIXED: &[Feature] = &[
    feature("mixed_streams", "oltp-steady", |r, _| {
        is(r, HEAP, 0x20) && !has_image(r)
    })
    .on_pages(8),
    feature("mixed_planes", "bulk-copy", |r, _| is(r, HEAP2, 0x50)).on_pages(8),
];

/// Columns of more rows than a block of a layout has, in frames of zstd for pieces of the content
/// and mixed: a whole segment in tests/inputs.
const LONG_COLUMNS: (&str, [(&str, Level); 2]) = (
    "pg15_long_columns.xz",
    [("long_columns", Level::MIN), ("mixed_blocks", Level::MAX)],
);

/// Features that no sample has or few, and the files in tests/inputs that do: cut down already.
const KEPT: &[(&str, &str)] = &[
    ("image_zstd_1_5_7", "pg18_zstd_1_5_7.xz"),
    ("gist_and_spgist", "pg15_gist_and_spgist.xz"),
    ("row_versions", "pg15_row_versions"),
    ("replica_identity_full", "pg15_replica_identity_full"),
    ("gin_keys", "pg15_gin_keys"),
    ("words", "pg15_words"),
    ("changed_words", "pg15_changed_words.xz"),
    ("tokens", "pg15_tokens.xz"),
    ("image_rows", "pg15_image_rows.xz"),
];

/// Chunks of relation files, kept in tests/inputs/pages, and the runs of pages in each: a number
/// of the relation, that of the first page, and how many there are. Behind the pages are bytes of
/// another file.
type Runs = &'static [(u32, u32, u32)];
const CHUNKS: &[(&str, Runs)] = &[
    ("heap_pages", &[(0, 0, 2), (0, 9000, 1), (1, 3, 1)]),
    ("stale_bytes", &[(0, 1500, 2), (1, 6, 1), (2, 4000, 1)]),
    ("btree_pages", &[(0, 0, 4), (1, 0, 2)]),
    (
        "other_indexes",
        &[
            (0, 0, 3),
            (1, 0, 4),
            (2, 0, 2),
            (3, 0, 4),
            (4, 0, 3),
            (5, 0, 1),
        ],
    ),
    ("forms_of_values", &[(0, 10, 2), (1, 5, 2)]),
    (
        "compressed_values",
        &[(0, 0, 2), (1, 1, 1), (1, 4, 1), (2, 0, 2)],
    ),
    ("odd_pages", &[(0, 699, 1), (0, 700, 1), (0, 702, 3)]),
];

fn is(record: &RecordLayout, rmid: u8, info: u8) -> bool {
    let mask = if matches!(rmid, HEAP | HEAP2 | XACT) {
        0x70
    } else {
        0xF0
    };
    record.header.rmid == rmid && record.header.info & mask == info
}

fn images(record: &RecordLayout) -> impl Iterator<Item = &Image> {
    record
        .blocks
        .iter()
        .filter_map(|block| block.image.as_ref())
}

fn has_image(record: &RecordLayout) -> bool {
    images(record).next().is_some()
}

fn plain_image(record: &RecordLayout) -> bool {
    images(record).any(|image| image.compression == Compression::None && image.len > 4000)
}

fn image_by(record: &RecordLayout, compression: Compression) -> bool {
    images(record).any(|image| image.compression == compression)
}

/// A GIN page whose flags, in its last two bytes, are these.
fn gin_page(record: &RecordLayout, bytes: &[u8], flags: u16) -> bool {
    let is_page = |image: &Image| {
        let end = image.start + usize::from(image.len);
        image.len > 4000 && bytes[end - 2..end] == flags.to_le_bytes()
    };
    record.header.rmid == GIN && plain_image(record) && images(record).any(is_page)
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: golden FOLDER");
        return ExitCode::from(2);
    };
    match make(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("golden: {error}");
            ExitCode::FAILURE
        }
    }
}

fn make(folder: &Path) -> Result<(), Error> {
    let mut hashes = Vec::new();
    let mut originals = foreign();
    for feature in FEATURES {
        let segment = read_sample(feature.workload)?;
        let original = cut_down(&segment, feature)
            .ok_or_else(|| format!("no record in {} shows {}", feature.workload, feature.name))?;
        originals.push((feature.name, vec![original]));
    }
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs");
    for (name, input) in KEPT {
        originals.push((name, vec![unpack(&inputs.join(input))?]));
    }
    let mut files = Vec::new();
    for (name, members) in originals {
        let mut file = Vec::new();
        for member in &members {
            file.extend(encode_verified(member, Level::default())?);
        }
        if name == NAMED {
            name_file(&mut file, "00000002.history")?;
        }
        files.push((name, members, file));
    }
    for feature in MIXED {
        let original = cut_down(&read_sample(feature.workload)?, feature)
            .ok_or_else(|| format!("no record in {} shows {}", feature.workload, feature.name))?;
        let file = encode_verified(&original, Level::MAX)?;
        let unmixed = encode_verified(&original, Level::STRONG)?;
        if file.len() >= unmixed.len() {
            return Err(format!("{} is not smaller mixed", feature.name).into());
        }
        files.push((feature.name, vec![original], file));
    }
    let (input, features) = LONG_COLUMNS;
    let original = unpack(&inputs.join(input))?;
    for (name, level) in features {
        let file = encode_verified(&original, level)?;
        files.push((name, vec![original.clone()], file));
    }
    for (name, runs) in CHUNKS {
        let original = unpack(&inputs.join(format!("pages/{name}.xz")))?;
        let file = encode_chunk(&extents(runs, &original), &original, Level::default(), true)?;
        if Header::read(&file)?.kind != MemberKind::Pages {
            return Err(format!("{name} is no member of pages").into());
        }
        files.push((name, vec![original], file));
    }
    write_differences(&folder.join("differences"), &inputs)?;
    write_index_pages(&folder.join("index_pages"))?;
    let (original, file) = parts()?;
    files.push(("parts", vec![original], file));
    for (name, members, file) in files {
        let name = format!("v{VERSION}_{name}.wz");
        println!("{:6} {name}", file.len());
        fs::write(folder.join(&name), file)?;
        hashes.push((name, blake3::hash(&members.concat()).to_hex()));
    }
    hashes.sort();
    let mut list = String::new();
    for (name, hash) in hashes {
        writeln!(list, "{hash}  {name}")?;
    }
    fs::write(folder.join("hashes.txt"), list)?;
    Ok(())
}

/// Pages of indexes that are told from the rows of their table.
fn write_index_pages(folder: &Path) -> Result<(), Error> {
    let rows = table_pages::rows(900, 10);
    let (pages, tids) = table_pages::table(&rows);
    let shape = table_pages::shape();
    let mut of_table = TableRows::new(&shape, 1 << 20);
    of_table.add_pages(&shape, 0, &pages);
    let run_both: RunBoth = |beside, here| {
        here();
        beside();
    };
    let rows_of_table = Arc::new(of_table);
    fs::create_dir_all(folder)?;
    let indexes = [
        ("index_pages", table_pages::text_index(&rows, &tids)),
        ("posting_lists", table_pages::long_index(&rows, &tids)),
    ];
    for ((name, bytes), key) in indexes.iter().zip(&shape.indexes) {
        let entries = Entries::sort(Arc::clone(&rows_of_table), &shape, key, run_both);
        let extents = [Extent::Pages {
            relation: 0,
            first_block: 1,
            pages: (bytes.len() / PAGE_SIZE) as u32,
        }];
        let mut encoder = ChunkEncoder::new(Level::default(), true);
        let (member, is_told) = encoder.encode_index(&extents, bytes, &Arc::new(entries))?;
        if !is_told {
            return Err(format!("{name} is no member of an index").into());
        }
        let path = folder.join(format!("v{VERSION}_{name}.wz"));
        println!("{:6} {}", member.len(), path.display());
        fs::write(path, member)?;
    }
    Ok(())
}

/// A member of differences: pages of a golden file, changed as its test changes them.
fn write_differences(folder: &Path, inputs: &Path) -> Result<(), Error> {
    let base = unpack(&inputs.join("pages/heap_pages.xz"))?;
    let base = &base[..base.len() / PAGE_SIZE * PAGE_SIZE];
    let mut bytes = base.to_vec();
    for page in bytes.chunks_exact_mut(PAGE_SIZE) {
        page.copy_within(8000..8100, 4000);
        page.copy_within(2000..2300, 2060);
        page[3000..3040].fill(0);
        page.iter_mut().step_by(1013).for_each(|byte| *byte ^= 0x55);
    }
    let pages = bytes.len() / PAGE_SIZE;
    let extents = [
        Extent::Pages {
            relation: 0,
            first_block: 0,
            pages: pages as u32 - 1,
        },
        Extent::Bytes {
            len: PAGE_SIZE as u32,
        },
    ];
    let member = encode_differences(&extents, &bytes, base, Level::default(), true)?;
    let member = member.ok_or("no member of differences")?;
    let path = folder.join(format!("v{VERSION}_differences.wz"));
    println!("{:6} {}", member.len(), path.display());
    fs::create_dir_all(folder)?;
    fs::write(path, member)?;
    Ok(())
}

fn extents(runs: &[(u32, u32, u32)], original: &[u8]) -> Vec<Extent> {
    let of_pages = |&(relation, first_block, pages)| Extent::Pages {
        relation,
        first_block,
        pages,
    };
    let mut extents: Vec<Extent> = runs.iter().map(of_pages).collect();
    let of_runs: u64 = extents.iter().map(|extent| extent.len()).sum();
    let len = original.len() as u32 - of_runs as u32;
    extents.push(Extent::Bytes { len });
    extents
}

/// The feature of a file that has a name.
const NAMED: &str = "name";
/// A segment in two parts, and a record that goes on from one to the other.
fn parts() -> Result<(Vec<u8>, Vec<u8>), Error> {
    let update: fn(&RecordLayout, &[u8]) -> bool = |r, _| is(r, HEAP, 0x20) && !has_image(r);
    let shown = feature("parts", "oltp-steady", update).on_pages(4);
    let original = cut_down(&read_sample(shown.workload)?, &shown).ok_or("no update")?;
    let begins_late = |page: &[u8]| page.iter().any(|&byte| byte != 0);
    let first = original.chunks(PAGE_SIZE).skip(1).position(begins_late);
    let two_pages_in = (first.ok_or("no page")? + 1 + 2) * PAGE_SIZE;
    let rest = original.len() - two_pages_in;
    let mut encoder = Encoder::new(Level::default(), true).with_part_len(two_pages_in.max(rest));
    let (front, behind) = original.split_at(two_pages_in);
    let file = [encoder.encode(front)?, encoder.encode(behind)?].concat();
    let goes_on = |bytes: &[u8]| PageHeader::read(bytes).is_some_and(|h| h.remaining_len > 0);
    match goes_on(behind) {
        true => Ok((original, file)),
        false => Err("no record goes on from part to part".into()),
    }
}

/// What is no WAL, by name; as one or more members.
fn foreign() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let text = b"START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n".repeat(9);
    let mut state = 1u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    vec![
        ("nothing", vec![Vec::new()]),
        ("foreign", vec![text.clone()]),
        ("foreign_stored", vec![noise.take(300).collect()]),
        ("two_members", vec![text, b"and another one".to_vec()]),
        (NAMED, vec![b"1\t0/3000000\tbefore 2026\n".to_vec()]),
    ]
}

/// The first page's header, and the pages from the first record with the feature on. What the
/// first of them begins with is the rest of a record of before, the last ends within one.
fn cut_down(segment: &[u8], feature: &Feature) -> Option<Vec<u8>> {
    let mut reader = SegmentReader::new(segment).ok()?;
    let start = reader.header().start.0;
    let mut layout = RecordLayout::default();
    loop {
        let event = reader.next_event(&mut layout)?;
        let Event::Record { lsn } = event else {
            continue;
        };
        let at = usize::try_from(lsn.0 - start).ok()?;
        // A record that ends behind the pages that are kept would not be one.
        let first = at / PAGE_SIZE * PAGE_SIZE;
        let end = (first + feature.pages * PAGE_SIZE).min(segment.len());
        if at + reader.bytes().len() + 64 < end && (feature.has)(&layout, reader.bytes()) {
            let mut original = vec![0; segment.len()];
            original[..PageHeader::LONG_LEN].copy_from_slice(&segment[..PageHeader::LONG_LEN]);
            // No record of before goes on behind the header: its flag and its length.
            original[2] &= !1;
            original[16..20].fill(0);
            original[first..end].copy_from_slice(&segment[first..end]);
            return Some(original);
        }
    }
}

fn read_sample(workload: &str) -> Result<Vec<u8>, Error> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/wal-samples");
    let root = std::env::var_os("WALZIP_SAMPLES").map_or(beside, PathBuf::from);
    let folder = root.join(workload);
    let mut files = fs::read_dir(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    files.sort();
    unpack(files.first().ok_or("an empty folder of samples")?)
}

fn unpack(file: &Path) -> Result<Vec<u8>, Error> {
    if file.extension().is_none() {
        return Ok(fs::read(file)?);
    }
    let output = Command::new("xz").arg("-dc").arg(file).output()?;
    if !output.status.success() {
        return Err(format!("xz -dc {} failed", file.display()).into());
    }
    Ok(output.stdout)
}
