//! Where archives are made: a temporary directory, one of the user's, one on a host of the user's
//! that is reached by SSH, or a store.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;

use super::sshd::{CLIENT_CONFIG, CLIENT_PACKAGE};
use super::stores;
use crate::cancel::Cancel;
use crate::contender::find_program;
use crate::error::Error;
use crate::process::{self, Failure, Surroundings};

/// Where the user wants archives to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// In a directory of this machine, such as a mounted one.
    Directory(PathBuf),
    /// In a store that walzip keeps repositories in, by its URL.
    Store(String),
    /// In a directory of another host.
    Host {
        /// As ssh takes it: with a user, or without one.
        host: String,
        /// The directory there.
        path: String,
    },
}

impl FromStr for Target {
    type Err = String;

    /// A URL is a store's. As scp tells the others apart: by a colon before any slash.
    fn from_str(text: &str) -> Result<Target, String> {
        if stores::scheme(text).is_some() {
            return Ok(Target::Store(text.to_owned()));
        }
        let Some((host, path)) = text.split_once(':').filter(|(host, _)| !host.contains('/'))
        else {
            return Ok(Target::Directory(PathBuf::from(text)));
        };
        if host.is_empty() || host.starts_with('-') || host.contains(char::is_whitespace) {
            return Err(format!("\"{host}\" is no host: it is user@host:/path"));
        }
        if !path.starts_with('/') {
            return Err("the directory on a host begins with a slash: user@host:/path".to_owned());
        }
        Ok(Target::Host {
            host: host.to_owned(),
            path: path.to_owned(),
        })
    }
}

impl Target {
    /// Tells this target from others without naming it.
    pub(super) fn mark(&self) -> Option<String> {
        let name = match self {
            Target::Directory(_) => return None,
            Target::Store(url) => url.clone(),
            Target::Host { host, path } => format!("{host}:{path}"),
        };
        let hash = blake3::hash(name.as_bytes());
        Some(hash.to_hex().chars().take(16).collect())
    }

    /// The kind of store, where it is one.
    pub(super) fn store(&self) -> Option<&'static str> {
        match self {
            Target::Store(url) => stores::scheme(url),
            Target::Directory(_) | Target::Host { .. } => None,
        }
    }
}

/// The names of the directories that are made: this, and random letters and digits.
const MADE: &str = "walzip-bench-";
const RANDOM_LEN: usize = 8;

/// Whether a path is one that mktemp makes in this directory.
fn is_made_for(path: &str, parent: &str) -> bool {
    let random = path
        .strip_prefix(parent)
        .and_then(|rest| rest.strip_prefix('/'));
    random
        .and_then(|name| name.strip_prefix(MADE))
        .is_some_and(|random| {
            random.len() == RANDOM_LEN && random.chars().all(|c| c.is_ascii_alphanumeric())
        })
}

/// A directory on another host, of this experiment alone; it goes when this value does.
pub(super) struct There<'a> {
    ssh: PathBuf,
    pub(super) host: String,
    pub(super) path: String,
    surroundings: Surroundings<'a>,
}

impl<'a> There<'a> {
    /// Makes the directory. The client's configuration is this user's, unless another is named,
    /// but that it never asks for anything.
    pub(super) fn make(
        (host, path): (&str, &str),
        configuration: Option<&Path>,
        surroundings: Surroundings<'a>,
    ) -> Result<There<'a>, Error> {
        let ssh = find_program("ssh", surroundings.search_path).ok_or(Error::Missing {
            program: "ssh",
            package: CLIENT_PACKAGE,
            purpose: "the target is reached",
        })?;
        let file = surroundings.temp_dir.join(CLIENT_CONFIG);
        let included = match configuration {
            None => "~/.ssh/config\nInclude /etc/ssh/ssh_config".to_owned(),
            Some(path) => {
                let path = path
                    .canonicalize()
                    .map_err(|source| Error::file(path, source))?;
                format!("\"{}\"", path.display())
            }
        };
        let text = format!("Host *\nBatchMode yes\nConnectTimeout 20\nInclude {included}\n");
        fs::write(&file, text).map_err(|source| Error::file(&file, source))?;
        let mut there = There {
            ssh,
            host: host.to_owned(),
            path: String::new(),
            surroundings,
        };
        let parent = path.trim_end_matches('/');
        let template = format!("{parent}/{MADE}{}", "X".repeat(RANDOM_LEN));
        let made = there.run(&format!("mktemp -d {}", quoted(&template)));
        let made = made.map_err(|failure| {
            Error::Usage(format!("nothing can be archived at the target: {failure}"))
        })?;
        let made = made.trim_end();
        // It is removed at the end: what a login prints beside it must not be taken for its name.
        if !is_made_for(made, parent) {
            return Err(Error::Usage(
                "nothing can be archived at the target: it prints something else than the name \
                 of the directory that was made"
                    .to_owned(),
            ));
        }
        there.path = made.to_owned();
        Ok(there)
    }

    /// Words of a program without the names of the host and of its directory.
    pub(super) fn unnamed(&self, words: &str) -> String {
        let words = words.replace(&format!("{}/", self.path), "");
        let name = self.host.rsplit('@').next().unwrap_or(&self.host);
        words.replace(&self.host, "HOST").replace(name, "HOST")
    }

    /// Runs a line of shell there, and returns what it printed.
    pub(super) fn run(&self, line: &str) -> Result<String, Failure> {
        let said = self.surroundings.temp_dir.join("said");
        self.run_into(line, &said)?;
        Ok(fs::read_to_string(&said)?)
    }

    fn run_into(&self, line: &str, output: &Path) -> Result<(), Failure> {
        let mut ssh = process::command(&self.ssh, self.surroundings);
        ssh.args(["-F", CLIENT_CONFIG, "--", &self.host, line])
            .current_dir(self.surroundings.temp_dir)
            .stdout(Stdio::from(File::create(output)?));
        process::measure(ssh, self.surroundings)?;
        Ok(())
    }

    /// Makes directories, and waits until everything that was written there is on its disk.
    pub(super) fn prepare(&self, directories: &[String]) -> Result<(), Failure> {
        let all: Vec<String> = directories.iter().map(|path| quoted(path)).collect();
        self.run(&format!("mkdir -p {} && sync", all.join(" ")))?;
        Ok(())
    }

    /// Gets a file back.
    pub(super) fn get(&self, path: &str, to: &Path) -> Result<(), Failure> {
        self.run_into(&format!("cat {}", quoted(path)), to)
    }

    /// Removes a directory.
    pub(super) fn remove(&self, path: &str) -> Result<(), Failure> {
        self.run(&format!("rm -rf {}", quoted(path))).map(|_| ())
    }
}

impl Drop for There<'_> {
    fn drop(&mut self) {
        if self.path.is_empty() {
            return;
        }
        // After an interrupt too.
        let cancel = Cancel::default();
        let goes = There {
            ssh: self.ssh.clone(),
            host: self.host.clone(),
            path: String::new(),
            surroundings: Surroundings {
                cancel: &cancel,
                ..self.surroundings
            },
        };
        // Who cannot be reached any more keeps it.
        let _removed = goes.remove(&self.path);
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The hash and the size of a file there, which is fetched and removed here again.
pub(super) fn read_back(
    there: &There<'_>,
    path: &str,
    to: &Path,
) -> Result<(blake3::Hash, u64), Failure> {
    there.get(path, to)?;
    let (hash, bytes) = (crate::input::hash(to)?, fs::metadata(to)?.len());
    fs::remove_file(to)?;
    Ok((hash, bytes))
}

#[cfg(test)]
mod tests {
    use super::super::methods::Method;
    use super::super::sets::Content;
    use super::super::sshd::{self, HOST, Sshd};
    use super::super::{Options, run};
    use super::*;
    use crate::progress::Silent;

    #[test]
    fn a_host_is_told_from_a_directory_as_scp_does() {
        let read = |text: &str| text.parse::<Target>();
        let directory = |path: &str| Ok(Target::Directory(PathBuf::from(path)));
        assert_eq!(read("/mnt/a"), directory("/mnt/a"));
        assert_eq!(read("./a:b"), directory("./a:b"));
        assert_eq!(read("s3://b/a").unwrap().store(), Some("s3"));
        let host = Target::Host {
            host: "me@box".to_owned(),
            path: "/srv/a b".to_owned(),
        };
        assert_eq!(read("me@box:/srv/a b"), Ok(host.clone()));
        assert_eq!(host.mark().unwrap().len(), 16);
        for wrong in [":/a", "-oProxyCommand=x:/a", "me@box:a", "a b:/c"] {
            read(wrong).unwrap_err();
        }
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }

    #[test]
    fn what_a_login_prints_is_not_a_directory_to_remove() {
        assert!(is_made_for("/srv/walzip-bench-aB3dE6gH", "/srv"));
        for printed in [
            "Welcome!\n/srv/walzip-bench-aB3dE6gH",
            "/srv/walzip-bench-aB3dE6gH\nlast login: now",
            "/srv/walzip-bench-../../home",
            "/srv/walzip-bench-",
            "/srv",
            "",
        ] {
            assert!(!is_made_for(printed, "/srv"), "{printed}");
        }
    }

    /// What a run at a host of one's own needs: the test's own server, and a directory there.
    fn at_a_host(test: impl FnOnce(Options, &Path)) {
        let directory = tempfile::TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["server", "tmp", "archive of mine"] {
            fs::create_dir(path(name)).unwrap();
        }
        let search_path = std::env::var_os("PATH").unwrap();
        let cancel = Cancel::default();
        let server = path("server");
        let surroundings = Surroundings {
            launcher: None,
            search_path: &search_path,
            temp_dir: &server,
            cancel: &cancel,
        };
        let absent = ["ssh", "scp", "rsync"].map(|name| find_program(name, &search_path).is_none());
        let program = sshd::program(surroundings);
        let (Some(program), false) = (program, absent.contains(&true)) else {
            return walzip_testing::not_run("ssh, sshd, scp or rsync is not installed");
        };
        let _running = Sshd::start(&program, surroundings).unwrap();
        let mut options = Options::new(
            PathBuf::new(),
            |_, _, _| Ok(()),
            search_path.clone(),
            path("tmp"),
        );
        options.methods = ["cp", "scp", "rsync"]
            .iter()
            .filter_map(|name| Method::named(name))
            .collect();
        options.contents = vec![Content::Zeros];
        options.sizes_megabytes = vec![1, 2];
        options.total_megabytes = Some(2);
        options.runs = Some(1);
        options.warm = true;
        options.ssh_config = Some(server.join(CLIENT_CONFIG));
        options.target = Some(Target::Host {
            host: HOST.to_owned(),
            path: path("archive of mine").display().to_string(),
        });
        test(options, directory.path());
        let left = |name: &str| fs::read_dir(path(name)).unwrap().count();
        assert_eq!(
            (left("archive of mine"), left("tmp")),
            (0, 0),
            "something was left"
        );
    }

    #[test]
    fn scp_and_rsync_archive_at_a_host_of_ones_own_and_leave_nothing_there() {
        at_a_host(|mut options, directory| {
            options.files.json = Some(directory.join("r.json"));
            let results = run(&options, &mut Silent).unwrap();
            assert!(results.failed.is_empty(), "{:?}", results.failed);
            assert_eq!((results.rows.len(), results.measurements.len()), (2, 4));
            assert!(
                results
                    .measurements
                    .iter()
                    .all(|run| run.stored_bytes == 2 << 20)
            );
            let text = results.to_string();
            assert!(
                text.contains("cp is left out: it does not reach another host"),
                "{text}"
            );
            assert!(
                text.contains("archives: at a host of one's own, by SSH"),
                "{text}"
            );
            let json = fs::read_to_string(directory.join("r.json")).unwrap();
            assert!(
                !json.contains("archive of mine") && json.contains("HOST:TARGET"),
                "{json}"
            );
        });
    }

    #[test]
    fn a_host_that_changes_a_byte_gets_no_figure_and_an_absent_directory_is_told() {
        at_a_host(|mut options, directory| {
            // Another scp, which adds a byte at the end of what it sends.
            let bin = directory.join("bin");
            fs::create_dir(&bin).unwrap();
            let real = find_program("scp", &options.search_path).unwrap();
            let script = format!(
                "#!/bin/sh\ncp \"$5\" \"$5.more\" && echo >>\"$5.more\"\nexec {} -q -B -F \"$4\" \"$5.more\" \"$6\"\n",
                real.display()
            );
            fs::write(bin.join("scp"), script).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(bin.join("scp"), mode).unwrap();
            let all = options.search_path.clone();
            let mut places = vec![bin];
            places.extend(std::env::split_paths(&all));
            options.search_path = std::env::join_paths(places).unwrap();
            options.methods = vec![Method::named("scp").unwrap()];
            let results = run(&options, &mut Silent).unwrap();
            assert!(results.measurements.is_empty());
            assert!(
                results.failed[0]
                    .reason
                    .contains("did not arrive as it was")
            );
            let said = "echo \"$6: No space left on device\" >&2; exit 1";
            fs::write(directory.join("bin/scp"), format!("#!/bin/sh\n{said}\n")).unwrap();
            let stopped = run(&options, &mut Silent).unwrap().stopped.unwrap();
            assert!(stopped.contains("HOST:archive/"), "{stopped}");
            assert!(!stopped.contains("archive of mine"), "{stopped}");
            options.target = Some(format!("{HOST}:/absent/directory").parse().unwrap());
            let error = run(&options, &mut Silent).unwrap_err().to_string();
            assert!(
                error.contains("nothing can be archived at the target"),
                "{error}"
            );
        });
    }
}
