//! The programs that compete, one table row each.
//!
//! A row says everything: how the program is called, what package brings it, which levels it
//! has, which of them belong to the first comparison, and how many threads it takes. Adding a
//! contender is adding a row.
//!
//! In the arguments, `{level}` stands for the level, `{input}` and `{output}` for the files;
//! a row without `{output}` writes to its standard output.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{Access, access};
use serde::Serialize;

use crate::error::Error;

/// How many threads a program works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Threads {
    /// One that compresses (some programs read and write in others).
    One,
    /// As many as the machine has processors.
    All,
}

/// A program and how it is called.
#[derive(Debug)]
pub struct Contender {
    /// The word for `--contender`.
    pub name: &'static str,
    /// How results name a level of it.
    pub label: &'static str,
    /// What the program is called; the first that is found is used.
    pub programs: &'static [&'static str],
    /// The package that brings it (Debian's name).
    pub package: &'static str,
    /// The suffix by which the program knows its own files.
    pub suffix: &'static str,
    /// How many threads it works with when called like this.
    pub threads: Threads,
    /// Every level worth comparing.
    pub levels: &'static [u8],
    /// The levels of the first comparison.
    pub first: &'static [u8],
    /// Arguments that compress.
    pub compress: &'static [&'static str],
    /// Arguments that decompress.
    pub decompress: &'static [&'static str],
    /// Arguments that print the version.
    pub version: &'static [&'static str],
    /// Variables that the call depends on.
    pub environment: &'static [(&'static str, &'static str)],
}

const TO_9: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 9];
const FROM_0_TO_9: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const TO_12: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
const FROM_0_TO_11: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
const TO_19: &[u8] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
];

/// What rows share when they say nothing else: a program with gzip's habits.
const LIKE_GZIP: Contender = Contender {
    name: "",
    label: "",
    programs: &[],
    package: "",
    suffix: "",
    threads: Threads::One,
    levels: TO_9,
    first: &[],
    compress: &["-{level}", "-c", "{input}"],
    decompress: &["-d", "-c", "{input}"],
    version: &["--version"],
    environment: &[],
};

/// The program that every ratio is relative to.
pub const BASELINE: Selection = Selection {
    name: "zstd",
    level: 1,
};

/// This project's own program; its path comes from the caller, not from the search path.
pub const WALZIP: &str = "walzip";
/// The same, without decoding what it wrote before it reports success.
pub const WALZIP_UNVERIFIED: &str = "walzip-unverified";

/// Every contender.
#[rustfmt::skip]
pub static CONTENDERS: &[Contender] = &[
    Contender { name: "gzip", label: "gzip -{level}", programs: &["gzip"], package: "gzip", suffix: "gz", first: &[1, 6], ..LIKE_GZIP },
    Contender { name: "pigz", label: "pigz -{level}", programs: &["pigz"], package: "pigz", suffix: "gz", threads: Threads::All, ..LIKE_GZIP },
    Contender { name: "bzip2", label: "bzip2 -{level}", programs: &["bzip2"], package: "bzip2", suffix: "bz2", ..LIKE_GZIP },
    Contender { name: "lbzip2", label: "lbzip2 -{level}", programs: &["lbzip2"], package: "lbzip2", suffix: "bz2", threads: Threads::All, ..LIKE_GZIP },
    // From 5.6 on, xz takes every processor unless told otherwise.
    Contender { name: "xz", label: "xz -{level}", programs: &["xz"], package: "xz-utils", suffix: "xz", levels: FROM_0_TO_9, first: &[2, 9],
        compress: &["-{level}", "-T1", "-c", "{input}"], decompress: &["-d", "-T1", "-c", "{input}"], ..LIKE_GZIP },
    Contender { name: "xz-T0", label: "xz -{level} -T0", programs: &["xz"], package: "xz-utils", suffix: "xz", threads: Threads::All, levels: FROM_0_TO_9,
        compress: &["-{level}", "-T0", "-c", "{input}"], decompress: &["-d", "-T0", "-c", "{input}"], ..LIKE_GZIP },
    Contender { name: "7za", label: "7za -mx={level}", programs: &["7za", "7zz", "7z"], package: "7zip", suffix: "7z", threads: Threads::All,
        compress: &["a", "-bd", "-bso0", "-mx={level}", "{output}", "{input}"], decompress: &["e", "-bd", "-so", "{input}"], version: &["i"], ..LIKE_GZIP },
    Contender { name: "lrzip-l", label: "lrzip -l -L{level}", programs: &["lrzip"], package: "lrzip", suffix: "lrz", threads: Threads::All,
        compress: &["-q", "-l", "-L", "{level}", "-o", "{output}", "{input}"], decompress: &["-q", "-d", "-o", "{output}", "{input}"], version: &["-V"], ..LIKE_GZIP },
    Contender { name: "lrzip-z", label: "lrzip -z -L{level}", programs: &["lrzip"], package: "lrzip", suffix: "lrz", threads: Threads::All,
        compress: &["-q", "-z", "-L", "{level}", "-o", "{output}", "{input}"], decompress: &["-q", "-d", "-o", "{output}", "{input}"], version: &["-V"], ..LIKE_GZIP },
    // From 1.10 on, lz4 takes every processor unless told otherwise; older ones do not know -T.
    Contender { name: "lz4", label: "lz4 -{level}", programs: &["lz4"], package: "lz4", suffix: "lz4", levels: TO_12, first: &[1],
        compress: &["-{level}", "-q", "-c", "{input}"], decompress: &["-d", "-q", "-c", "{input}"], environment: &[("LZ4_NBWORKERS", "1")], ..LIKE_GZIP },
    // From 1.5.7 on, zstd takes up to four threads unless told otherwise.
    Contender { name: "zstd", label: "zstd -{level}", programs: &["zstd"], package: "zstd", suffix: "zst", levels: TO_19, first: &[1, 3, 19],
        compress: &["-{level}", "-T1", "-q", "-c", "{input}"], decompress: &["-d", "-q", "-c", "{input}"], ..LIKE_GZIP },
    Contender { name: "zstd-fast", label: "zstd --fast={level}", programs: &["zstd"], package: "zstd", suffix: "zst", levels: &[1, 3, 5, 10],
        compress: &["--fast={level}", "-T1", "-q", "-c", "{input}"], decompress: &["-d", "-q", "-c", "{input}"], ..LIKE_GZIP },
    Contender { name: "zstd-ultra", label: "zstd --ultra -{level}", programs: &["zstd"], package: "zstd", suffix: "zst", levels: &[20, 21, 22],
        compress: &["--ultra", "-{level}", "-T1", "-q", "-c", "{input}"], decompress: &["-d", "-q", "-c", "{input}"], ..LIKE_GZIP },
    Contender { name: "zstd-T0", label: "zstd -{level} -T0", programs: &["zstd"], package: "zstd", suffix: "zst", threads: Threads::All, levels: TO_19,
        compress: &["-{level}", "-T0", "-q", "-c", "{input}"], decompress: &["-d", "-q", "-c", "{input}"], ..LIKE_GZIP },
    Contender { name: "brotli", label: "brotli -{level}", programs: &["brotli"], package: "brotli", suffix: "br", levels: FROM_0_TO_11,
        compress: &["-q", "{level}", "-c", "{input}"], ..LIKE_GZIP },
    Contender { name: WALZIP, label: "walzip -{level}", programs: &["walzip"], package: "walzip", suffix: "wz", first: &[1, 3, 6, 9],
        compress: &["compress", "-{level}", "-c", "{input}"], decompress: &["decompress", "-c", "{input}"], ..LIKE_GZIP },
    Contender { name: WALZIP_UNVERIFIED, label: "walzip -{level} --no-verify", programs: &["walzip"], package: "walzip", suffix: "wz",
        compress: &["compress", "-{level}", "-c", "--no-verify", "{input}"], decompress: &["decompress", "-c", "{input}"], ..LIKE_GZIP },
];

impl Contender {
    /// The row of a name.
    pub fn named(name: &str) -> Option<&'static Contender> {
        CONTENDERS.iter().find(|contender| contender.name == name)
    }

    /// Whether the program is this project's own.
    pub fn is_walzip(&self) -> bool {
        self.name == WALZIP || self.name == WALZIP_UNVERIFIED
    }

    /// How results name a level.
    pub fn label(&self, level: u8) -> String {
        self.label.replace("{level}", &level.to_string())
    }

    /// A command as provenance shows it, without the machine's paths.
    pub(crate) fn command_line(&self, program: &str, arguments: &[&str], level: u8) -> String {
        let mut words: Vec<String> = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        words.push(program.to_owned());
        let level = level.to_string();
        words.extend(arguments.iter().map(|argument| {
            argument
                .replace("{level}", &level)
                .replace("{input}", "INPUT")
                .replace("{output}", "OUTPUT")
        }));
        if !arguments.contains(&"{output}") {
            words.push("> OUTPUT".to_owned());
        }
        words.join(" ")
    }
}

/// Arguments with the placeholders filled in.
pub(crate) fn fill(arguments: &[&str], level: u8, input: &Path, output: &Path) -> Vec<OsString> {
    let fill_one = |argument: &&str| match *argument {
        "{input}" => input.as_os_str().to_owned(),
        "{output}" => output.as_os_str().to_owned(),
        other => OsString::from(other.replace("{level}", &level.to_string())),
    };
    arguments.iter().map(fill_one).collect()
}

/// The first executable file of that name in the directories of a search path.
pub(crate) fn find_program(name: &str, search_path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(search_path)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok())
}

/// One contender at one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    /// A name in [`CONTENDERS`].
    pub name: &'static str,
    /// One of its levels.
    pub level: u8,
}

/// What one `--contender` asks for: a name, and one level, some (`1-9`), or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request(pub Vec<Selection>);

impl FromStr for Request {
    type Err = Error;

    fn from_str(text: &str) -> Result<Request, Error> {
        let (name, levels) = match text.split_once(':') {
            Some((name, levels)) => (name, Some(levels)),
            None => (text, None),
        };
        let contender = Contender::named(name).ok_or_else(|| {
            let names: Vec<_> = CONTENDERS.iter().map(|contender| contender.name).collect();
            Error::Usage(format!(
                "no contender {name}: there are {}",
                names.join(", ")
            ))
        })?;
        let all = || contender.levels.iter().copied();
        let chosen: Vec<u8> = match levels {
            None => all().collect(),
            Some(levels) => {
                let (low, high) = levels.split_once('-').unwrap_or((levels, levels));
                let bounds = low.parse::<u8>().ok().zip(high.parse::<u8>().ok());
                all()
                    .filter(|level| bounds.is_some_and(|(low, high)| (low..=high).contains(level)))
                    .collect()
            }
        };
        if chosen.is_empty() {
            let levels: Vec<_> = all().map(|level| level.to_string()).collect();
            return Err(Error::Usage(format!(
                "no such level in {text}: {name} has {}",
                levels.join(", ")
            )));
        }
        Ok(Request(
            chosen
                .into_iter()
                .map(|level| Selection {
                    name: contender.name,
                    level,
                })
                .collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_complete_and_each_name_is_used_once() {
        for (index, row) in CONTENDERS.iter().enumerate() {
            assert!(!row.name.is_empty() && !row.package.is_empty() && !row.suffix.is_empty());
            assert!(
                !row.programs.is_empty() && row.label.contains("{level}"),
                "{}",
                row.name
            );
            assert!(
                row.first.iter().all(|level| row.levels.contains(level)),
                "{}",
                row.name
            );
            assert!(
                row.compress
                    .iter()
                    .any(|argument| argument.contains("{level}")),
                "{}",
                row.name
            );
            for arguments in [row.compress, row.decompress] {
                assert_eq!(
                    arguments.iter().filter(|word| **word == "{input}").count(),
                    1,
                    "{}",
                    row.name
                );
            }
            assert!(
                CONTENDERS[..index]
                    .iter()
                    .all(|other| other.name != row.name),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn a_request_names_one_level_some_or_all() {
        let request = |text: &str| text.parse::<Request>().unwrap().0;
        assert_eq!(
            request("zstd:3"),
            [Selection {
                name: "zstd",
                level: 3
            }]
        );
        assert_eq!(request("xz:0-2").len(), 3);
        assert_eq!(request("walzip").len(), 9);
    }

    #[test]
    fn an_unknown_name_or_level_is_refused_with_what_there_is() {
        let refusal = |text: &str| text.parse::<Request>().unwrap_err().to_string();
        assert!(refusal("rar").contains("there are gzip, pigz"));
        assert!(refusal("gzip:0").contains("gzip has 1, 2"));
        assert!(refusal("gzip:x").contains("no such level"));
        assert!(refusal("gzip:9-1").contains("no such level"));
    }

    #[test]
    fn a_command_line_shows_variables_and_where_the_output_goes() {
        let lz4 = Contender::named("lz4").unwrap();
        assert_eq!(
            lz4.command_line("lz4", lz4.compress, 1),
            "LZ4_NBWORKERS=1 lz4 -1 -q -c INPUT > OUTPUT"
        );
        let lrzip = Contender::named("lrzip-l").unwrap();
        assert_eq!(
            lrzip.command_line("lrzip", lrzip.compress, 7),
            "lrzip -q -l -L 7 -o OUTPUT INPUT"
        );
    }
}
