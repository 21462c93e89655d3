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

/// Which commit, shown by git itself; nothing where git does not know it, or there is no git.
fn commit_by_git(hash: &str) -> Option<String> {
    let show = ["show", "--no-patch", "--abbrev=10", "--format=%h %cs", hash];
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let top = top.canonicalize().expect("the workspace");
    let output = std::process::Command::new("git")
        .args(show)
        .current_dir(&top)
        // Sources inside another project's checkout are none of its commits.
        .env("GIT_CEILING_DIRECTORIES", top.parent().expect("a parent"))
        .output()
        .ok()?;
    let shown = String::from_utf8(output.stdout).expect("UTF-8");
    output.status.success().then(|| shown.trim().to_owned())
}

#[test]
fn the_version_is_the_packages_and_names_the_commit_and_its_date() {
    let version = Sandbox::new().ok(&["--version"]);
    let version = String::from_utf8(version).expect("UTF-8");
    let package = format!("walzip {}", env!("CARGO_PKG_VERSION"));
    let rest = version.strip_prefix(&package).expect(&version).trim_end();
    match (commit_by_git("HEAD"), option_env!("WALZIP_COMMIT")) {
        (_, Some(given)) => assert_eq!(rest, format!(" ({given})")),
        (None, None) => assert_eq!(rest, "", "there is no commit to name"),
        (Some(_), None) => {
            let commit = rest
                .strip_prefix(" (")
                .and_then(|rest| rest.strip_suffix(')'));
            let commit = commit.unwrap_or_else(|| panic!("no commit in {version}"));
            let hash = commit.split(' ').next().expect("a word");
            assert_eq!(commit_by_git(hash).as_deref(), Some(commit));
        }
    }
}
