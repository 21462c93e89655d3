//! What `--help` says is what a person works from: every change to it is seen.

use crate::sandbox::Sandbox;

fn help(command: &[String]) -> String {
    let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
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

/// Each command, and each command of those that have some.
#[test]
fn every_command_has_help() {
    let mut count = 0;
    let mut left = vec![Vec::new()];
    while let Some(path) = left.pop() {
        let text = help(&path);
        let below = commands(&text).into_iter().map(str::to_owned);
        let below: Vec<String> = below.collect();
        if !path.is_empty() {
            insta::assert_snapshot!(format!("help_{}", path.join("_")), text);
            count += 1;
        }
        left.extend(
            below
                .iter()
                .map(|name| [&path[..], std::slice::from_ref(name)].concat()),
        );
    }
    // As many as the manual has pages, but for the overview.
    let sandbox = Sandbox::new();
    sandbox.ok(&["manual", "pages"]);
    let pages = std::fs::read_dir(sandbox.path("pages")).expect("pages");
    assert_eq!(count, pages.count() - 1);
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
