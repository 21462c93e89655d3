//! What the commands take in a repository with very many segments, on a local disk.
//!
//! ```text
//! cargo run --release -p walzip --example many_segments -- [SEGMENTS] [WALZIP]
//! ```
//!
//! SEGMENTS is 100000 by default. WALZIP is the program, by default the one beside the example's own
//! directory. The segments have 1 MiB and are all but empty, as archive_timeout leaves them: how
//! many there are is what counts here. Of each command the wall seconds and the peak of its memory are
//! printed, each as the least of three runs, and how many requests a listing is on S3.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use walzip_codec::{Level, encode};
use walzip_repo::{ClusterIdentity, LocalStore, Repository};

const SEGMENT_SIZE: usize = 1 << 20;
const RUNS: usize = 3;
const CLUSTER: ClusterIdentity = ClusterIdentity {
    system_id: 7_600_000_000_000_000_001,
    major: 15,
};
/// How many keys one answer of S3 lists.
const KEYS_PER_REQUEST: u64 = 1000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("many_segments: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let walzip = match arguments.next() {
        Some(path) => PathBuf::from(path),
        None => {
            let program = std::env::current_exe()?;
            let built = program.parent().and_then(Path::parent);
            built.ok_or("no directory")?.join("walzip")
        }
    };
    let directory = tempfile::tempdir()?;
    let root = directory.path().join("repository");
    let runtime = tokio::runtime::Runtime::new()?;
    let store = Arc::new(LocalStore::new(root.clone()));
    runtime.block_on(Repository::init(store, CLUSTER))?;
    let mut stored = 0;
    for number in 1..=count {
        let object = encode(&segment(number), Level::default())?;
        let name = name(number);
        let directory = root.join("wal").join(CLUSTER.name()).join(&name[..16]);
        fs::create_dir_all(&directory)?;
        stored += object.len();
        fs::write(directory.join(format!("{name}.wz")), object)?;
    }
    println!("segments {count}, {stored} bytes");
    println!(
        "a listing on S3: {} requests",
        count.div_ceil(KEYS_PER_REQUEST)
    );
    let next = directory.path().join(name(count + 1));
    fs::write(&next, segment(count + 1))?;
    let got = directory.path().join("got");
    let (next, got) = (next.display().to_string(), got.display().to_string());
    let middle = name(count / 2);
    let commands: [(&str, &[&str]); 6] = [
        ("archive-push", &["archive-push", &next]),
        ("archive-get", &["archive-get", &middle, &got]),
        ("info", &["info"]),
        ("expire", &["expire", "--retention-full", "2"]),
        ("verify", &["verify"]),
        ("verify again", &["verify", "--verified-within", "1d"]),
    ];
    println!("{:14} {:>8} {:>8}", "command", "seconds", "MB");
    for (what, arguments) in commands {
        let runs = (0..RUNS).map(|_| measure(&walzip, &root, arguments));
        let runs = runs.collect::<Result<Vec<_>, _>>()?;
        let seconds = runs.iter().map(|run| run.0).min().unwrap_or_default();
        let bytes = runs.iter().map(|run| run.1).min().unwrap_or_default();
        let megabytes = bytes as f64 / 1e6;
        println!("{what:14} {:8.3} {megabytes:8.1}", seconds.as_secs_f64());
    }
    Ok(())
}

/// A page header that says where the segment belongs, and zeros.
fn segment(number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SEGMENT_SIZE);
    bytes.extend(0xD110_u16.to_le_bytes());
    bytes.extend(2_u16.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend((number * SEGMENT_SIZE as u64).to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(CLUSTER.system_id.to_le_bytes());
    bytes.extend((SEGMENT_SIZE as u32).to_le_bytes());
    bytes.extend(8192_u32.to_le_bytes());
    bytes.resize(SEGMENT_SIZE, 0);
    bytes
}

fn name(number: u64) -> String {
    let of_id = (1 << 32) / SEGMENT_SIZE as u64;
    format!("00000001{:08X}{:08X}", number / of_id, number % of_id)
}

/// The wall time and the peak of the memory. The peak is looked at while the program runs, so that
/// what it takes in its last milliseconds is not seen.
fn measure(
    walzip: &Path,
    root: &Path,
    arguments: &[&str],
) -> Result<(Duration, u64), Box<dyn Error>> {
    let begin = Instant::now();
    let mut child = Command::new(walzip)
        .args(arguments)
        .arg("--repo")
        .arg(root)
        .env("WALZIP_CONFIG", "/dev/null")
        .stdout(Stdio::null())
        .spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        if let Some(ended) = child.try_wait()? {
            if !ended.success() {
                return Err(format!("{arguments:?}: {ended}").into());
            }
            return Ok((begin.elapsed(), peak));
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = peak.max(kilobytes.map_or(0, |kilobytes: u64| kilobytes * 1024));
        std::thread::sleep(Duration::from_millis(1));
    }
}
