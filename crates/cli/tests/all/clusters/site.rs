//! A temporary directory in which servers of one major run, archived into one repository.
//!
//! Servers refuse to run as root. Started by root, everything that belongs to a site (the
//! servers, their clients and the program under test) runs as another user, from a copy of
//! the program, since the build's own directory may be closed to that user.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

/// A directory, the programs of one major, the program under test, and a repository.
pub struct Site {
    directory: TempDir,
    programs: PathBuf,
    account: Option<Account>,
    pub major: u32,
}

/// Whom a root process runs everything as.
#[derive(Clone, Copy)]
struct Account {
    uid: u32,
    gid: u32,
}

impl Site {
    /// A site for a major, or nothing (said loudly, an error in CI) when it is not here.
    pub fn new(major: u32) -> Option<Site> {
        let Some(programs) = programs_of(major) else {
            walzip_testing::not_run(&format!(
                "PostgreSQL {major} is not here; run scripts/fetch-postgres"
            ));
            return None;
        };
        // scripts/test knows a place where files are made faster.
        let place = env::var_os("WALZIP_TEST_CLUSTERS").map_or_else(env::temp_dir, PathBuf::from);
        let directory = tempfile::Builder::new()
            .prefix("walzip-")
            .tempdir_in(place)
            .expect("a directory");
        let account = is_root().then(unprivileged_account);
        let site = Site {
            directory,
            programs,
            account,
            major,
        };
        site.hand_over(site.directory.path());
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(site.directory.path(), mode).expect("open the directory");
        // By a process of its own: one that another test starts would inherit a file that is open for writing, and
        // keep it from being run ("Text file busy").
        let mut copy = Command::new("cp");
        succeed(
            copy.arg(env!("CARGO_BIN_EXE_walzip"))
                .arg(site.program_under_test()),
        );
        Some(site)
    }

    /// A site for the first of these majors, where servers of the others can run as well.
    pub fn of_majors(majors: [u32; 2]) -> Option<Site> {
        let [own, other] = majors;
        let Some(_) = programs_of(other) else {
            walzip_testing::not_run(&format!(
                "PostgreSQL {other} is not here; run scripts/fetch-postgres"
            ));
            return None;
        };
        Site::new(own)
    }

    /// A path inside the site.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Creates a directory that belongs to whom the site runs everything as.
    pub fn create_directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a new directory");
        self.hand_over(&path);
        path
    }

    /// Gives a file or directory to whom the site runs everything as.
    pub fn hand_over(&self, path: &Path) {
        if let Some(Account { uid, gid }) = self.account {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).expect("change the owner");
        }
    }

    /// Where the site's repository is.
    pub fn repository(&self) -> PathBuf {
        self.path("repository")
    }

    /// The copy of walzip that the site runs.
    pub fn program_under_test(&self) -> PathBuf {
        self.path("walzip")
    }

    /// A program of this major, or the same client of another one when this build lacks it.
    pub fn program(&self, name: &str) -> PathBuf {
        let own = self.programs.join(name);
        if own.exists() {
            return own;
        }
        program_of(15, name)
    }

    /// A command run as the site's user, with nothing of the tester's environment.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().current_dir(self.directory.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("HOME", self.directory.path())
            .env("LC_ALL", "C")
            .env("TZ", "UTC");
        if let Some(Account { uid, gid }) = self.account {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// A walzip command on the site's repository.
    pub fn walzip(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(self.program_under_test());
        command
            .env("WALZIP_REPO", self.repository())
            .args(arguments);
        command
    }
}

/// Runs a command that has to succeed, and returns its standard output.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed: {}",
        said(&output)
    );
    String::from_utf8(output.stdout).expect("output is text")
}

/// Everything a finished command said, for messages.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self")
        .expect("the proc file system")
        .uid()
        == 0
}

fn unprivileged_account() -> Account {
    let passwd = fs::read_to_string("/etc/passwd").expect("the list of users");
    let find = |name: &str| {
        let line = passwd
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
        Some(Account {
            uid: fields.next()??,
            gid: fields.next()??,
        })
    };
    find("postgres")
        .or_else(|| find("nobody"))
        .expect("a user called postgres or nobody")
}

/// A program of a major that is here.
pub fn program_of(major: u32, name: &str) -> PathBuf {
    let programs = programs_of(major);
    let programs = programs.unwrap_or_else(|| panic!("no {name} without PostgreSQL {major}"));
    programs.join(name)
}

/// The script that fetches the servers is the only one to know where they are.
fn programs_of(major: u32) -> Option<PathBuf> {
    static FOUND: OnceLock<Vec<(u32, PathBuf)>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let majors = majors_with_servers().into_iter();
        majors.filter_map(|m| Some((m, fetched(m)?))).collect()
    });
    found
        .iter()
        .find(|(found, _)| *found == major)
        .map(|(_, path)| path.clone())
}

/// The majors whose servers `scripts/fetch-postgres` can fetch.
pub fn majors_with_servers() -> Vec<u32> {
    let output = fetch_postgres(&["--majors"]);
    let majors = output.expect("the script runs");
    let majors = majors.split_whitespace();
    majors
        .map(|major| major.parse().expect("a major"))
        .collect()
}

fn fetched(major: u32) -> Option<PathBuf> {
    let path = fetch_postgres(&["--path", &major.to_string()])?;
    Some(PathBuf::from(path.trim_end()))
}

/// What the script prints, if it succeeds.
fn fetch_postgres(arguments: &[&str]) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-postgres");
    let output = Command::new(script).args(arguments).output().ok()?;
    let printed = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(printed)
}
