//! Gives the program the version that `walzip --version` prints: the package's, and the commit
//! that it was built from with its date. A tree without git has no commit to name, unless whoever
//! builds it says one in `WALZIP_COMMIT`. Whether files differ from the commit is not said: only
//! a build at every change of any file could know.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=WALZIP_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let given = std::env::var("WALZIP_COMMIT").ok();
    let commit = match given.filter(|commit| !commit.trim().is_empty()) {
        Some(commit) => Some(commit.trim().to_owned()),
        None => commit_of_checkout(),
    };
    let version = env!("CARGO_PKG_VERSION");
    let version = match commit {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=WALZIP_VERSION={version}");
}

/// The commit of the checkout that this file belongs to, such as `fb8fa01abc 2026-11-23`.
fn commit_of_checkout() -> Option<String> {
    // Cargo runs this in the package's directory.
    let top = Path::new("../..").canonicalize().ok()?;
    // Sources that were unpacked inside another project's checkout are none of its commits.
    let found = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    if found.canonicalize().ok()? != top {
        return None;
    }
    for path in paths_that_change_with_the_commit() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    git(&["log", "-1", "--abbrev=10", "--format=%h %cs"])
}

/// What git writes when another commit is checked out or made. A path that does not exist would
/// make cargo build again every time.
fn paths_that_change_with_the_commit() -> Vec<PathBuf> {
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let mut names = vec!["HEAD", "logs/HEAD", "packed-refs"];
    names.extend(branch.as_deref());
    let paths = names
        .into_iter()
        .filter_map(|name| git(&["rev-parse", "--git-path", name]));
    paths
        .map(PathBuf::from)
        .filter(|path| path.exists())
        .collect()
}

/// What git answers, if it is there and knows.
fn git(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.args(arguments);
    // Set in git's hooks, they would name another checkout.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
