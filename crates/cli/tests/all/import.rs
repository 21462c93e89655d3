//! `walzip import`: the WAL of other archives, whole and damaged.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use walzip_testing::not_run;

use crate::sandbox::{
    SYSTEM_ID, Sandbox, control_file, control_file_of_16, segment, segment_of, segment_of_16,
};

const HISTORY: &[u8] = b"1\t0/100000\tno recovery target specified\n";

/// A repository, and nothing to import yet.
fn initialised() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    sandbox.ok(&["-q", "init", "--repo", "repo", "-D", "data"]);
    sandbox
}

fn name(number: u64) -> String {
    name_on(1, number)
}

fn name_on(timeline: u64, number: u64) -> String {
    format!("{timeline:08X}00000000{number:08X}")
}

const IMPORT: [&str; 3] = ["import", "--repo", "repo"];

#[track_caller]
fn imports(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.ok(&[&IMPORT, arguments].concat());
    String::from_utf8(output).expect("UTF-8")
}

/// What an import lists that does not take over everything.
#[track_caller]
fn problems(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.run(&[&IMPORT, arguments].concat());
    let listed = String::from_utf8(output.stdout).expect("UTF-8");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(104), "{listed}{said}");
    listed
}

#[track_caller]
fn got(sandbox: &Sandbox, name: &str) -> Vec<u8> {
    sandbox.ok(&["archive-get", "--repo", "repo", name, "got"]);
    sandbox.read("got")
}

/// What a program makes of bytes; nothing, said loudly, where it is not installed.
fn packed_by(program: &str, arguments: &[&str], bytes: &[u8]) -> Option<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped());
    let Ok(mut child) = command.stdout(Stdio::piped()).spawn() else {
        not_run(&format!("{program} is not here: import of what it packs"));
        return None;
    };
    let mut input = child.stdin.take().expect("a pipe");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes).expect("written"));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("written");
    assert!(output.status.success(), "{program}");
    Some(output.stdout)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    packed_by("gzip", &["-c"], bytes).expect("gzip is everywhere")
}

const PROGRAMS: [(&str, &[&str], &str); 9] = [
    ("gzip", &["-c"], "gz"),
    ("bzip2", &["-c"], "bz2"),
    ("xz", &["-c", "-9"], "xz"),
    ("xz", &["-c", "--format=lzma"], "lzma"),
    ("zstd", &["-c", "-q"], "zst"),
    ("zstd", &["-c", "-q", "-19", "--long=27"], "zst"),
    ("lz4", &["-c", "-q"], "lz4"),
    ("lz4", &["-c", "-q", "-BD", "-B4", "--no-frame-crc"], "lz4"),
    ("brotli", &["-c"], "br"),
];

/// Every file below a directory, with its content and its time.
fn tree(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("readable") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files.extend(tree(&path)),
            false => {
                let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
                let content = fs::read(&path).expect("readable");
                files.insert(path, (content, modified.expect("a time")));
            }
        }
    }
    files
}

#[test]
fn takes_over_what_programs_have_packed_and_again_for_nothing() {
    let sandbox = initialised();
    let mut numbers = vec![1];
    sandbox.write(&format!("wal/{}", name(1)), &segment(1));
    for (number, (program, arguments, ending)) in (2..).zip(PROGRAMS) {
        if let Some(packed) = packed_by(program, arguments, &segment(number)) {
            let directory = format!("wal/deep/{program}");
            sandbox.write(&format!("{directory}/{}.{ending}", name(number)), &packed);
            numbers.push(number);
        }
    }
    let backup = format!("{}.00000028.backup", name(1));
    sandbox.write("wal/00000002.history.gz", &gzip(HISTORY));
    sandbox.write(&format!("wal/{backup}"), b"START WAL LOCATION: 0/100028\n");
    sandbox.write(&format!("wal/{}.partial", name(15)), &segment(15));
    sandbox.write("wal/README", b"not WAL");
    let before = tree(&sandbox.path("wal"));

    let count = numbers.len() + 3;
    let dry = imports(&sandbox, &["--dry-run", "wal"]);
    let expected = format!("would be imported: WAL files {count} (");
    assert!(dry.starts_with(&expected), "{dry}");
    let info = sandbox.ok(&["info", "--repo", "repo", "--json"]);
    let info: serde_json::Value = serde_json::from_slice(&info).expect("JSON");
    assert_eq!(info["wal"].as_array().map(Vec::len), Some(0), "{info}");

    let told = imports(&sandbox, &["-1", "wal"]);
    assert!(
        told.starts_with(&format!("imported: WAL files {count} (")),
        "{told}"
    );
    assert!(told.ends_with("not WAL, passed over: 1\n"), "{told}");
    sandbox.ok(&["verify", "--repo", "repo"]);
    for &number in &numbers {
        assert!(got(&sandbox, &name(number)) == segment(number), "{number}");
    }
    assert_eq!(got(&sandbox, "00000002.history"), HISTORY);
    assert_eq!(got(&sandbox, &backup), b"START WAL LOCATION: 0/100028\n");

    let again = imports(&sandbox, &["wal"]);
    let expected = format!("in the repository already, the same content: {count}\n");
    assert!(again.contains("imported: WAL files 0 "), "{again}");
    assert!(again.contains(&expected), "{again}");
    let again = imports(&sandbox, &["--trust-names", "wal"]);
    let expected = format!("in the repository already, not compared: {count}\n");
    assert!(again.contains(&expected), "{again}");
    assert!(tree(&sandbox.path("wal")) == before, "it was changed");
}

#[test]
fn what_is_damaged_is_listed_and_the_rest_is_taken_over() {
    let sandbox = initialised();
    let sum = "0123456789012345678901234567890123456789";
    let packed = gzip(&segment(2));
    let write = |name: String, content: &[u8]| {
        sandbox.write(&format!("wal/{name}"), content);
    };
    write(name(1), &segment(1));
    write(name(2) + ".gz", &packed[..packed.len() - 1]);
    write(format!("{}-{sum}", name(3)), &segment(3));
    write(name(4), &segment(5));
    write(name(5), &segment(5)[..5000]);
    write(name(6) + ".gz", &gzip(&[&segment(6)[..], &[0; 9]].concat()));
    write(name(7), &[0; 1 << 20]);
    write(name(8) + ".gpg", b"who knows");
    write(name(9) + ".lz4", b"Salted__whatever");
    write("00000002.history".to_owned(), b"");
    write(name(10), &segment(10));
    insta::assert_snapshot!(problems(&sandbox, &["--level", "1", "wal"]));
    assert!(got(&sandbox, &name(1)) == segment(1));
    assert!(got(&sandbox, &name(10)) == segment(10));
    sandbox.ok(&["verify", "--repo", "repo"]);
}

#[test]
fn another_content_under_the_same_name_is_a_conflict() {
    let sandbox = initialised();
    let path = format!("data/pg_wal/{}", name(2));
    sandbox.write(&path, &segment(2));
    sandbox.ok(&["archive-push", "--repo", "repo", &path]);
    let mut other = segment(2);
    other[9000] = 1;
    sandbox.write(&format!("wal/{}.gz", name(2)), &gzip(&other));
    for number in [1, 3] {
        let path = format!("wal/{}.gz", name(number));
        sandbox.write(&path, &gzip(&segment(number)));
    }
    insta::assert_snapshot!(problems(&sandbox, &["wal"]));
    // What comes before it is taken over, and nothing behind it: together they would be no server's WAL.
    assert!(got(&sandbox, &name(1)) == segment(1));
    assert!(got(&sandbox, &name(2)) == segment(2));
    let behind = ["archive-get", "--repo", "repo", &name(3), "behind"];
    assert_eq!(sandbox.run(&behind).status.code(), Some(1));
    let json = sandbox.run(&[&IMPORT[..], &["--json", "wal"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    for finding in 0..2 {
        assert_eq!(json["findings"][finding]["kind"], "conflict");
    }
    assert_eq!(json["identical"], 1);
}

/// As pgBackRest lays it out: a stanza's clusters, before and after an upgrade.
fn write_stanza(sandbox: &Sandbox, new_id: u64) {
    let first = name(1);
    let directory = &first[..16];
    sandbox.write("br/archive/demo/archive.info", b"[db]\n");
    let old = format!("br/archive/demo/15-1/{directory}/{first}.gz");
    sandbox.write(&old, &gzip(&segment(1)));
    sandbox.write("br/archive/demo/15-1/00000002.history", HISTORY);
    let new = format!("br/archive/demo/16-2/{directory}/{first}.gz");
    let new_segment = segment_of_16(segment_of(new_id, 1));
    sandbox.write(&new, &gzip(&new_segment));
    sandbox.write("br/archive/demo/16-2/00000003.history", HISTORY);
}

#[test]
fn the_wal_of_another_cluster_is_left_out() {
    let sandbox = initialised();
    write_stanza(&sandbox, SYSTEM_ID + 9);
    insta::assert_snapshot!(imports(&sandbox, &["--dry-run", "br"]));
    let told = imports(&sandbox, &["br"]);
    assert!(told.contains("imported: WAL files 2 "), "{told}");
    let foreign = [&IMPORT[..], &["br/archive/demo/16-2"]].concat();
    insta::assert_snapshot!(sandbox.fails(44, &foreign));
    fs::create_dir(sandbox.path("empty")).expect("made");
    insta::assert_snapshot!(sandbox.fails(31, &[&IMPORT[..], &["empty"]].concat()));
    sandbox.fails(55, &[&IMPORT[..], &["absent"]].concat());
    sandbox.write("br/archive/demo/archive.info", b"Salted__1234");
    insta::assert_snapshot!(sandbox.fails(31, &[&IMPORT[..], &["br"]].concat()));
}

#[test]
fn each_cluster_of_an_upgraded_repository_gets_its_own() {
    let sandbox = initialised();
    let new_id = SYSTEM_ID + 7;
    let control_file = control_file_of_16(control_file(new_id));
    sandbox.write("new/global/pg_control", &control_file);
    sandbox.ok(&["upgrade", "--repo", "repo", "-D", "new"]);
    write_stanza(&sandbox, new_id);
    let told = imports(&sandbox, &["--cluster", "16", "br"]);
    assert!(
        told.contains("left out: archive/demo/15-1: WAL files 2 "),
        "{told}"
    );
    assert!(told.contains("imported: WAL files 2 "), "{told}");
    let told = imports(&sandbox, &["br"]);
    assert!(told.contains("imported: WAL files 2 "), "{told}");
    assert!(told.contains("the same content: 2\n"), "{told}");
    let new = segment_of_16(segment_of(new_id, 1));
    assert!(got(&sandbox, &name(1)) == new, "the newest's");
    sandbox.ok(&["verify", "--repo", "repo"]);

    // Both in one directory: a segment says whose it is, a history does not.
    sandbox.write("mixed/a/00000004.history", HISTORY);
    sandbox.write(&format!("mixed/a/{}", name(4)), &segment(4));
    sandbox.write(
        &format!("mixed/b/{}", name(5)),
        &segment_of_16(segment_of(new_id, 5)),
    );
    let told = problems(&sandbox, &["mixed"]);
    assert!(
        told.starts_with("owner unknown: a/00000004.history: "),
        "{told}"
    );
    assert!(told.contains("imported: WAL files 2 "), "{told}");
}

/// The archive_command was switched over first: the beginning of the timeline is only in the other
/// archive, or nowhere any more.
#[test]
fn a_history_is_taken_over_beside_wal_that_is_archived_already() {
    for number_of_first in [2, 4] {
        let sandbox = initialised();
        let later = format!("data/pg_wal/{}", name_on(2, 6));
        sandbox.write(&later, &segment(6));
        sandbox.ok(&["archive-push", "--repo", "repo", &later]);
        let history = b"1\t0/200000\tno recovery target specified\n";
        sandbox.write("wal/00000002.history", history);
        for number in number_of_first..6 {
            let path = format!("wal/{}.gz", name_on(2, number));
            sandbox.write(&path, &gzip(&segment(number)));
        }
        let output = sandbox.run(&[&IMPORT[..], &["wal"]].concat());
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        // From the segment of the switch on, its content has to bear the history out.
        match number_of_first {
            2 => assert!(told.contains("conflict: 00000002.history: "), "{told}"),
            _ => assert_eq!(got(&sandbox, "00000002.history"), history),
        }
        // Another content of the timeline contradicts it.
        let mut content = segment(6);
        content[9000] = 1;
        sandbox.write("branch/00000002.history", b"1\t0/300000\tx\n");
        sandbox.write(&format!("branch/{}", name_on(2, 6)), &content);
        let told = problems(&sandbox, &["branch"]);
        assert_eq!(told.matches("conflict: ").count(), 2, "{told}");
        // A history whose timeline had WAL before it began is another timeline's.
        let other = b"1\t0/900000\tno recovery target specified\n";
        sandbox.write("other/00000002.history", other);
        let path = format!("other/{}", name_on(2, 5));
        sandbox.write(&path, &segment(5));
        assert!(problems(&sandbox, &["other"]).starts_with("conflict: 00000002.history: "));
    }
}

/// Under its name its server could not archive the whole segment any more.
#[test]
fn the_segment_that_a_server_still_writes_is_left_out() {
    let sandbox = initialised();
    // As walzip finds them: without marks, the first one with its last page. The second was ended before it was full.
    for number in 1..4 {
        let mut content = segment(number);
        if number == 1 {
            let (page, address) = (content.len() - 8192, (2_u64 << 20) - 8192);
            let header = [&0xD110_u16.to_le_bytes()[..], &[0; 2], &1_u32.to_le_bytes()].concat();
            content[page..page + 8].copy_from_slice(&header);
            content[page + 8..page + 16].copy_from_slice(&address.to_le_bytes());
        }
        sandbox.write(&format!("other/pg_wal/{}", name(number)), &content);
    }
    fs::create_dir_all(sandbox.path("other/pg_wal/archive_status")).expect("made");
    let listed = problems(&sandbox, &["other/pg_wal"]);
    let expected = format!(
        "unfinished: {}: nothing shows that its server has finished it",
        name(3)
    );
    assert!(listed.contains(&expected), "{listed}");
    assert!(listed.contains("imported: WAL files 2 "), "{listed}");
    // PostgreSQL says that it is whole.
    sandbox.write(
        &format!("other/pg_wal/archive_status/{}.ready", name(3)),
        b"",
    );
    let told = imports(&sandbox, &["other/pg_wal"]);
    assert!(told.contains("imported: WAL files 1 "), "{told}");
}

/// A server keeps files for later under names that come next. Between segments that were begun there are none.
#[test]
fn segments_that_a_server_has_not_begun_are_passed_over() {
    let sandbox = initialised();
    let mark = |number| {
        let path = format!("other/pg_wal/archive_status/{}.done", name(number));
        sandbox.write(&path, b"");
    };
    mark(4);
    let write = |number: u64, content: &[u8]| {
        sandbox.write(&format!("other/pg_wal/{}", name(number)), content);
    };
    let zeros = vec![0; segment(1).len()];
    write(4, &segment(4));
    write(5, &segment(1));
    write(6, &zeros);
    let told = imports(&sandbox, &["other/pg_wal"]);
    let passed = "segments that the server has not begun, passed over: 2";
    assert!(
        told.contains("imported: WAL files 1 ") && told.contains(passed),
        "{told}"
    );
    // Marked as finished, or before one that was begun, they are damaged.
    mark(5);
    let told = problems(&sandbox, &["other/pg_wal"]);
    assert!(told.contains(&format!("damaged: {}: ", name(5))), "{told}");
    assert!(told.contains("passed over: 1"), "{told}");
    write(7, &segment(7));
    let told = problems(&sandbox, &["other/pg_wal"]);
    for number in [5, 6] {
        assert!(told.contains(&format!("{}: ", name(number))), "{told}");
    }
    assert!(!told.contains("not begun, passed over"), "{told}");
    // The first page is gone, and others are there.
    let mut damaged = segment(8);
    let second = 8192 + (8 << 20_u64);
    let header = damaged[..8].to_vec();
    damaged[8192..8200].copy_from_slice(&header);
    damaged[8194..8196].fill(0);
    damaged[8200..8208].copy_from_slice(&u64::to_le_bytes(second));
    damaged[..8192].fill(0);
    write(8, &damaged);
    let told = problems(&sandbox, &["other/pg_wal"]);
    assert!(
        told.contains(&format!("unfinished: {}: ", name(8))),
        "{told}"
    );
    // After a promotion files have other segments of the parent's timeline, earlier ones, later ones, and the same.
    for (number, content) in [(2, 2), (3, 1), (4, 9), (5, 5)] {
        sandbox.write(
            &format!("promoted/pg_wal/{}", name_on(2, number)),
            &segment(content),
        );
    }
    fs::create_dir_all(sandbox.path("promoted/pg_wal/archive_status")).expect("made");
    let told = problems(&sandbox, &["promoted/pg_wal"]);
    assert!(told.contains("not begun, passed over: 3"), "{told}");
    assert!(
        told.contains(&format!("unfinished: {}: ", name_on(2, 2))),
        "{told}"
    );
    // Elsewhere nothing says that it is a server's.
    for (number, content) in [(4, segment(4)), (5, segment(1))] {
        sandbox.write(&format!("plain/{}", name(number)), &content);
    }
    let told = problems(&sandbox, &["plain"]);
    assert!(told.contains(&format!("damaged: {}: ", name(5))), "{told}");
}

/// The first and the last one are looked at, and need not be the repository's.
#[test]
fn files_of_several_clusters_in_one_directory_go_by_their_first_pages() {
    let sandbox = initialised();
    for number in 1..=6 {
        let of = if (3..5).contains(&number) {
            SYSTEM_ID
        } else {
            SYSTEM_ID + 9
        };
        sandbox.write(&format!("both/{}", name(number)), &segment_of(of, number));
    }
    let told = imports(&sandbox, &["both"]);
    assert!(told.contains("imported: WAL files 2 "), "{told}");
    assert!(told.contains("WAL files 4 of "), "{told}");
}

/// One whose WAL was archived by two servers, or that was pushed once more after it was compressed. Whichever is read
/// faster, the same one is taken.
#[test]
fn of_two_contents_of_a_name_the_first_is_taken() {
    let sandbox = initialised();
    let (first, second) = (segment(2), {
        let mut other = segment(2);
        other[9000] ^= 1;
        other
    });
    sandbox.write(&format!("from/a/{}", name(2)), &first);
    sandbox.write(&format!("from/b/{}", name(2)), &second);
    sandbox.write(&format!("from/c/{}", name(2)), &first);
    let listed = problems(&sandbox, &["from"]);
    let told = format!("b/{}: the archive has two contents of this name", name(2));
    assert!(listed.contains(&told), "{listed}");
    assert_eq!(got(&sandbox, &name(2)), first);
}

/// PostgreSQL would refuse it, and nothing of its timeline could be restored.
#[test]
fn a_history_that_cannot_be_read_is_not_taken() {
    let sandbox = initialised();
    sandbox.write(&format!("other/{}", name(1)), &segment(1));
    sandbox.write("other/00000002.history", b"garbage\n");
    sandbox.write("other/00000003.history", HISTORY);
    let listed = problems(&sandbox, &["other"]);
    assert!(listed.contains("00000002.history: "), "{listed}");
    sandbox.fails(
        1,
        &["archive-get", "--repo", "repo", "00000002.history", "got"],
    );
    assert_eq!(got(&sandbox, "00000003.history"), HISTORY);
}
