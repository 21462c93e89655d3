//! What the second decoder makes of golden files and of a repository is what walzip makes of them.

use std::path::Path;
use std::process::Command;

use walzip_testing::not_run;

use crate::clusters::site::{Site, program_of, said};

fn in_the_repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The classes of its tests, in two parts that run at the same time.
const GOLDEN_FILES: &[&str] = &["Parts", "GoldenFiles"];
const REPOSITORY: &[&str] = &["RealRepository"];

fn run(classes: &[&str]) {
    let Some(site) = Site::new(15) else { return };
    let script = in_the_repository("scripts/fetch-decoder");
    let found = Command::new(script).arg("--path").output();
    let found = found.expect("the script runs");
    if !found.status.success() {
        return not_run(String::from_utf8_lossy(&found.stderr).trim());
    }
    let python = String::from_utf8(found.stdout).expect("UTF-8");
    let programs = program_of(15, "postgres");
    let tests = in_the_repository("contrib/decoder/test_decoder.py");
    // Its tests change to the server's user by themselves.
    let done = Command::new(python.trim_end())
        .arg(tests)
        .args(classes)
        .env("WALZIP", site.program_under_test())
        .env("PG_BIN", programs.parent().expect("a directory"))
        .output()
        .expect("Python runs");
    assert!(done.status.success(), "{}", said(&done));
}

#[test]
fn the_second_decoder_gets_the_originals_of_golden_files() {
    run(GOLDEN_FILES);
}

#[test]
fn the_second_decoder_gets_what_walzip_gets() {
    run(REPOSITORY);
}

#[test]
fn no_class_of_its_tests_is_left_out() {
    let tests = in_the_repository("contrib/decoder/test_decoder.py");
    let tests = std::fs::read_to_string(tests).expect("readable");
    let heads = tests.lines().filter_map(|line| line.strip_prefix("class "));
    let classes: Vec<&str> = heads.filter_map(|head| head.split('(').next()).collect();
    assert_eq!(classes, [GOLDEN_FILES, REPOSITORY].concat());
}
