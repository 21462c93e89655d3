//! Which segments are measured on.

use std::fs;

use walzip_bench::Error;

use crate::support::{Bench, COPIES};

/// The beginning of a segment of 1 MiB as PostgreSQL 15 writes it.
fn segment_at(position: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&0xD110_u16.to_le_bytes());
    bytes.extend_from_slice(&0x0002_u16.to_le_bytes());
    bytes.extend_from_slice(&1_u32.to_le_bytes());
    bytes.extend_from_slice(&position.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&7_000_000_000_000_000_001_u64.to_le_bytes());
    bytes.extend_from_slice(&(1_u32 << 20).to_le_bytes());
    bytes.extend_from_slice(&8192_u32.to_le_bytes());
    bytes.resize(8192, 0);
    bytes
}

fn names(bench: &mut Bench) -> Vec<String> {
    let results = bench.run().unwrap();
    results
        .inputs
        .iter()
        .map(|input| format!("{}/{}", input.folder, input.name))
        .collect()
}

#[test]
fn unpacks_xz_samples_first() {
    let mut bench = Bench::new();
    bench.program("xz", COPIES);
    bench.segment("oltp", "000000010000000000000001.xz", b"123456789");
    assert_eq!(names(&mut bench), ["oltp/000000010000000000000001"]);
}

#[test]
fn says_what_is_missing_to_unpack_a_sample() {
    let mut bench = Bench::new();
    bench.segment("oltp", "000000010000000000000001.xz", b"123456789");
    let error = bench.run().unwrap_err().to_string();
    assert_eq!(
        error,
        "xz is not installed (package xz-utils; scripts/bench-tools in walzip's source installs it): it unpacks .xz samples"
    );
}

#[test]
fn says_which_sample_is_damaged() {
    let mut bench = Bench::new();
    bench.program("xz", "echo 'Compressed data is corrupt' >&2; exit 1");
    bench.segment("oltp", "000000010000000000000001.xz", b"123456789");
    let error = bench.run().unwrap_err().to_string();
    assert!(
        error.contains(
            "000000010000000000000001.xz: xz: exit status: 1: Compressed data is corrupt"
        ),
        "{error}"
    );
}

#[test]
fn programs_get_the_file_that_a_link_leads_to_and_results_the_links_name() {
    let mut bench = Bench::new();
    bench.program(
        "walzip",
        &format!("for last; do :; done\n[ -L \"$last\" ] && exit 1\n{COPIES}"),
    );
    let folder = bench.path("samples").join("oltp");
    fs::create_dir_all(&folder).unwrap();
    fs::write(bench.path("samples/object"), b"123456789").unwrap();
    let link = folder.join("000000010000000000000001");
    std::os::unix::fs::symlink("../object", &link).unwrap();
    std::os::unix::fs::symlink("oltp", bench.path("samples/also")).unwrap();
    bench.options.inputs = vec![link, bench.path("samples/also")];
    let expected = [
        "oltp/000000010000000000000001",
        "also/000000010000000000000001",
    ];
    assert_eq!(names(&mut bench), expected);
    let results = bench.run().unwrap();
    assert!(results.failed.is_empty(), "{:?}", results.failed);
}

#[test]
fn takes_the_segments_of_a_folder_and_of_its_folders_and_nothing_else() {
    let mut bench = Bench::new();
    bench.segment("b", "000000010000000000000002", b"2");
    bench.segment("b", "000000010000000000000001", b"1");
    bench.segment("a", "000000010000000000000003", b"3");
    bench.segment("a", "README.md", b"not a segment");
    bench.options.inputs = vec![bench.path("samples")];
    let expected = [
        "a/000000010000000000000003",
        "b/000000010000000000000001",
        "b/000000010000000000000002",
    ];
    assert_eq!(names(&mut bench), expected);
    bench.options.quick = true;
    assert_eq!(names(&mut bench), expected[..2]);
}

#[test]
fn copies_the_complete_segments_of_a_server_and_no_recycled_or_unfinished_one() {
    let mut bench = Bench::new();
    let pg_wal = bench.path("pg_wal");
    fs::create_dir_all(pg_wal.join("archive_status")).unwrap();
    let write =
        |name: &str, position: u64| fs::write(pg_wal.join(name), segment_at(position)).unwrap();
    write("000000010000000000000005", 5 << 20);
    write("000000010000000000000006", 6 << 20);
    write("000000010000000000000007", 7 << 20);
    // Recycled: the name is of a segment to come, the content of one long gone.
    write("000000010000000000000008", 3 << 20);
    fs::write(pg_wal.join("00000002.history"), "1\t0/5000000\n").unwrap();
    bench.options.pg_wal = Some(pg_wal);
    assert_eq!(
        names(&mut bench),
        [
            "pg_wal/000000010000000000000005",
            "pg_wal/000000010000000000000006"
        ]
    );
    assert!(
        bench.progress.notes[0].ends_with("the newest 2 of 2 complete segments are measured on")
    );
}

#[test]
fn refuses_to_measure_on_nothing() {
    let mut bench = Bench::new();
    assert!(matches!(bench.run(), Err(Error::Usage(_))));
    bench.segment("oltp", "000000010000000000000001", b"");
    assert!(bench.run().unwrap_err().to_string().contains("is empty"));
    bench.options.inputs = vec![bench.path("absent")];
    assert!(matches!(bench.run(), Err(Error::File { .. })));
}

#[test]
fn says_that_a_server_has_no_complete_segment_yet() {
    let mut bench = Bench::new();
    let pg_wal = bench.path("pg_wal");
    fs::create_dir(&pg_wal).unwrap();
    fs::write(pg_wal.join("000000010000000000000005"), segment_at(5 << 20)).unwrap();
    bench.options.pg_wal = Some(pg_wal);
    let error = bench.run().unwrap_err().to_string();
    assert!(error.contains("has no complete segment yet"), "{error}");
}
