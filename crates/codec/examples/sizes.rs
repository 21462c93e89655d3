//! What the codec makes of the WAL samples, in one in-process run.
//!
//! ```text
//! cargo run --release -p walzip-codec --example sizes -- [-l 1,3,9] [-n 3] [--tsv] [SAMPLE...]
//! ```
//!
//! SAMPLE is a segment, a folder of segments, a folder of such folders, or part of a sample
//! folder's name ("oltp", "pgbench-off"). Segments may be xz-compressed. Without SAMPLE:
//! the folder that `WALZIP_SAMPLES` names, else `../shared/wal-samples` beside the repository.
//!
//! One line per folder and level: the size that zstd -1 gives, ours, and the ratio of the two;
//! encoding (without verification) and decoding, each the best of n runs. Every encoding is
//! decoded and compared; a difference ends the program with an error. Timings are
//! processor time of one thread, with the input in memory: for whole programs see `walzip bench wal`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use walzip_codec::{Level, decode, encode};

type Error = Box<dyn std::error::Error>;

/// The command's allocator, but it keeps freed memory for its own second: this measures the codec,
/// not how the kernel gives pages again and again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sizes: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let folders = find_folders(&arguments.samples)?;
    let width = folders.keys().map(String::len).max().unwrap_or(0).max(28);
    if arguments.tsv {
        println!("folder\tlevel\toriginal\tzstd_1\twalzip\tratio\tencode_ms\tdecode_ms");
    } else {
        println!(
            "{:width$} {:>5} {:>10} {:>10} {:>6} {:>9} {:>6} {:>9} {:>6}",
            "folder",
            "level",
            "zstd -1",
            "walzip",
            "ratio",
            "encode ms",
            "MB/s",
            "decode ms",
            "MB/s"
        );
    }
    let mut all: Vec<(String, Line)> = Vec::new();
    for (folder, files) in &folders {
        let segments = files
            .iter()
            .map(|file| read_segment(file))
            .collect::<Result<Vec<_>, _>>()?;
        let baseline = Zstd::measure(&segments, arguments.runs)?;
        if !arguments.tsv {
            print_line(width, folder, "zstd", &baseline.line);
        }
        for &level in &arguments.levels {
            let line = measure(folder, &segments, level, arguments.runs, baseline.line.ours)?;
            if arguments.tsv {
                println!(
                    "{folder}\t{level}\t{}\t{}\t{}\t{:.4}\t{:.1}\t{:.1}",
                    line.original,
                    line.zstd,
                    line.ours,
                    line.ratio(),
                    millis(line.encode),
                    millis(line.decode)
                );
            } else {
                print_line(width, folder, &format!("-{level}"), &line);
            }
            all.push((folder.clone(), line));
        }
    }
    if !arguments.tsv {
        print_means(width, &arguments.levels, &all);
    }
    Ok(())
}

struct Arguments {
    levels: Vec<Level>,
    runs: u32,
    tsv: bool,
    samples: Vec<String>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, Error> {
        let mut parsed = Arguments {
            levels: vec![Level::default()],
            runs: 3,
            tsv: false,
            samples: Vec::new(),
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "-l" => {
                    let list = words.next().ok_or("-l needs levels, such as 1,3,9")?;
                    parsed.levels = parse_levels(&list)?;
                }
                "-n" => {
                    parsed.runs = words.next().ok_or("-n needs a number of runs")?.parse()?;
                    parsed.runs = parsed.runs.max(1);
                }
                "--tsv" => parsed.tsv = true,
                flag if flag.starts_with('-') => {
                    return Err(format!(
                        "no flag {flag}: sizes [-l 1,3,9] [-n 3] [--tsv] [SAMPLE...]"
                    )
                    .into());
                }
                _ => parsed.samples.push(word),
            }
        }
        Ok(parsed)
    }
}

fn parse_levels(list: &str) -> Result<Vec<Level>, Error> {
    list.split(',')
        .map(|level| {
            let number = level.trim().parse::<u8>().ok();
            number
                .and_then(Level::new)
                .ok_or_else(|| format!("{level} is no level from 1 to 9").into())
        })
        .collect()
}

/// Segment files by the name of their folder.
fn find_folders(samples: &[String]) -> Result<BTreeMap<String, Vec<PathBuf>>, Error> {
    let root = match std::env::var_os("WALZIP_SAMPLES") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/wal-samples"),
    };
    let mut folders = BTreeMap::new();
    if samples.is_empty() {
        collect(&root, &mut folders)?;
    }
    for sample in samples {
        if Path::new(sample).exists() {
            collect(Path::new(sample), &mut folders)?;
            continue;
        }
        let mut known = BTreeMap::new();
        collect(&root, &mut known)?;
        known.retain(|name, _| name.contains(sample.as_str()));
        if known.is_empty() {
            return Err(format!(
                "{sample} is neither a path nor part of a folder's name in {}",
                root.display()
            )
            .into());
        }
        folders.extend(known);
    }
    if folders.is_empty() {
        return Err(format!("no segments below {}", root.display()).into());
    }
    Ok(folders)
}

fn collect(path: &Path, folders: &mut BTreeMap<String, Vec<PathBuf>>) -> Result<(), Error> {
    if path.is_file() {
        add(path, folders);
        return Ok(());
    }
    let mut entries = std::fs::read_dir(path)
        .map_err(|error| {
            format!(
                "{}: {error} (set WALZIP_SAMPLES or name a folder)",
                path.display()
            )
        })?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            collect(&entry, folders)?;
        } else if is_segment(&entry) {
            add(&entry, folders);
        }
    }
    Ok(())
}

fn add(file: &Path, folders: &mut BTreeMap<String, Vec<PathBuf>>) {
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
    folders
        .entry(folder.to_string_lossy().into_owned())
        .or_default()
        .push(file.to_owned());
}

fn is_segment(file: &Path) -> bool {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    stem.len() == 24 && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn read_segment(file: &Path) -> Result<Vec<u8>, Error> {
    if file.extension().is_none_or(|suffix| suffix != "xz") {
        return std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()).into());
    }
    let output = Command::new("xz").arg("-dc").arg(file).output()?;
    if !output.status.success() {
        return Err(format!(
            "xz -dc {}: {}",
            file.display(),
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    Ok(output.stdout)
}

/// Sums over the segments of one folder.
#[derive(Default)]
struct Line {
    original: usize,
    zstd: usize,
    ours: usize,
    encode: Duration,
    decode: Duration,
}

impl Line {
    fn ratio(&self) -> f64 {
        self.ours as f64 / self.zstd as f64
    }
}

fn measure(
    folder: &str,
    segments: &[Vec<u8>],
    level: Level,
    runs: u32,
    zstd: usize,
) -> Result<Line, Error> {
    let mut line = Line {
        zstd,
        ..Line::default()
    };
    for segment in segments {
        let (file, encoding) = best(runs, || encode(segment, level))?;
        let (decoded, decoding) = best(runs, || decode(&file))?;
        if decoded != *segment {
            return Err(format!(
                "{folder}, level {level}: the decoded bytes differ from the original"
            )
            .into());
        }
        line.original += segment.len();
        line.ours += file.len();
        line.encode += encoding;
        line.decode += decoding;
    }
    Ok(line)
}

/// The shortest of n runs, and what the last one returned.
fn best<T, E>(runs: u32, mut work: impl FnMut() -> Result<T, E>) -> Result<(T, Duration), E> {
    let mut shortest = Duration::MAX;
    let mut run = || {
        let start = cpu_time();
        let result = work();
        shortest = shortest.min(cpu_time().saturating_sub(start));
        result
    };
    for _ in 1..runs {
        run()?;
    }
    let result = run()?;
    Ok((result, shortest))
}

/// What `zstd -1` would write: libzstd at level 1, with content size and checksum.
struct Zstd {
    line: Line,
}

impl Zstd {
    fn measure(segments: &[Vec<u8>], runs: u32) -> Result<Zstd, Error> {
        let mut line = Line::default();
        for segment in segments {
            let (file, encoding) = best(runs, || compress_like_the_program(segment))?;
            let (decoded, decoding) = best(runs, || {
                let mut decoded = Vec::with_capacity(segment.len());
                zstd_safe::decompress(&mut decoded, &file).map_err(zstd_safe::get_error_name)?;
                Ok::<_, &str>(decoded)
            })?;
            if decoded != *segment {
                return Err("zstd: the decoded bytes differ from the original".into());
            }
            line.original += segment.len();
            line.zstd += file.len();
            line.ours += file.len();
            line.encode += encoding;
            line.decode += decoding;
        }
        Ok(Zstd { line })
    }
}

fn compress_like_the_program(segment: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut context = zstd_safe::CCtx::create();
    let mut file = Vec::with_capacity(zstd_safe::compress_bound(segment.len()));
    context
        .set_parameter(zstd_safe::CParameter::CompressionLevel(1))
        .and_then(|_| context.set_parameter(zstd_safe::CParameter::ChecksumFlag(true)))
        .and_then(|_| context.compress2(&mut file, segment))
        .map_err(zstd_safe::get_error_name)?;
    Ok(file)
}

fn print_line(width: usize, folder: &str, level: &str, line: &Line) {
    println!(
        "{folder:width$} {level:>5} {:>10} {:>10} {:>6.3} {:>9.1} {:>6.0} {:>9.1} {:>6.0}",
        line.zstd,
        line.ours,
        line.ratio(),
        millis(line.encode),
        megabytes_per_second(line.original, line.encode),
        millis(line.decode),
        megabytes_per_second(line.original, line.decode),
    );
}

fn print_means(width: usize, levels: &[Level], all: &[(String, Line)]) {
    println!();
    for (index, level) in levels.iter().enumerate() {
        let lines: Vec<_> = all.iter().skip(index).step_by(levels.len()).collect();
        let realistic: Vec<_> = lines
            .iter()
            .copied()
            .filter(|(folder, _)| is_realistic(folder))
            .collect();
        print_mean(
            width,
            &format!("all {} folders, mean", lines.len()),
            *level,
            &lines,
        );
        if !realistic.is_empty() && realistic.len() != lines.len() {
            print_mean(
                width,
                &format!("{} realistic folders, mean", realistic.len()),
                *level,
                &realistic,
            );
        }
    }
}

/// The geometric mean of the folders' ratios, and the speed over all their bytes.
fn print_mean(width: usize, title: &str, level: Level, lines: &[&(String, Line)]) {
    let logarithms: f64 = lines.iter().map(|(_, line)| line.ratio().ln()).sum();
    let mut total = Line::default();
    for (_, line) in lines {
        total.original += line.original;
        total.zstd += line.zstd;
        total.ours += line.ours;
        total.encode += line.encode;
        total.decode += line.decode;
    }
    println!(
        "{title:width$} {:>5} {:>10} {:>10} {:>6.3} {:>9.1} {:>6.0} {:>9.1} {:>6.0}",
        format!("-{level}"),
        total.zstd,
        total.ours,
        (logarithms / lines.len() as f64).exp(),
        millis(total.encode),
        megabytes_per_second(total.original, total.encode),
        millis(total.decode),
        megabytes_per_second(total.original, total.decode),
    );
}

/// pgbench's padded rows, idle servers and 64 MB segments do not stand for real workloads.
fn is_realistic(folder: &str) -> bool {
    !(folder.starts_with("pgbench-") || folder == "idle" || folder == "seg64")
}

/// Processor time of this thread so far, as the kernel counts it: other programs on the
/// machine change it little.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat
        .split_whitespace()
        .next()
        .and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("Linux, which counts processor time in schedstat"))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn megabytes_per_second(bytes: usize, duration: Duration) -> f64 {
    bytes as f64 / 1e6 / duration.as_secs_f64().max(1e-9)
}
