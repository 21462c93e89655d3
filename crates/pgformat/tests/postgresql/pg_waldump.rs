//! Every field of every record of the samples, as `pg_waldump` of the same major prints it.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use walzip_pgformat::rmgr::{record_type_name, rmgr_name};
use walzip_pgformat::version::ImageFlags;
use walzip_pgformat::wal::{
    Block, Compression, Event, IMAGE_HAS_HOLE, Image, RecordLayout, SegmentReader, TimedRecord,
};
use walzip_pgformat::{Lsn, PAGE_SIZE, Version};

use walzip_testing::samples;

/// Majors for which no program is to be had where `scripts/fetch-postgres` fetches from.
const WITHOUT_PROGRAM: &[u32] = &[14];

/// `pg_waldump` of a major: from the cache of `scripts/fetch-postgres`, or installed.
pub fn program(major: u32) -> Option<PathBuf> {
    let cached = |cache: PathBuf| cache.join(format!("postgres/{major}/bin/pg_waldump"));
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/walzip"));
    let caches = match std::env::var_os("WALZIP_PG_CACHE") {
        Some(cache) => vec![PathBuf::from(cache)],
        None => [Some(PathBuf::from("/var/cache/walzip")), home()]
            .into_iter()
            .flatten()
            .collect(),
    };
    let installed = PathBuf::from(format!("/usr/lib/postgresql/{major}/bin/pg_waldump"));
    let mut candidates = caches.into_iter().map(cached).chain([installed]);
    candidates.find(|program| program.exists())
}

/// The lines that `pg_waldump` prints for a segment.
struct Dump {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Dump {
    fn start(program: &Path, segment: &Path) -> Self {
        let mut command = Command::new(program);
        command
            .env("TZ", "UTC")
            .arg("--bkp-details")
            .arg(segment)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Option<String> {
        self.lines
            .next()
            .map(|line| line.expect("pg_waldump prints text"))
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        // The end of a segment in the middle of a record is an error to pg_waldump.
        let _: std::io::Result<_> = self.child.wait();
    }
}

/// What `pg_waldump` prints of a record up to the description of its content.
fn record_line(line: &mut String, version: &Version, lsn: Lsn, layout: &RecordLayout) {
    let header = &layout.header;
    let images = layout.blocks.iter().filter_map(|block| block.image);
    let image_len: u32 = images.map(|image| u32::from(image.len)).sum();
    line.clear();
    write!(
        line,
        "rmgr: {:<11} len (rec/tot): {:6}/{:6}, tx: {:10}, lsn: {:X}/{:08X}, prev {:X}/{:08X}, \
         desc: {} ",
        rmgr_name(header.rmid),
        header.total_len - image_len,
        header.total_len,
        header.xid,
        lsn.0 >> 32,
        lsn.0 as u32,
        header.prev >> 32,
        header.prev as u32,
        record_type_name(version, header.rmid, header.info),
    )
    .expect("a string takes it");
}

/// What `pg_waldump` prints of a block reference.
fn block_line(line: &mut String, version: &Version, block: &Block) {
    let fork = ["main", "fsm", "vm", "init"][usize::from(block.fork())];
    let locator = &block.locator;
    line.clear();
    write!(
        line,
        "\tblkref #{}: rel {}/{}/{} fork {fork} blk {}",
        block.id, locator.tablespace, locator.database, locator.relation, block.number,
    )
    .expect("a string takes it");
    if let Some(image) = &block.image {
        write_image(line, version, image);
    }
}

fn write_image(line: &mut String, version: &Version, image: &Image) {
    let (apply, names_method) = match version.image_flags {
        ImageFlags::UpTo14 => (0x04, false),
        ImageFlags::From15 => (0x02, true),
    };
    let purpose = if image.flags & apply != 0 {
        ""
    } else {
        " for WAL verification"
    };
    let hole_len = if image.flags & IMAGE_HAS_HOLE != 0 {
        image.hole_len
    } else {
        0
    };
    write!(
        line,
        " (FPW{purpose}); hole: offset: {}, length: {hole_len}",
        image.hole_offset
    )
    .expect("a string takes it");
    let method = match image.compression {
        Compression::None => return,
        Compression::Pglz => "pglz",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
        Compression::Unknown => "unknown",
    };
    let saved = PAGE_SIZE - usize::from(hole_len) - usize::from(image.len);
    write!(line, ", compression saved: {saved}").expect("a string takes it");
    if names_method {
        write!(line, ", method: {method}").expect("a string takes it");
    }
}

/// Compares what a record says of times and timelines with `pg_waldump`'s description.
fn compare_time(timed: &TimedRecord, description: &str) {
    let expected = match timed {
        TimedRecord::TransactionEnd { time, .. } => {
            let time = jiff::Timestamp::from_microsecond(time.0).expect("a time");
            let time = time.strftime("%Y-%m-%d %H:%M:%S.%6f UTC").to_string();
            match description.split_once(": ") {
                // Of a prepared transaction, whose number comes first.
                Some((xid, rest)) if xid.bytes().all(|byte| byte.is_ascii_digit()) => {
                    assert!(rest.starts_with(&time), "{timed:?}: {description}");
                    return;
                }
                _ => time,
            }
        }
        TimedRecord::Prepared { time } => {
            let time = jiff::Timestamp::from_microsecond(time.0).expect("a time");
            let time = time.strftime("%Y-%m-%d %H:%M:%S.%6f UTC").to_string();
            assert!(description.contains(&time), "{timed:?}: {description}");
            return;
        }
        TimedRecord::RestorePoint { name, .. } => String::from_utf8_lossy(name).into_owned(),
        TimedRecord::Checkpoint {
            timeline,
            previous_timeline,
            ..
        } => {
            let timelines = format!("tli {timeline}; prev tli {previous_timeline};");
            assert!(description.contains(&timelines), "{timed:?}: {description}");
            return;
        }
    };
    assert!(
        description.starts_with(&expected),
        "{timed:?}: {description}"
    );
}

/// Compares a segment's records with `pg_waldump`'s; the result is how many they are.
pub fn compare(path: &Path, program: &Path, segment: &[u8]) -> usize {
    let mut reader = SegmentReader::new(segment).expect("a segment");
    let version = reader.header().version;
    let mut dump = Dump::start(program, path);
    let (mut layout, mut expected, mut count) = (RecordLayout::default(), String::new(), 0);
    let place = || path.display();
    while let Some(event) = reader.next_event(&mut layout) {
        let Event::Record { lsn } = event else {
            continue;
        };
        record_line(&mut expected, version, lsn, &layout);
        let line = dump
            .next()
            .unwrap_or_else(|| panic!("{}: no {expected}", place()));
        let line = format!("{} ", line.trim_end());
        assert!(
            line.starts_with(&expected),
            "{}\nours:   {expected}\ntheirs: {line}",
            place()
        );
        if let Some(timed) = TimedRecord::read(reader.bytes(), &layout, version.major) {
            compare_time(&timed, &line[expected.len()..]);
        }
        for block in &layout.blocks {
            block_line(&mut expected, version, block);
            assert_eq!(
                dump.next().as_deref(),
                Some(expected.as_str()),
                "{}",
                place()
            );
        }
        count += 1;
    }
    assert_eq!(dump.next(), None, "{}: pg_waldump reads on", place());
    count
}

#[test]
fn reads_every_record_as_pg_waldump_does() {
    let mut untested: Vec<u32> = Vec::new();
    for sample in samples::all() {
        let segment = sample.read();
        let header = walzip_pgformat::wal::SegmentHeader::read(&segment).expect("a segment");
        let major = header.version.major;
        match program(major) {
            Some(program) => {
                let count = compare(&sample.path, &program, &segment);
                assert!(count > 0, "{} has no records", sample.path.display());
            }
            None if !untested.contains(&major) => untested.push(major),
            None => {}
        }
    }
    for major in untested {
        if WITHOUT_PROGRAM.contains(&major) {
            walzip_testing::note(&format!("no pg_waldump of {major} is to be had"));
        } else {
            walzip_testing::not_run(&format!(
                "there is no pg_waldump of {major}; scripts/fetch-postgres {major} brings it"
            ));
        }
    }
}
