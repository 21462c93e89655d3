//! Where the programs of PostgreSQL are.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::Settings;
use crate::cancel::Cancel;
use crate::contender::find_program;
use crate::error::Error;
use crate::process::Surroundings;
use crate::provenance::Program;
use crate::scratch::Scratch;

/// What a server cannot do without.
const SERVER_PROGRAMS: [&str; 2] = ["initdb", "postgres"];
const SERVER_PACKAGE: &str = "postgresql; Fedora: postgresql-server";
const CLIENT_PACKAGE: &str = "postgresql-client; Fedora: postgresql";
/// Every `wal_compression` that there is.
const WAL_COMPRESSIONS: [&str; 4] = ["off", "pglz", "lz4", "zstd"];
const CONTRIB_PACKAGE: &str = "postgresql-contrib";

/// Where distributions put a major's programs: a directory for each major between these.
const PLACES: &[(&str, &str, &str)] = &[
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
];

/// The programs of one PostgreSQL, and where servers of it are made.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The major version.
    pub major: u32,
    /// The server program: version and hash.
    pub program: Program,
    bin: PathBuf,
    pub(super) search_path: OsString,
    pub(super) temp_dir: PathBuf,
    pub(super) cancel: Cancel,
}

impl Installation {
    /// The programs in `bin`, or else the newest that a distribution has installed.
    ///
    /// Programs beside PostgreSQL's are looked for in `search_path`; servers are made in
    /// `temp_dir`, and end when `cancel` is requested.
    pub fn find(
        bin: Option<&Path>,
        search_path: &OsStr,
        temp_dir: &Path,
        cancel: &Cancel,
    ) -> Result<Installation, Error> {
        let bin = match bin {
            Some(bin) => bin.to_owned(),
            None => installed(search_path).ok_or(Error::Missing {
                program: "initdb",
                package: SERVER_PACKAGE,
                purpose: "a throw-away server is measured on",
            })?,
        };
        if let Some(absent) = SERVER_PROGRAMS
            .iter()
            .find(|name| !is_program(&bin.join(name)))
        {
            return Err(Error::Usage(format!(
                "{} has no {absent}: name the directory of PostgreSQL's server programs \
                 (package {SERVER_PACKAGE})",
                bin.display()
            )));
        }
        let scratch = Scratch::new_in(temp_dir, "walzip-bench-")?;
        let surroundings = Surroundings {
            launcher: None,
            search_path,
            temp_dir: scratch.path(),
            cancel,
        };
        let program = Program::identify(
            &bin.join("postgres"),
            "postgresql",
            &["--version"],
            surroundings,
        );
        if cancel.is_requested() {
            return Err(Error::Interrupted);
        }
        let major = major(&program.version).ok_or_else(|| {
            Error::Usage(format!(
                "{}/postgres does not run: it should say its version and says \"{}\"",
                bin.display(),
                program.version
            ))
        })?;
        Ok(Installation {
            major,
            program,
            bin,
            search_path: search_path.to_owned(),
            temp_dir: temp_dir.to_owned(),
            cancel: cancel.clone(),
        })
    }

    /// A program of this installation; a client that it lacks may come from anywhere else.
    pub fn program(&self, name: &'static str) -> Result<PathBuf, Error> {
        self.path_of(name).ok_or(Error::Missing {
            program: name,
            package: match name {
                "pgbench" => CONTRIB_PACKAGE,
                _ => CLIENT_PACKAGE,
            },
            purpose: "it talks to the throw-away server",
        })
    }

    /// A program that a manifest names.
    pub(super) fn program_of_manifest(&self, name: &str) -> Result<PathBuf, Error> {
        let missing = || {
            Error::Usage(format!(
                "{name} is not installed, and the manifest needs it"
            ))
        };
        self.path_of(name).ok_or_else(missing)
    }

    fn path_of(&self, name: &str) -> Option<PathBuf> {
        let own = self.bin.join(name);
        if is_program(&own) {
            return Some(own);
        }
        find_program(name, &self.search_path).or_else(|| {
            let mut program_directories = program_directories();
            program_directories.reverse();
            let programs = program_directories
                .into_iter()
                .map(|(_, bin)| bin.join(name));
            programs.into_iter().find(|path| is_program(path))
        })
    }

    /// What the server calls a `wal_compression`: before 15 there was only one, without a name.
    pub fn wal_compression<'a>(&self, method: &'a str) -> &'a str {
        match method {
            "pglz" if self.major < 15 => "on",
            method => method,
        }
    }

    /// Every `wal_compression` that the server was built with, which only a server tells.
    pub fn wal_compressions(&self) -> Result<Vec<String>, Error> {
        if self.major < 15 {
            return Ok(vec!["off".to_owned(), "pglz".to_owned()]);
        }
        let server = self.start(&Settings::volatile())?;
        let known = server
            .sql("SELECT unnest(enumvals) FROM pg_settings WHERE name = 'wal_compression'")?;
        let known: Vec<&str> = known.lines().collect();
        Ok(WAL_COMPRESSIONS
            .iter()
            .filter(|method| known.contains(method))
            .map(ToString::to_string)
            .collect())
    }

    /// The methods that were asked for, which the server must have; or all that it has, and
    /// which it lacks, in words.
    pub(crate) fn choose_wal_compressions(
        &self,
        wanted: &[String],
    ) -> Result<(Vec<String>, Vec<String>), Error> {
        let known = self.wal_compressions()?;
        if wanted.is_empty() {
            let lacking = WAL_COMPRESSIONS
                .iter()
                .filter(|method| !known.iter().any(|known| known == *method));
            let why = match self.major < 15 {
                true => "the server is older than it",
                false => "the server was built without it",
            };
            let left_out = lacking.map(|method| format!("{method} is left out: {why}"));
            let left_out = left_out.collect();
            return Ok((known, left_out));
        }
        match wanted.iter().find(|method| !known.contains(method)) {
            None => Ok((wanted.to_vec(), Vec::new())),
            Some(method) => Err(Error::Usage(format!(
                "{} has no wal_compression {method}: it has {}",
                self.program.version,
                known.join(", ")
            ))),
        }
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// The newest complete installation.
fn installed(search_path: &OsStr) -> Option<PathBuf> {
    let is_complete = |bin: &PathBuf| {
        SERVER_PROGRAMS
            .iter()
            .all(|name| is_program(&bin.join(name)))
    };
    let of_distribution = program_directories()
        .into_iter()
        .map(|(_, bin)| bin)
        .rfind(is_complete);
    of_distribution.or_else(|| {
        // A link in the search path leads to where the other programs are.
        let beside = |name| {
            let program = find_program(name, search_path)?.canonicalize().ok()?;
            Some(program.parent()?.to_owned())
        };
        ["postgres", "initdb", "pg_config"]
            .into_iter()
            .filter_map(beside)
            .find(is_complete)
    })
}

/// Each major's directory of programs, the oldest first.
fn program_directories() -> Vec<(u32, PathBuf)> {
    let mut found = Vec::new();
    for (directory, prefix, bin) in PLACES {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let major = name
                .to_str()
                .and_then(|name| name.strip_prefix(prefix)?.parse().ok());
            if let Some(major) = major {
                found.push((major, entry.path().join(bin)));
            }
        }
    }
    found.sort();
    found
}

/// The major of `postgres (PostgreSQL) 15.18 (Debian ...)`, also of a beta's.
fn major(version: &str) -> Option<u32> {
    let (_, number) = version.split_once("(PostgreSQL) ")?;
    let digits = number.find(|c: char| !c.is_ascii_digit());
    number[..digits.unwrap_or(number.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn the_major_is_read_from_releases_and_betas() {
        assert_eq!(
            major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"),
            Some(15)
        );
        assert_eq!(major("postgres (PostgreSQL) 19beta1"), Some(19));
        assert_eq!(major("unknown"), None);
    }

    #[test]
    fn a_directory_without_a_server_is_refused_with_the_package() {
        let empty = TempDir::new().unwrap();
        let error = Installation::find(
            Some(empty.path()),
            OsStr::new(""),
            empty.path(),
            &Cancel::default(),
        );
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("has no initdb") && error.contains("package postgresql"),
            "{error}"
        );
    }
}
