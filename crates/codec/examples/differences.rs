//! What changed blocks become, told from the blocks that stood in their places before, and as chunks
//! without them. Every chunk is decoded and compared.
//!
//! ```text
//! cargo run --release -p walzip-codec --example differences -- [-LEVEL] [--account] BEFORE AFTER
//! ```
//!
//! BEFORE and AFTER are data directories, or copies of one at two times.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use walzip_codec::{
    ChunkEncoder, Extent, Level, StreamKind, account_differences, decode_differences,
    encode_differences,
};
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::relation_file::{Fork, RelationFile};

type Error = Box<dyn std::error::Error>;

/// Bytes of a chunk.
const CHUNK_LEN: usize = 512 * PAGE_SIZE;

/// Blocks of files, one after the other.
#[derive(Default)]
struct Chunk {
    extents: Vec<Extent>,
    bytes: Vec<u8>,
    base: Vec<u8>,
}

/// What there was, and what it became.
#[derive(Default)]
struct Sums {
    changed: usize,
    differences: usize,
    as_chunks: usize,
    new: usize,
    new_as_chunks: usize,
    unchanged: usize,
    seconds: [f64; 3],
    streams: BTreeMap<StreamKind, [usize; 2]>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("differences: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    let (mut level, mut account, mut paths) = (Level::MIN, false, Vec::new());
    for argument in std::env::args().skip(1) {
        match argument.strip_prefix('-') {
            Some("-account") => account = true,
            Some(number) => level = Level::new(number.parse()?).ok_or("levels are 1 to 9")?,
            None => paths.push(PathBuf::from(argument)),
        }
    }
    let [before, after] = &paths[..] else {
        return Err("usage: differences [-LEVEL] [--account] BEFORE AFTER".into());
    };
    let mut files = Vec::new();
    list_files(after, Path::new(""), &mut files)?;
    files.sort();
    let (mut sums, mut changed, mut new) = (Sums::default(), Chunk::default(), Chunk::default());
    let mut encoder = ChunkEncoder::new(level, false);
    for (number, file) in files.iter().enumerate() {
        let bytes = fs::read(after.join(file))?;
        let base = fs::read(before.join(file)).unwrap_or_default();
        let is_relation = RelationFile::of_path(&file.to_string_lossy())
            .is_some_and(|file| matches!(file.fork, Fork::Main | Fork::Init));
        for (block, part) in bytes.as_chunks::<PAGE_SIZE>().0.iter().enumerate() {
            let extent = match is_relation {
                true => Extent::Pages {
                    relation: number as u32,
                    first_block: block as u32,
                    pages: 1,
                },
                false => Extent::Bytes {
                    len: PAGE_SIZE as u32,
                },
            };
            match base.as_chunks::<PAGE_SIZE>().0.get(block) {
                Some(base) if base == part => sums.unchanged += PAGE_SIZE,
                Some(base) => {
                    changed.add(extent, part, base);
                    if changed.bytes.len() == CHUNK_LEN {
                        sums.differences(&std::mem::take(&mut changed), level, account)?;
                    }
                }
                None => {
                    new.add(extent, part, &[]);
                    if new.bytes.len() == CHUNK_LEN {
                        let chunk = std::mem::take(&mut new);
                        sums.new += chunk.bytes.len();
                        sums.new_as_chunks += encoder.encode(&chunk.extents, &chunk.bytes)?.len();
                    }
                }
            }
        }
    }
    sums.differences(&changed, level, account)?;
    sums.new += new.bytes.len();
    sums.new_as_chunks += encoder.encode(&new.extents, &new.bytes)?.len();
    sums.print();
    Ok(())
}

impl Chunk {
    fn add(&mut self, extent: Extent, bytes: &[u8], base: &[u8]) {
        let is_next = |last: &mut Extent| last.include(extent);
        if !self.extents.last_mut().is_some_and(is_next) {
            self.extents.push(extent);
        }
        self.bytes.extend_from_slice(bytes);
        self.base.extend_from_slice(base);
    }
}

impl Sums {
    fn differences(&mut self, chunk: &Chunk, level: Level, account: bool) -> Result<(), Error> {
        let Chunk {
            extents,
            bytes,
            base,
        } = chunk;
        self.changed += bytes.len();
        let begin = Instant::now();
        let member = encode_differences(extents, bytes, base, level, false)?;
        let member = member.ok_or("the format cannot say it")?;
        self.seconds[0] += begin.elapsed().as_secs_f64();
        self.differences += member.len();
        let begin = Instant::now();
        if decode_differences(&member, base)? != *bytes {
            return Err("decoded to other bytes".into());
        }
        self.seconds[1] += begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        self.as_chunks += ChunkEncoder::new(level, false)
            .encode(extents, bytes)?
            .len();
        self.seconds[2] += begin.elapsed().as_secs_f64();
        if account {
            for account in account_differences(extents, bytes, base, level)? {
                let [raw, packed] = self.streams.entry(account.kind).or_default();
                *raw += account.stream_bytes;
                *packed += account.packed_bytes;
            }
        }
        Ok(())
    }

    fn print(&self) {
        let [encoding, decoding, plainly] = self.seconds;
        println!(
            "unchanged {}\nchanged {}: differences {} ({encoding:.2} s, back {decoding:.2} s), \
             as chunks {} ({plainly:.2} s)\nnew {}: as chunks {}",
            self.unchanged,
            self.changed,
            self.differences,
            self.as_chunks,
            self.new,
            self.new_as_chunks
        );
        for (kind, [raw, packed]) in &self.streams {
            println!("{packed:11} of {raw:11} {kind:?}");
        }
    }
}

fn list_files(root: &Path, below: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() && entry.file_name() != "pg_wal" {
            list_files(root, &path, files)?;
        } else if entry.file_type()?.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
