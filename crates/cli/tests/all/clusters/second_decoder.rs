//! What the second decoder makes of golden files and of a repository is what walzip makes of them.

use std::path::Path;
use std::process::Command;

use crate::clusters::site::{Site, not_run, program_of, said};

fn in_the_repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

#[test]
fn the_second_decoder_gets_what_walzip_gets() {
    let Some(site) = Site::new(15) else { return };
    let script = in_the_repository("scripts/fetch-decoder");
    let found = Command::new(script).arg("--path").output();
    let found = found.expect("the script runs");
    if !found.status.success() {
        return not_run(String::from_utf8_lossy(&found.stderr).trim());
    }
    let python = String::from_utf8(found.stdout).expect("UTF-8");
    let programs = program_of(15, "postgres");
    // Its tests change to the server's user by themselves.
    let tests = Command::new(python.trim_end())
        .arg(in_the_repository("contrib/decoder/test_decoder.py"))
        .env("WALZIP", site.program_under_test())
        .env("PG_BIN", programs.parent().expect("a directory"))
        .output()
        .expect("Python runs");
    assert!(tests.status.success(), "{}", said(&tests));
}
