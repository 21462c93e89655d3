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

/// The commands that an overview lists.
fn commands(overview: &str) -> Vec<&str> {
    let list = overview.lines().skip_while(|line| *line != "Commands:");
    let lines = list.skip(1).take_while(|line| !line.is_empty());
    // What does not begin a line's second column goes on with the line before.
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !["", "help"].contains(name)).collect()
}

#[test]
fn every_command_has_help() {
    let overview = help(&[]);
    let commands = commands(&overview);
    for name in &commands {
        insta::assert_snapshot!(format!("help_{name}"), help(&[name]));
    }
    assert!(commands.len() >= 5, "{commands:?} in:\n{overview}");
}

#[test]
fn every_experiment_has_help() {
    let overview = help(&["bench"]);
    let experiments = commands(&overview);
    for name in &experiments {
        if *name != "wal" {
            insta::assert_snapshot!(format!("help_bench_{name}"), help(&["bench", name]));
        }
    }
    assert!(experiments.len() >= 4, "{experiments:?} in:\n{overview}");
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
