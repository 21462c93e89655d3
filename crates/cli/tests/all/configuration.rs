//! File, variables, flags: the later wins.

use crate::sandbox::Sandbox;

/// Which repository a command went to: none of them exists, and the message names it.
fn repository(sandbox: &Sandbox, variable: Option<&str>, flags: &[&str]) -> String {
    let mut command = sandbox.command();
    if let Some(value) = variable {
        command.env("WALZIP_REPO", value);
    }
    let output = command.args(["archive-get", "x", "y"]).args(flags).output();
    let complaint = String::from_utf8(output.expect("walzip starts").stderr).expect("UTF-8");
    let name = complaint
        .strip_prefix("walzip: error: /")
        .unwrap_or(&complaint);
    name.split(' ')
        .next()
        .expect("one word at least")
        .to_owned()
}

#[test]
fn a_flag_is_stronger_than_a_variable_and_that_than_the_file() {
    let sandbox = Sandbox::new();
    sandbox.write("walzip.toml", b"repo = \"/from-file\"\n");
    let file = ["--config", "walzip.toml"];
    assert_eq!(repository(&sandbox, None, &file), "from-file");
    assert_eq!(
        repository(&sandbox, Some("/from-variable"), &file),
        "from-variable"
    );
    let flags = ["--config", "walzip.toml", "--repo", "/from-flag"];
    assert_eq!(
        repository(&sandbox, Some("/from-variable"), &flags),
        "from-flag"
    );
}

#[test]
fn a_variable_names_the_file() {
    let sandbox = Sandbox::new();
    sandbox.write("walzip.toml", b"repo = \"/from-file\"\n");
    let output = sandbox
        .command()
        .env("WALZIP_CONFIG", "walzip.toml")
        .args(["archive-get", "x", "y"])
        .output();
    let complaint = String::from_utf8(output.expect("walzip starts").stderr).expect("UTF-8");
    assert!(complaint.contains("/from-file"), "{complaint}");
}

#[test]
fn a_wrong_file_is_an_error_that_names_the_place() {
    let sandbox = Sandbox::new();
    sandbox.write("key.toml", b"level = 3\nrepos = \"/r\"\n");
    sandbox.write("type.toml", b"repo = \"/r\"\nport = \"x\"\n");
    sandbox.write("syntax.toml", b"repo = \"/r\n");
    sandbox.write("level.toml", b"repo = \".\"\nlevel = 10\n");
    for name in ["key", "type", "syntax", "absent"] {
        let file = format!("{name}.toml");
        let complaint = sandbox.fails(27, &["archive-get", "--config", &file, "x", "y"]);
        insta::assert_snapshot!(format!("config_{name}"), complaint);
    }
    let complaint = sandbox.fails(27, &["archive-push", "--config", "level.toml", "x"]);
    insta::assert_snapshot!("config_level", complaint);
}

#[test]
fn a_misspelt_variable_is_pointed_out() {
    let sandbox = Sandbox::new();
    let output = sandbox
        .command()
        .env("WALZIP_REPOS", "/r")
        .env("WALZIP_SOMETHING_ELSE", "1")
        .args(["archive-get", "x", "y"])
        .output();
    let complaint = String::from_utf8(output.expect("walzip starts").stderr).expect("UTF-8");
    insta::assert_snapshot!(complaint);
}

#[test]
fn a_variable_that_is_empty_is_named() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command();
    command.env("WALZIP_REPO", "");
    let output = command.arg("info").output().expect("walzip starts");
    let complaint = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(31), "{complaint}");
    assert!(
        complaint.contains("the variable WALZIP_REPO is empty"),
        "{complaint}"
    );
}
