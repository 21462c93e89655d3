//! Where results go: files that appear whole, and the room that an experiment needs.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::new_file::{NewFile, NotPublished, directory};
use crate::report::with_data;

/// What must remain free in the temporary directory beside the files of a measurement.
const RESERVE_BYTES: u64 = 16 << 20;

/// The files that an experiment writes, each in any case: stopped early, it says so in them.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// For every measurement, one a line.
    pub csv: Option<PathBuf>,
    /// For everything; it is kept up to date.
    pub json: Option<PathBuf>,
    /// For a page that shows everything.
    pub report: Option<PathBuf>,
    /// Whether to go on from what `json` has.
    pub resume: bool,
    /// Whether files that exist are replaced, and measurements that an earlier run has and this
    /// one does not take over are dropped.
    pub force: bool,
    /// The command that was given, without the names of directories and hosts: pages show it.
    pub command: Option<String>,
    /// What may be replaced without asking again.
    pub ours: Ours,
}

/// Where a run's files are: those that it may replace or has written, by the name that was asked
/// for. What appears under such a name while it measures is somebody's, and stays.
#[derive(Clone, Debug, Default)]
pub struct Ours(Arc<Mutex<BTreeMap<PathBuf, PathBuf>>>);

impl Ours {
    fn paths(&self) -> MutexGuard<'_, BTreeMap<PathBuf, PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an experiment found out, in the forms that it is written in.
pub(crate) trait Record: Serialize {
    fn write_csv(&self, to: &mut dyn Write) -> io::Result<()>;
    fn report(&self) -> io::Result<String>;
    /// Where it says why there are fewer measurements than were asked for.
    fn stopped(&mut self) -> &mut Option<String>;
}

impl Files {
    /// Notices at the beginning what could not be written at the end, and what must not be: a
    /// file that exists is somebody's, unless it is of the run that is continued.
    pub fn check(&self) -> Result<(), Error> {
        let paths = self.named();
        for (index, (option, path)) in paths.iter().enumerate() {
            let same = |(_, other): &&(&str, &Path)| is_same(path, other);
            if let Some((other, _)) = paths[..index].iter().find(same) {
                return Err(Error::Usage(format!(
                    "{other} and {option} name the same file: {}",
                    path.display()
                )));
            }
            if self.may_replace(path)? {
                self.ours.paths().insert((*path).to_owned(), target(path));
            }
            beside(&target(path))?;
        }
        Ok(())
    }

    fn named(&self) -> Vec<(&'static str, &Path)> {
        let options = [
            ("--csv", &self.csv),
            ("--json", &self.json),
            ("--report", &self.report),
        ];
        let named = options.into_iter();
        named
            .filter_map(|(option, path)| Some((option, path.as_deref()?)))
            .collect()
    }

    /// Whether there is a file, which may be replaced.
    fn may_replace(&self, path: &Path) -> Result<bool, Error> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            // A link to nothing is in the way too: it would be replaced by the file.
            Err(_) if fs::symlink_metadata(path).is_ok() => {
                return Err(Error::NotAFile(path.to_owned()));
            }
            Err(_) => return Ok(false),
        };
        if !metadata.is_file() {
            return Err(Error::NotAFile(path.to_owned()));
        }
        if self.force || self.is_of_the_resumed_run(path) {
            return Ok(true);
        }
        Err(Error::Exists(path.to_owned()))
    }

    /// What an experiment writes says when it began, and so does the JSON that is gone on from.
    fn is_of_the_resumed_run(&self, path: &Path) -> bool {
        let Some(json) = self.json.as_deref().filter(|_| self.resume) else {
            return false;
        };
        if is_same(path, json) {
            return true;
        }
        let began = began(json);
        let file = fs::read_to_string(path).unwrap_or_default();
        let said = match self.csv.as_deref() == Some(path) {
            // Further down are the dates of runs that it went on from.
            true => file.lines().next().unwrap_or_default(),
            false => file.as_str(),
        };
        began.iter().any(|date| said.contains(date))
    }

    /// Writes every file; trouble with one leaves none of the others out.
    pub(crate) fn write(&self, record: &impl Record) -> Result<(), Error> {
        let json = self.put_json(record);
        let csv = self.put(self.csv.as_deref(), |to| record.write_csv(to));
        let report = self.put(self.report.as_deref(), |to| {
            let mut csv = Vec::new();
            record.write_csv(&mut csv)?;
            let csv = String::from_utf8_lossy(&csv);
            let page = with_data(&record.report()?, &csv, self.command.as_deref());
            to.write_all(page.as_bytes())
        });
        json.and(csv).and(report)
    }

    /// Writes what there is so far: even a power cut leaves it.
    pub(crate) fn save(&self, record: &mut impl Record) -> Result<(), Error> {
        *record.stopped() = Some("the experiment still ran when this was written".to_owned());
        let saved = self.put_json(record);
        *record.stopped() = None;
        saved
    }

    fn put_json(&self, record: &impl Serialize) -> Result<(), Error> {
        self.put(self.json.as_deref(), |to| {
            serde_json::to_writer_pretty(&mut *to, record)?;
            writeln!(to)
        })
    }

    /// Writes a file, if it was asked for: it appears whole and durable, and replaces only what
    /// this run may. Where another has appeared under its name, it gets a name beside that one.
    pub(crate) fn put(
        &self,
        path: Option<&Path>,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Error> {
        let Some(path) = path else { return Ok(()) };
        let asked = target(path);
        let known = self.ours.paths().get(path).cloned();
        let failed = |source| Error::file(&asked, source);
        let file = filled(known.as_deref().unwrap_or(&asked), write)?;
        let written = match known {
            Some(known) => {
                let published = file.publish(&known, true);
                published.map_err(|refused| failed(refused.error))?;
                known
            }
            None => publish_beside(file, &asked).map_err(failed)?,
        };
        self.ours.paths().insert(path.to_owned(), written.clone());
        match written.file_name() == asked.file_name() {
            true => Ok(()),
            false => Err(Error::Appeared {
                path: path.to_owned(),
                kept: written,
            }),
        }
    }
}

/// Gives a file its name, or while that is taken the next with a number.
fn publish_beside(mut file: NewFile, asked: &Path) -> io::Result<PathBuf> {
    let mut path = asked.to_owned();
    for number in 1.. {
        file = match file.publish(&path, false) {
            Ok(()) => break,
            Err(NotPublished {
                error,
                file: Some(file),
            }) if error.kind() == io::ErrorKind::AlreadyExists => file,
            Err(refused) => return Err(refused.error),
        };
        let mut name = asked.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{number}"));
        path = asked.with_file_name(name);
    }
    Ok(path)
}

/// Writes a file, which appears whole and durable.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let path = &target(path);
    let published = filled(path, write)?.publish(path, true);
    published.map_err(|refused| Error::file(path, refused.error))
}

/// A file without a name yet, in the directory of `path`.
fn filled(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<NewFile, Error> {
    let file = beside(path)?;
    let mut to = io::BufWriter::new(file.file());
    write(&mut to)
        .and_then(|()| to.flush())
        .map_err(|source| Error::file(path, source))?;
    drop(to);
    Ok(file)
}

/// The file itself, where the path is a link to it.
fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether two paths lead to one file, or would once it is there.
fn is_same(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    match (file(one), file(other)) {
        (Ok(one), Ok(other)) => one == other,
        (Err(_), Err(_)) => {
            let resolved = |path: &Path| {
                let parent = fs::canonicalize(directory(path)).ok()?;
                Some(parent.join(path.file_name()?))
            };
            one == other || resolved(one).is_some_and(|one| Some(one) == resolved(other))
        }
        _ => false,
    }
}

/// When the run of some results began, and those that it went on from.
fn began(json: &Path) -> Vec<String> {
    #[derive(Deserialize)]
    struct Dates {
        provenance: Dated,
        #[serde(default)]
        resumed: Option<OneOrMore>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMore {
        One(Dated),
        More(Vec<Dated>),
    }
    #[derive(Deserialize)]
    struct Dated {
        date: String,
    }
    let dates = fs::read(json).ok();
    let dates = dates.and_then(|json| serde_json::from_slice::<Dates>(&json).ok());
    let Some(Dates {
        provenance,
        resumed,
    }) = dates
    else {
        return Vec::new();
    };
    let resumed = match resumed {
        None => Vec::new(),
        Some(OneOrMore::One(one)) => vec![one],
        Some(OneOrMore::More(more)) => more,
    };
    let dates = std::iter::once(provenance).chain(resumed);
    dates
        .map(|dated| dated.date)
        .filter(|date| !date.is_empty())
        .collect()
}

/// A file to be, with the mode of any new file.
fn beside(path: &Path) -> Result<NewFile, Error> {
    NewFile::beside(path, 0o666).map_err(|source| Error::file(path, source))
}

/// Refuses to begin what needs more room than a directory's file system has.
pub(crate) fn check_space(directory: &Path, bytes: u64) -> Result<(), Error> {
    let free =
        rustix::fs::statvfs(directory).map_err(|errno| Error::file(directory, errno.into()))?;
    let available_bytes = free.f_bavail.saturating_mul(free.f_frsize);
    let needed_bytes = bytes.saturating_add(RESERVE_BYTES);
    if available_bytes >= needed_bytes {
        return Ok(());
    }
    Err(Error::NoSpace {
        directory: directory.to_owned(),
        available_bytes,
        needed_bytes,
    })
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn too_little_space_is_said_in_numbers() {
        let directory = TempDir::new().unwrap();
        check_space(directory.path(), 0).unwrap();
        let error = check_space(directory.path(), u64::MAX)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("bytes are free") && error.contains("are needed"),
            "{error}"
        );
    }

    fn written(directory: &TempDir, name: &str, content: &str) -> PathBuf {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    #[test]
    fn a_file_that_exists_is_replaced_only_on_request() {
        let directory = TempDir::new().unwrap();
        let path = written(&directory, "results", "precious");
        for set in [0, 1, 2] {
            let mut files = Files::default();
            *[&mut files.csv, &mut files.json, &mut files.report][set] = Some(path.clone());
            let error = files.check().unwrap_err();
            assert!(matches!(error, Error::Exists(_)), "{error}");
            files.force = true;
            files.check().unwrap();
        }
    }

    #[test]
    fn the_files_of_the_run_that_is_gone_on_with_are_no_other_runs() {
        let directory = TempDir::new().unwrap();
        let json = r#"{"provenance": {"date": "2026-01-02T03:04:05Z"},
            "resumed": [{"date": "2026-01-01T00:00:00Z", "measurements": 1}]}"#;
        let csv = "# walzip bench wal, walzip-bench 1, 2026-01-02T03:04:05Z\n";
        let files = Files {
            json: Some(written(&directory, "r.json", json)),
            csv: Some(written(&directory, "r.csv", csv)),
            report: Some(written(&directory, "r.html", "begun 2026-01-01T00:00:00Z.")),
            resume: true,
            ..Files::default()
        };
        files.check().unwrap();
        let other = "# walzip bench wal, walzip-bench 1, 2026-01-03T00:00:00Z\n\
             # resumed: 1 measurements of 2026-01-02T03:04:05Z\n";
        written(&directory, "r.csv", other);
        assert!(matches!(files.check(), Err(Error::Exists(path)) if path.ends_with("r.csv")));
        written(&directory, "r.csv", csv);
        written(&directory, "r.html", "of another day");
        assert!(matches!(files.check(), Err(Error::Exists(path)) if path.ends_with("r.html")));
    }

    #[test]
    fn a_link_leads_to_the_file_and_two_names_of_one_file_are_one() {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        let json = written(&directory, "r.json", "{}");
        std::os::unix::fs::symlink(&json, at("link")).unwrap();
        fs::hard_link(&json, at("hard")).unwrap();
        let mut files = Files {
            json: Some(at("link")),
            resume: true,
            ..Files::default()
        };
        files.check().unwrap();
        let json_file = files.json.as_deref();
        files.put(json_file, |to| to.write_all(b"new")).unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(fs::read(&json).unwrap(), b"new");
        fs::remove_file(at("hard")).unwrap();
        fs::hard_link(&json, at("hard")).unwrap();
        for other in [at("hard"), at("./r.json"), at("link")] {
            files.csv = Some(other);
            files.json = Some(json.clone());
            let error = files.check().unwrap_err().to_string();
            assert!(error.contains("name the same file"), "{error}");
        }
        files.json = Some(at("new"));
        files.csv = Some(at("./new"));
        files.resume = false;
        let error = files.check().unwrap_err().to_string();
        assert!(error.contains("--csv and --json name the same"), "{error}");
    }

    #[test]
    fn what_appears_meanwhile_is_kept_and_so_is_what_was_measured() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("r.json");
        let files = Files {
            json: Some(path.clone()),
            ..Files::default()
        };
        let put = |text: &str| files.put(Some(&path), |to| to.write_all(text.as_bytes()));
        files.check().unwrap();
        written(&directory, "r.json", "precious");
        written(&directory, "r.json.1", "precious");
        for text in ["first", "second"] {
            let error = put(text).unwrap_err().to_string();
            assert!(error.contains("r.json appeared meanwhile"), "{error}");
            assert!(error.ends_with("r.json.2"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), b"precious");
            let kept = fs::read_to_string(directory.path().join("r.json.2"));
            assert_eq!(kept.unwrap(), text);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_run_writes_its_own_files_as_often_as_it_wants() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("r.json");
        let files = Files {
            json: Some(path.clone()),
            ..Files::default()
        };
        files.check().unwrap();
        for text in ["first", "second"] {
            let put = files.put(Some(&path), |to| to.write_all(text.as_bytes()));
            put.unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn what_is_no_regular_file_is_never_replaced() {
        let directory = TempDir::new().unwrap();
        std::os::unix::fs::symlink("absent", directory.path().join("link")).unwrap();
        for path in [
            PathBuf::from("/dev/null"),
            directory.path().to_owned(),
            directory.path().join("link"),
        ] {
            let files = Files {
                csv: Some(path.clone()),
                force: true,
                ..Files::default()
            };
            let error = files.check().unwrap_err();
            assert!(matches!(error, Error::NotAFile(_)), "{}", path.display());
        }
    }
}
