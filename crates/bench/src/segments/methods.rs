//! How a segment gets to the archive: one table row for each method.
//!
//! In the arguments, `{source}` and `{target}` at the end of a word stand for the files,
//! `{host}` for the SSH server, `{config}` for the SSH client's configuration, `{repository}` for walzip's repository. A row
//! with neither `{target}` nor `{repository}` writes the target to its standard output.

use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;

use super::sshd::{CLIENT_CONFIG, CLIENT_PACKAGE};

/// Whose program a method is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It copies on this machine.
    Local,
    /// It copies by SSH: to the loopback server, or to a host of the user's.
    Ssh,
    /// walzip's archiver, with its checks: real WAL only.
    Push,
    /// walzip's compression as a filter: any bytes.
    Filter,
}

/// A method to archive a segment.
#[derive(Debug)]
pub struct Method {
    /// The word for `--way`.
    pub name: &'static str,
    /// The program.
    pub program: &'static str,
    /// The package that brings it (Debian's name).
    pub package: &'static str,
    /// Whose it is.
    pub kind: Kind,
    /// Whether the segment is on the disk when the program reports success.
    pub durable: bool,
    /// Arguments for one segment.
    pub arguments: &'static [&'static str],
    /// Arguments that print the version.
    pub version: &'static [&'static str],
}

/// Every method, in the order of tables.
#[rustfmt::skip]
pub static METHODS: &[Method] = &[
    Method { name: "cp", program: "cp", package: "coreutils", kind: Kind::Local, durable: false,
        arguments: &["{source}", "{target}"], version: &["--version"] },
    Method { name: "dd-fsync", program: "dd", package: "coreutils", kind: Kind::Local, durable: true,
        arguments: &["if={source}", "of={target}", "bs=1M", "conv=fsync", "status=none"], version: &["--version"] },
    Method { name: "scp", program: "scp", package: CLIENT_PACKAGE, kind: Kind::Ssh, durable: false,
        arguments: &["-q", "-B", "-F", "{config}", "{source}", "{host}:{target}"], version: &[] },
    Method { name: "rsync", program: "rsync", package: "rsync", kind: Kind::Ssh, durable: false,
        arguments: &["-s", "-e", "ssh -F {config}", "{source}", "{host}:{target}"], version: &["--version"] },
    Method { name: "archive-push", program: "walzip", package: "walzip", kind: Kind::Push, durable: true,
        arguments: &["archive-push", "--repo", "{repository}", "{source}"], version: &["--version"] },
    Method { name: "compress", program: "walzip", package: "walzip", kind: Kind::Filter, durable: false,
        arguments: &["compress", "-c", "{source}"], version: &["--version"] },
];

impl Method {
    /// The row of a name.
    pub fn named(name: &str) -> Option<&'static Method> {
        METHODS.iter().find(|method| method.name == name)
    }

    /// Whether the program is this project's own.
    pub fn is_walzip(&self) -> bool {
        matches!(self.kind, Kind::Push | Kind::Filter)
    }

    /// Whether the program writes the target to its standard output.
    pub(super) fn writes_to_stdout(&self) -> bool {
        self.kind == Kind::Filter
    }

    /// The command for one segment as provenance shows it.
    pub fn command_line(&self) -> String {
        let mut words = vec![self.program.to_owned()];
        words.extend(self.arguments.iter().map(|argument| {
            let word = argument
                .replace("{source}", "SEGMENT")
                .replace("{target}", "TARGET")
                .replace("{host}", "HOST")
                .replace("{config}", "CONFIG")
                .replace("{repository}", "REPOSITORY");
            match word.contains(' ') {
                true => format!("'{word}'"),
                false => word,
            }
        }));
        if self.writes_to_stdout() {
            words.push("> TARGET".to_owned());
        }
        words.join(" ")
    }

    /// The arguments for one segment.
    pub(super) fn fill(
        &self,
        host: &str,
        (source, target): (&Path, &Path),
        repository: &Path,
    ) -> Vec<OsString> {
        let paths = [
            ("{source}", source),
            ("{target}", target),
            ("{config}", Path::new(CLIENT_CONFIG)),
            ("{repository}", repository),
        ];
        let fill_one = |argument: &&str| {
            let argument = argument.replace("{host}", host);
            for (placeholder, path) in paths {
                if let Some(beginning) = argument.strip_suffix(placeholder) {
                    let mut word = OsString::from(beginning);
                    word.push(path);
                    return word;
                }
            }
            OsString::from(argument)
        };
        self.arguments.iter().map(fill_one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_used_once_and_ssh_goes_to_the_host() {
        for (index, method) in METHODS.iter().enumerate() {
            assert!(
                METHODS[..index]
                    .iter()
                    .all(|other| other.name != method.name)
            );
            let goes_there = method.arguments.contains(&"{host}:{target}");
            assert_eq!(goes_there, method.kind == Kind::Ssh, "{}", method.name);
        }
    }

    #[test]
    fn words_are_filled_in_and_shown_without_paths() {
        let rsync = Method::named("rsync").unwrap();
        let words = rsync.fill(
            "walzip-bench",
            (Path::new("/s/1"), Path::new("/t/1")),
            Path::new(""),
        );
        assert_eq!(words[2], "ssh -F ssh_config");
        assert_eq!(words[4], "walzip-bench:/t/1");
        assert_eq!(
            rsync.command_line(),
            "rsync -s -e 'ssh -F CONFIG' SEGMENT HOST:TARGET"
        );
    }
}
