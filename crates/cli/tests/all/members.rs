//! Streams of several members, and what happens to damaged ones.

use walzip_testing::not_run;

use crate::sandbox::{SEGMENT_SIZE, Sandbox, segment, text};

#[test]
fn a_stream_of_segments_has_a_member_for_each() {
    let sandbox = Sandbox::new();
    let both = [segment(1), segment(2)].concat();
    sandbox.write("both", &both);
    for name in ["1", "2"] {
        sandbox.write(name, &segment(name.parse().expect("a number")));
    }
    let stream = sandbox.ok(&["compress", "-c", "both"]);
    let parts = sandbox.ok(&["compress", "-c", "1", "2"]);
    assert_eq!(stream, parts);
    sandbox.write("both.wz", &stream);
    assert_eq!(sandbox.ok(&["decompress", "-c", "both.wz"]), both);
}

#[test]
fn anything_round_trips() {
    let sandbox = Sandbox::new();
    let cut = &segment(1)[..SEGMENT_SIZE / 2];
    let tail = [&segment(1)[..], b"and more"].concat();
    for content in [
        b"",
        &b"x"[..],
        &text(8192),
        &text(8193),
        &text(3 << 20),
        cut,
        &tail,
    ] {
        sandbox.write("a", content);
        sandbox.ok(&["compress", "a"]);
        sandbox.ok(&["decompress", "a.wz"]);
        assert!(sandbox.read("a") == content, "{} bytes", content.len());
    }
}

#[test]
fn a_real_segment_round_trips_with_and_without_proof() {
    let sandbox = Sandbox::new();
    let Some(original) = real_segment() else {
        return;
    };
    sandbox.write("a", &original);
    for flags in [
        &["compress", "-k", "-f"][..],
        &["compress", "-k", "-f", "--no-verify"],
    ] {
        sandbox.ok(&[flags, &["a"]].concat());
        assert!(sandbox.read("a.wz").len() < original.len() / 2);
        assert!(
            sandbox.ok(&["decompress", "-c", "a.wz"]) == original,
            "{flags:?}"
        );
    }
}

#[test]
fn a_truncated_file_is_an_error_and_leaves_no_output() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &[segment(1), text(500)].concat());
    let whole = sandbox.ok(&["compress", "-c", "a"]);
    std::fs::remove_file(sandbox.path("a")).expect("removable");
    let mut ends_of_members = 0;
    for len in 0..whole.len() {
        sandbox.write("a.wz", &whole[..len]);
        let output = sandbox.run(&["decompress", "a.wz"]);
        if output.status.success() {
            // The cut is between two members: what is there is complete.
            ends_of_members += 1;
            assert!(sandbox.read("a") == segment(1));
            std::fs::remove_file(sandbox.path("a")).expect("removable");
            continue;
        }
        let code = output.status.code().expect("no signal");
        assert!([26, 29].contains(&code), "cut at {len}: code {code}");
        assert_eq!(sandbox.names(), ["a.wz"], "cut at {len}");
    }
    assert_eq!(ends_of_members, 1);
}

#[test]
fn a_damaged_second_member_leaves_no_output() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &[segment(1), text(500)].concat());
    let mut damaged = sandbox.ok(&["compress", "-c", "a"]);
    *damaged.last_mut().expect("not empty") ^= 1;
    sandbox.write("b.wz", &damaged);
    let complaint = sandbox.fails(26, &["decompress", "b.wz"]);
    assert!(complaint.contains("member at byte"), "{complaint}");
    assert_eq!(sandbox.names(), ["a", "b.wz"]);
}

#[test]
fn what_is_not_walzip_is_told_apart_from_damage() {
    let sandbox = Sandbox::new();
    sandbox.write("a.wz", b"some text");
    insta::assert_snapshot!(sandbox.fails(29, &["decompress", "a.wz"]));
    sandbox.write("empty.wz", b"");
    insta::assert_snapshot!(sandbox.fails(29, &["decompress", "empty.wz"]));
    sandbox.write("b", &text(10));
    let mut trailing = sandbox.ok(&["compress", "-c", "b"]);
    trailing.extend_from_slice(b"garbage");
    sandbox.write("b.wz", &trailing);
    sandbox.fails(29, &["decompress", "-f", "b.wz"]);
    assert_eq!(sandbox.read("b"), text(10));
}

/// The first segment of a sample. Where there are no samples this says so, and fails in CI.
pub fn real_segment() -> Option<Vec<u8>> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/wal-samples");
    let folder = std::env::var("WALZIP_SAMPLES").unwrap_or_else(|_| default.to_owned());
    let folder = std::path::Path::new(&folder).join("oltp-steady");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        not_run(&format!(
            "no WAL samples in {}; set WALZIP_SAMPLES",
            folder.display()
        ));
        return None;
    };
    let path = entries
        .map(|entry| entry.expect("readable").path())
        .min()
        .expect("not empty");
    let output = std::process::Command::new("xz")
        .arg("-dc")
        .arg(&path)
        .output();
    let output = output.expect("xz is installed");
    assert!(
        output.status.success(),
        "xz cannot unpack {}",
        path.display()
    );
    Some(output.stdout)
}
