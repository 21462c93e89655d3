//! What chunks of relation files become: of each kind of file the bytes, raw, as zstd makes them
//! and as walzip does, and processor time. Every chunk is decoded and compared.
//!
//! ```text
//! cargo run --release -p walzip-codec --example pages -- [-LEVEL]... [--zstd LEVEL]... [--account] PATH...
//! ```
//!
//! A path is a data directory or a file of a relation. Forks of 512 pages and more are cut into
//! chunks of 512 pages; smaller files share chunks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use walzip_codec::{ChunkEncoder, Extent, Level, StreamKind, account_chunk, decode};
use walzip_pgformat::PAGE_SIZE;

type Error = Box<dyn std::error::Error>;

/// Bytes of a chunk.
const CHUNK_LEN: usize = 512 * PAGE_SIZE;

/// What is asked for.
#[derive(Default)]
struct Request {
    levels: Vec<Level>,
    zstd_levels: Vec<i32>,
    by_stream: bool,
    paths: Vec<PathBuf>,
}

/// A chunk, and what it holds.
struct Chunk {
    kind: String,
    extents: Vec<Extent>,
    bytes: Vec<u8>,
}

/// Bytes and seconds of one way to pack.
#[derive(Clone, Copy, Default)]
struct Cost {
    len: usize,
    encoding: f64,
    decoding: f64,
}

fn main() -> ExitCode {
    match request().and_then(|request| run(&request)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pages: {error}");
            ExitCode::FAILURE
        }
    }
}

fn request() -> Result<Request, Error> {
    let mut request = Request::default();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--zstd") => {
                let level = arguments.next().ok_or("--zstd needs a level")?;
                let level = level.to_str().ok_or("a level is a number")?.parse()?;
                request.zstd_levels.push(level);
            }
            Some("--account") => request.by_stream = true,
            Some(level) if level.starts_with('-') => {
                let level = Level::new(level[1..].parse()?).ok_or("levels are 1 to 9")?;
                request.levels.push(level);
            }
            _ => request.paths.push(argument.into()),
        }
    }
    if request.levels.is_empty() {
        request.levels.push(Level::MIN);
    }
    match request.paths.is_empty() {
        true => Err("usage: pages [-LEVEL]... [--zstd LEVEL]... [--account] PATH...".into()),
        false => Ok(request),
    }
}

fn run(request: &Request) -> Result<(), Error> {
    let mut names: Vec<String> = Vec::new();
    names.extend(
        request
            .zstd_levels
            .iter()
            .map(|level| format!("zstd -{level}")),
    );
    names.extend(
        request
            .levels
            .iter()
            .map(|level| format!("walzip -{}", level.get())),
    );
    let mut raw: BTreeMap<String, usize> = BTreeMap::new();
    let mut costs: BTreeMap<String, Vec<Cost>> = BTreeMap::new();
    let mut streams: BTreeMap<StreamKind, [usize; 2]> = BTreeMap::new();
    for path in &request.paths {
        let encoders = request.levels.iter();
        let mut encoders: Vec<_> = encoders
            .map(|level| ChunkEncoder::new(*level, false))
            .collect();
        each_chunk(path, &mut |chunk: Chunk| {
            let mut found = Vec::new();
            for level in &request.zstd_levels {
                found.push(by_zstd(&chunk, *level)?);
            }
            for encoder in &mut encoders {
                found.push(by_walzip(&chunk, encoder)?);
            }
            if request.by_stream {
                let level = request.levels.first().copied().unwrap_or(Level::MIN);
                for account in account_chunk(&chunk.extents, &chunk.bytes, level)? {
                    let [raw, packed] = streams.entry(account.kind).or_default();
                    *raw += account.stream_bytes;
                    *packed += account.packed_bytes;
                }
            }
            for kind in [chunk.kind.as_str(), "all"] {
                *raw.entry(kind.to_owned()).or_default() += chunk.bytes.len();
                let costs = costs.entry(kind.to_owned()).or_default();
                costs.resize(names.len(), Cost::default());
                for (cost, found) in costs.iter_mut().zip(&found) {
                    cost.len += found.len;
                    cost.encoding += found.encoding;
                    cost.decoding += found.decoding;
                }
            }
            Ok(())
        })?;
    }
    for (kind, raw) in &raw {
        println!("{kind}: {raw} bytes");
        for (name, cost) in names.iter().zip(&costs[kind]) {
            let pages = *raw as f64 / PAGE_SIZE as f64;
            println!(
                "  {name:10} {:11} {:6.2} %   {:7.2} s {:6.2} s   {:6.1} µs {:6.1} µs a page",
                cost.len,
                cost.len as f64 * 100.0 / *raw as f64,
                cost.encoding,
                cost.decoding,
                cost.encoding * 1e6 / pages,
                cost.decoding * 1e6 / pages,
            );
        }
    }
    let mut by_len: Vec<_> = streams.into_iter().collect();
    by_len.sort_by_key(|(_, [_, packed])| std::cmp::Reverse(*packed));
    for (kind, [raw, packed]) in by_len {
        println!("{packed:11} of {raw:11} {kind:?}");
    }
    Ok(())
}

/// Processor time of this thread, in seconds; of the clock where the system does not tell.
fn cpu_seconds(begin: Instant) -> f64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|line| line.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(
        || begin.elapsed().as_secs_f64(),
        |nanoseconds| nanoseconds / 1e9,
    )
}

fn timed<T>(action: impl FnOnce() -> T) -> (T, f64) {
    let begin = Instant::now();
    let before = cpu_seconds(begin);
    let result = action();
    (result, cpu_seconds(begin) - before)
}

fn by_zstd(chunk: &Chunk, level: i32) -> Result<Cost, Error> {
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(chunk.bytes.len()));
    let (len, encoding) = timed(|| zstd_safe::compress(&mut packed, &chunk.bytes, level));
    let len = len.map_err(zstd_safe::get_error_name)?;
    let mut unpacked = Vec::with_capacity(chunk.bytes.len());
    let (result, decoding) = timed(|| zstd_safe::decompress(&mut unpacked, &packed));
    result.map_err(zstd_safe::get_error_name)?;
    Ok(Cost {
        len,
        encoding,
        decoding,
    })
}

fn by_walzip(chunk: &Chunk, encoder: &mut ChunkEncoder) -> Result<Cost, Error> {
    let (member, encoding) = timed(|| encoder.encode(&chunk.extents, &chunk.bytes));
    let member = member?;
    let (decoded, decoding) = timed(|| decode(&member));
    match decoded? == chunk.bytes {
        true => Ok(Cost {
            len: member.len(),
            encoding,
            decoding,
        }),
        false => Err(format!("{} decodes to other bytes", chunk.kind).into()),
    }
}

/// Cuts the files of a path into chunks.
fn each_chunk(path: &Path, take: &mut dyn FnMut(Chunk) -> Result<(), Error>) -> Result<(), Error> {
    let mut files = Vec::new();
    list_files(path, &mut files)?;
    files.sort();
    let mut small = Small::default();
    for (number, file) in files.iter().enumerate() {
        let bytes = fs::read(file)?;
        let fork = Fork::of(file, number as u32);
        if bytes.len() < CHUNK_LEN {
            small.add(&fork, &bytes, take)?;
            continue;
        }
        for (index, part) in bytes.chunks(CHUNK_LEN).enumerate() {
            let first_block = fork.first_block + (index * CHUNK_LEN / PAGE_SIZE) as u32;
            let mut extents = Vec::new();
            fork.extents(first_block, part, &mut extents);
            take(Chunk {
                kind: fork.kind_of(&bytes).to_owned(),
                extents,
                bytes: part.to_vec(),
            })?;
        }
    }
    small.end(take)
}

fn list_files(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() && name != "pg_wal" {
            list_files(&entry.path(), files)?;
        } else if entry.file_type()?.is_file() && entry.metadata()?.len() > 0 {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// A file of a relation, or another one.
struct Fork {
    relation: u32,
    /// Whether it has pages that a model knows.
    is_main: bool,
    first_block: u32,
}

impl Fork {
    fn of(path: &Path, number: u32) -> Fork {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (relation, segment) = name.split_once('.').unwrap_or((&name, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let segment = segment.parse().ok().filter(|_| is_number(relation));
        Fork {
            relation: number,
            is_main: segment.is_some(),
            first_block: segment.unwrap_or(0) * 131_072,
        }
    }

    fn extents(&self, first_block: u32, bytes: &[u8], extents: &mut Vec<Extent>) {
        let pages = match self.is_main {
            true => bytes.len() / PAGE_SIZE,
            false => 0,
        };
        if pages > 0 {
            extents.push(Extent::Pages {
                relation: self.relation,
                first_block,
                pages: pages as u32,
            });
        }
        let len = bytes.len() - pages * PAGE_SIZE;
        if len > 0 {
            extents.push(Extent::Bytes { len: len as u32 });
        }
    }

    /// What its pages are, by the special space of the second one.
    fn kind_of(&self, bytes: &[u8]) -> &'static str {
        let page = bytes.chunks_exact(PAGE_SIZE).nth(1);
        let Some(page) = page.filter(|_| self.is_main) else {
            return "other";
        };
        let special = usize::from(u16::from_le_bytes([page[16], page[17]]));
        let last = u16::from_le_bytes([page[8190], page[8191]]);
        match (PAGE_SIZE.saturating_sub(special), last) {
            (0, _) => "heap",
            (16, 0xFF80) => "hash",
            (16, 0xFF81) => "gist",
            (16, _) => "btree",
            (8, 0xFF82) => "spgist",
            (8, 0xF091..=0xF093) => "brin",
            (8, _) => "gin",
            _ => "other",
        }
    }
}

/// Files that share a chunk.
#[derive(Default)]
struct Small {
    extents: Vec<Extent>,
    bytes: Vec<u8>,
}

impl Small {
    fn add(
        &mut self,
        fork: &Fork,
        bytes: &[u8],
        take: &mut dyn FnMut(Chunk) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.bytes.len() + bytes.len() > CHUNK_LEN {
            self.end(take)?;
        }
        fork.extents(fork.first_block, bytes, &mut self.extents);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self, take: &mut dyn FnMut(Chunk) -> Result<(), Error>) -> Result<(), Error> {
        let Small { extents, bytes } = std::mem::take(self);
        match bytes.is_empty() {
            true => Ok(()),
            false => take(Chunk {
                kind: "small files".to_owned(),
                extents,
                bytes,
            }),
        }
    }
}
