//! The configuration of a restored cluster, as its server will read it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::shell;

/// Configuration files include others to this depth, as PostgreSQL has it.
const INCLUDES_MAX: usize = 10;
/// No more files are read, and of each no more.
const FILES_MAX: usize = 256;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The settings of configuration files: the last of each name counts.
#[derive(Debug, Default)]
pub struct Settings {
    values: HashMap<String, String>,
    files: usize,
}

impl Settings {
    /// What a directory's configuration says; nothing where it has none. Debian's layout has the
    /// file in /etc.
    pub fn of(directory: &Path, major: u32) -> Option<Settings> {
        let elsewhere = format!("/etc/postgresql/{major}/main/postgresql.conf");
        let own = directory.join("postgresql.conf");
        let mut found = Settings::default();
        found
            .read(&own, 0)
            .or_else(|_| found.read(Path::new(&elsewhere), 0))
            .ok()?;
        // Every cluster may do without the second file.
        let _ = found.read(&directory.join("postgresql.auto.conf"), 0);
        Some(found)
    }

    /// The value of a setting, where one is given. Names are in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Reads a file and what it includes.
    fn read(&mut self, path: &Path, depth: usize) -> io::Result<()> {
        self.files += 1;
        if self.files > FILES_MAX || !fs::metadata(path)?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut content = Vec::new();
        File::open(path)?
            .take(FILE_BYTES_MAX)
            .read_to_end(&mut content)?;
        let text = String::from_utf8_lossy(&content);
        let beside = path.parent().unwrap_or(Path::new("."));
        for line in text.lines() {
            let Some((name, value)) = setting(line) else {
                continue;
            };
            match name.as_str() {
                "include" | "include_if_exists" | "include_dir" if depth < INCLUDES_MAX => {
                    for path in included(&name, &beside.join(value)) {
                        // A server would complain about it; here the rest still says something.
                        let _ = self.read(&path, depth + 1);
                    }
                }
                _ => {
                    self.values.insert(name, value);
                }
            }
        }
        Ok(())
    }

    /// A file in the restored cluster may say that its data are elsewhere: in the original.
    pub fn warn_of_other_data(&self, directory: &Path) {
        let Some(named) = self.get("data_directory").filter(|named| !named.is_empty()) else {
            return;
        };
        let real = |path: &Path| path.canonicalize().ok();
        let is_own = real(Path::new(named)).is_some_and(|named| Some(named) == real(directory));
        if directory.join("postgresql.conf").exists() && !is_own {
            let own = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
            let own = shell::word(&own.to_string_lossy());
            tracing::warn!(
                "its configuration has data_directory = {named:?}: the server uses that directory, and not this one. \
                 Remove the line, or start it with: pg_ctl -D {own} -o \"-c data_directory={own}\" start"
            );
        }
    }

    /// A restored cluster has the original's standbys by name, and none of them follows it: what commits
    /// there, waits.
    pub fn warn_of_waiting_commits(&self) {
        let names = self.get("synchronous_standby_names").unwrap_or_default();
        if !names.trim().is_empty() {
            tracing::warn!(
                "synchronous_standby_names is {names:?}: once it is promoted, commits wait for these. Until they \
                 follow it: ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf()"
            );
        }
    }
}

/// The files that a line includes: of a directory, those that PostgreSQL takes, in its order.
fn included(name: &str, path: &Path) -> Vec<PathBuf> {
    if name != "include_dir" {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".conf") && !name.starts_with('.')
        })
        .collect();
    paths.sort();
    paths
}

/// A line's name, in lower case, and its value, without quotes (guc-file.l).
fn setting(line: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
    let end = line.find(|c| !is_name(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    let value = match rest.strip_prefix('\'') {
        None => {
            let end = rest.find(|c: char| c.is_whitespace() || c == '#');
            rest[..end.unwrap_or(rest.len())].to_owned()
        }
        Some(rest) => {
            let mut value = String::new();
            let mut letters = rest.chars().peekable();
            loop {
                match letters.next()? {
                    '\'' if letters.peek() == Some(&'\'') => value.extend(letters.next()),
                    '\'' => break,
                    '\\' => value.extend(letters.next()),
                    letter => value.push(letter),
                }
            }
            value
        }
    };
    (!name.is_empty()).then(|| (name.to_ascii_lowercase(), value))
}
