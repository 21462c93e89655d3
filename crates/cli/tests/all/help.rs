//! What `--help` says is what a person works from: every change to it is seen.

use crate::sandbox::Sandbox;

fn help(command: &[&str]) -> String {
    let mut args = command.to_vec();
    args.push("--help");
    String::from_utf8(Sandbox::new().ok(&args)).expect("UTF-8")
}

#[test]
fn the_overview_lists_every_command() {
    insta::assert_snapshot!(help(&[]));
}

#[test]
fn every_command_has_help() {
    let overview = help(&[]);
    let commands = overview
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1);
    let mut count = 0;
    for line in commands.take_while(|line| !line.is_empty()) {
        let name = line
            .split_whitespace()
            .next()
            .expect("a line of the list has a name");
        if name != "help" {
            insta::assert_snapshot!(format!("help_{name}"), help(&[name]));
            count += 1;
        }
    }
    assert!(count >= 5, "{count} commands were found in:\n{overview}");
}

#[test]
fn the_experiment_has_help() {
    insta::assert_snapshot!(help(&["bench", "wal"]));
}

#[test]
fn the_version_is_the_packages() {
    let version = Sandbox::new().ok(&["--version"]);
    let expected = format!("walzip {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(version).expect("UTF-8"), expected);
}
