//! `walzip bench segments` with a store of the user's as the archive.

use std::path::Path;

use serde_json::Value;
use walzip_repo::testing::servers;
use walzip_testing::not_run;

use crate::sandbox::{Sandbox, segment};

/// Archives four segments in the store; what it printed, and its JSON.
fn bench(sandbox: &Sandbox, url: &str, variables: &[(&str, &str)]) -> (String, Value) {
    for number in 1..=4 {
        let name = format!("wal/00000001000000000000000{number}");
        sandbox.write(&name, &segment(number));
    }
    let mut command = sandbox.command();
    command
        .args(["bench", "segments", "wal", "--target", url])
        .args(["--content", "wal", "--size", "1", "--total", "4"])
        .args(["--runs", "2", "--warm", "--json", "r.json"])
        .envs(variables.iter().copied());
    let output = command.output().expect("walzip starts");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("cp is left out: it does not reach a store"),
        "{said}"
    );
    let json = serde_json::from_slice(&sandbox.read("r.json")).expect("JSON");
    (said, json)
}

fn is_measured(json: &Value) {
    let measured = json["measurements"].as_array().expect("a list");
    assert_eq!(measured.len(), 2, "{json}");
    for run in measured {
        let bytes = run["stored_bytes"].as_u64().expect("a number");
        // Four segments of 1 MB that are all but empty, and what a repository has besides.
        assert!((100..20_000).contains(&bytes), "{bytes}");
    }
}

#[test]
fn segments_are_archived_in_a_bucket_which_is_as_empty_afterwards() {
    let settings = servers::moto_bucket("measured");
    let sandbox = Sandbox::new();
    let endpoint = format!("http://127.0.0.1:{}", servers::moto().port());
    let variables = [
        ("WALZIP_REPO_S3_ENDPOINT", &*endpoint),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "TOP-SECRET"),
    ];
    let (said, json) = bench(&sandbox, "s3://measured/of/mine", &variables);
    is_measured(&json);
    assert!(said.contains("in a store of one's own (s3)"), "{said}");
    let shown = json.to_string();
    for private in ["of/mine", "s3://", "TOP-SECRET"] {
        assert!(
            !shown.contains(private) && !said.contains(private),
            "{private}: {said}"
        );
    }
    let location = walzip_repo::Location::parse("s3://measured").expect("a location");
    let store = walzip_repo::open_store(&location, &settings).expect("a store");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let left = runtime.block_on(walzip_repo::remove_below(&*store, ""));
    assert_eq!(left.expect("it is reached"), 0);
}

#[test]
fn segments_are_archived_on_an_ssh_server_which_has_nothing_of_it_afterwards() {
    let sshd = match servers::sshd() {
        Ok(sshd) => sshd,
        Err(reason) => return not_run(&reason),
    };
    let sandbox = Sandbox::new();
    let archive = sandbox.path("archive");
    std::fs::create_dir(&archive).expect("a directory");
    let [key, known] = ["user_key", "known_hosts"].map(|name| sshd.file(name));
    let text = |path: &Path| path.to_str().expect("a readable path").to_owned();
    let (key, known) = (text(&key), text(&known));
    let variables = [
        ("WALZIP_REPO_SFTP_PRIVATE_KEY_FILE", &*key),
        ("WALZIP_REPO_SFTP_KNOWN_HOST", &*known),
    ];
    let (_, json) = bench(&sandbox, &sshd.url(&archive), &variables);
    is_measured(&json);
    let mut find = std::process::Command::new("find");
    let left = find.arg(&archive).args(["-mindepth", "1"]).output();
    let left = String::from_utf8(left.expect("find").stdout).expect("UTF-8");
    assert_eq!(left, "", "something was left");
}
