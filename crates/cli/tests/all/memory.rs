//! What the commands hold in memory, by the kernel's account: bounded, whatever the length of
//! the input and whatever a file claims.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use crate::sandbox::{SYSTEM_ID, Sandbox, control_file, segment, text};

const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;

/// The peak of a `walzip` command in bytes, and how it ended. A walzip that has taken no memory
/// yet starts it and writes the report (crates/bench/src/launcher.rs says why).
pub fn peak_of(command: &mut Command, report: &std::path::Path) -> (i32, u64) {
    fs::write(report, b"").expect("a report");
    let file = File::options().read(true).write(true).open(report);
    command.stdin(Stdio::from(file.expect("a report")));
    let output = command.stdout(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "the launcher: {}", output.status);
    let report = fs::read_to_string(report).expect("a report");
    let numbers: Vec<&str> = report.split_whitespace().collect();
    assert_eq!(numbers[0], "used", "{report}");
    let status: i32 = numbers[1].parse().expect("a status");
    assert_eq!(status & 0xFF, 0, "a signal: {report}");
    (status >> 8, numbers[5].parse().expect("a peak"))
}

fn peak_in(sandbox: &Sandbox, args: &[&str]) -> (i32, u64) {
    let walzip = assert_cmd::cargo::cargo_bin!("walzip");
    let mut command = Command::new(walzip);
    command.arg("--launch-measured").arg(walzip).args(args);
    command.current_dir(sandbox.path("."));
    peak_of(&mut command, &sandbox.path("report"))
}

#[track_caller]
fn takes_at_most(sandbox: &Sandbox, megabytes: u64, code: i32, args: &[&str]) {
    let (ended, peak) = peak_in(sandbox, args);
    println!("{args:?}: {} MB", peak / MB);
    assert_eq!(ended, code, "{args:?}");
    assert!(peak <= megabytes * MB, "{args:?}: {} MB", peak / MB);
}

/// What the program takes for itself: of its file, which is several times as long in a build for tests,
/// the kernel maps more or less.
fn peak_of_a_few_bytes(sandbox: &Sandbox) -> u64 {
    sandbox.write("few", b"a few bytes");
    sandbox.ok(&["compress", "-1", "-k", "-f", "few"]);
    let (ended, peak) = peak_in(sandbox, &["decompress", "-c", "few.wz"]);
    assert_eq!(ended, 0);
    peak
}

/// zstd's longest block, of one byte again and again.
const RUN_LEN: u64 = 128 << 10;

/// A frame that stands for these bytes and many zeros, in four bytes for each [`RUN_LEN`]
/// (RFC 8878, 3.1.1; without the magic number).
fn frame(beginning: &[u8], runs: u64) -> Vec<u8> {
    const WINDOW_OF_128_KB: u8 = 7 << 3;
    let mut frame = vec![0, WINDOW_OF_128_KB];
    let mut block = |is_last: bool, kind: u32, size: u32, content: &[u8]| {
        let header = u32::from(is_last) | kind << 1 | size << 3;
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(content);
    };
    block(false, 0, beginning.len() as u32, beginning);
    for number in 1..=runs {
        block(number == runs, 1, RUN_LEN as u32, &[0]);
    }
    frame
}

fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A member of one zstd block whose checksums are right, as docs/format/container.md has it.
fn member(version: u8, identity: &[u8], content_len: u64, data: &[u8]) -> Vec<u8> {
    let checksum = |bytes: &[u8]| crc32c::crc32c(bytes).to_le_bytes();
    let [content, data_len] = [content_len, data.len() as u64].map(number);
    let body = [&[1][..], &content, &data_len, &checksum(data), data].concat();
    let kind = u8::from(!identity.is_empty());
    let front = [&b"WALZ"[..], &[version, kind, 0], &[7; 32], identity].concat();
    let mut file = [front, number(GB), number(body.len() as u64)].concat();
    file.extend_from_slice(&checksum(&file));
    file.extend_from_slice(&body);
    file
}

/// The identity of a segment of 1 GB.
fn identity() -> Vec<u8> {
    let (magic, segment_size) = (0xD110u16.to_le_bytes(), (GB as u32).to_le_bytes());
    let (system, timeline) = (77u64.to_le_bytes(), 1u32.to_le_bytes());
    [
        &magic[..],
        &system,
        &timeline,
        &GB.to_le_bytes(),
        &segment_size,
    ]
    .concat()
}

/// Content that begins with the directory of one stream, of rows of 8 bytes as differences, whose
/// bytes are runs of zeros.
fn streams(runs: u64) -> (Vec<u8>, u64) {
    let of_one_kind = [&[0, 1, 255][..], &number(runs * RUN_LEN), &[8, 2]].concat();
    let beginning = [number(of_one_kind.len() as u64), of_one_kind].concat();
    let content_len = beginning.len() as u64 + runs * RUN_LEN;
    (frame(&beginning, runs), content_len)
}

#[test]
fn a_small_file_that_claims_a_gigabyte_takes_little_memory() {
    let sandbox = Sandbox::new();
    let runs = GB / RUN_LEN;
    for version in [4, 5] {
        let foreign = member(version, &[], GB, &frame(&[], runs));
        assert!(foreign.len() < 33 << 10);
        sandbox.write("foreign.wz", &foreign);
        takes_at_most(&sandbox, 32, 26, &["decompress", "-t", "foreign.wz"]);
        takes_at_most(&sandbox, 32, 26, &["decompress", "-c", "foreign.wz"]);
        takes_at_most(&sandbox, 32, 26, &["decompress", "foreign.wz"]);

        let (data, content_len) = streams(runs - 1);
        sandbox.write("wal.wz", &member(version, &identity(), content_len, &data));
        let code = if version == 4 { 28 } else { 26 };
        takes_at_most(&sandbox, 32, code, &["decompress", "-t", "wal.wz"]);
        takes_at_most(&sandbox, 32, code, &["inspect", "wal.wz"]);

        // What a file may claim whatever its length.
        let (data, content_len) = streams((128 * MB) / RUN_LEN - 1);
        sandbox.write("wal.wz", &member(version, &identity(), content_len, &data));
        takes_at_most(&sandbox, 290, 26, &["decompress", "-t", "wal.wz"]);
    }
}

#[test]
fn foreign_files_of_any_length_take_the_memory_of_a_member() {
    let sandbox = Sandbox::new();
    let original = text(1 << 20).repeat(200);
    sandbox.write("a", &original);
    for (level, megabytes) in [("-1", 64), ("-3", 64)] {
        takes_at_most(
            &sandbox,
            megabytes,
            0,
            &["compress", level, "-k", "-f", "a"],
        );
        takes_at_most(&sandbox, 32, 0, &["decompress", "-t", "a.wz"]);
        // Huge pages come as they are free: the least of three is what is needed.
        let peaks = (0..3).map(|_| peak_in(&sandbox, &["decompress", "-c", "a.wz"]).1);
        let peak = peaks.min().expect("three");
        let more = peak.saturating_sub(peak_of_a_few_bytes(&sandbox));
        println!("decompress -c: {} KB more than for a few bytes", more >> 10);
        assert!(more <= 28 * MB, "{more}");
    }
    fs::remove_file(sandbox.path("a")).expect("removable");
    sandbox.ok(&["decompress", "a.wz"]);
    assert!(sandbox.read("a") == original);
}

/// A file of ten gigabytes that takes no room.
fn write_sparse(sandbox: &Sandbox, name: &str) {
    let path = sandbox.write(name, b"");
    let file = File::options().write(true).open(path).expect("there");
    file.set_len(10 * GB).expect("a sparse file");
}

/// A repository with a segment, and a name for a backup in it.
fn initialised() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    sandbox.write("data/pg_wal/000000010000000000000001", &segment(1));
    let made = sandbox.run(&["init", "--repo", "r", "-D", "data"]);
    assert!(made.status.success());
    sandbox.ok(&[
        "archive-push",
        "--repo",
        "r",
        "data/pg_wal/000000010000000000000001",
    ]);
    sandbox
}

#[test]
fn a_key_file_of_any_length_is_refused_in_little_memory() {
    let sandbox = initialised();
    write_sparse(&sandbox, "key");
    let with_key: [&[&str]; 3] = [
        &["info", "--repo", "r", "--repo-key-file", "key"],
        &[
            "archive-get",
            "--repo",
            "r",
            "--repo-key-file",
            "key",
            "000000010000000000000001",
            "got",
        ],
        &["repo", "copy", "--repo", "r", "to", "--to-key-file", "key"],
    ];
    for args in with_key {
        takes_at_most(&sandbox, 32, 95, args);
    }
    let refused = sandbox.fails(95, with_key[0]);
    assert!(refused.contains("longer than 65536 bytes"), "{refused}");
}

/// A command line, and its exit code.
type Run<'a> = (&'a [&'a str], i32);

/// What a repository's objects claim of their length costs nobody memory.
#[test]
fn json_objects_of_any_length_are_refused_in_little_memory() {
    let label = "20200101-000000F";
    let of_backup = |name: &str| format!("r/backup/{label}/{name}");
    let info = &["info", "--repo", "r"][..];
    let verify = &["verify", "--repo", "r"][..];
    let noted = &["verify", "--repo", "r", "--verified-within", "36500d"][..];
    let expire = &["expire", "--repo", "r", "--retention-full", "1"][..];
    let get = &[
        "backup-get",
        "--repo",
        "r",
        "--backup",
        label,
        "PG_VERSION",
        "got",
    ][..];
    let cases: [(&str, &[Run<'_>]); 6] = [
        (
            "r/repository.json",
            &[(info, 26), (verify, 26), (expire, 26)],
        ),
        (
            "r/wal/15-7600000000000000001/cluster.json",
            &[(verify, 104)],
        ),
        (
            &of_backup("backup.json"),
            &[(info, 0), (verify, 104), (expire, 0), (get, 26)],
        ),
        (&of_backup("pinned"), &[(info, 0), (expire, 0)]),
        (&of_backup("started"), &[(info, 0), (expire, 0)]),
        ("r/verified/20200101-000000.000000000.json", &[(noted, 0)]),
    ];
    for (name, runs) in cases {
        let sandbox = initialised();
        write_sparse(&sandbox, name);
        for (args, code) in runs {
            println!("{name}");
            takes_at_most(&sandbox, 32, *code, args);
        }
    }
}
