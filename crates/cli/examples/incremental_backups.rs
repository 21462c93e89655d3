//! What incremental backups take beside full ones: loads a workload's data on a throw-away server,
//! takes a full backup, runs transactions, and takes an incremental and another full backup. With
//! `--backups N` it runs transactions before each of N incremental backups.
//!
//! ```text
//! cargo run --release -p walzip --example incremental_backups -- \
//!     [--workload shop] [--scale 10] [--transactions 20000] [--backups 1] [--level 1] \
//!     [--pg-bin DIR] [--set PARAMETER=VALUE] [--keep DIR] [WALZIP]
//! ```
//!
//! WALZIP is the program, by default the one beside the example's own directory. Of each backup the
//! bytes that it stores are printed, and the seconds that it and a restore of it took; all of them are
//! verified at the end. With `--keep`, copies of the data directory before and after the transactions are left in a
//! directory, for a look at single files.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use walzip_bench::Cancel;
use walzip_bench::server::{Installation, Server, Settings};
use walzip_bench::workload::{Transactions, Workload};

/// What the data and the transactions follow from.
const SEED: u64 = 1;
const CLIENTS: u32 = 4;

/// What is asked for.
struct Request {
    workload: Workload,
    scale: u32,
    transactions: u64,
    backups: u64,
    level: u32,
    pg_bin: Option<PathBuf>,
    /// A parameter of the server.
    set: Option<(String, String)>,
    keep: Option<PathBuf>,
    walzip: PathBuf,
}

fn main() -> ExitCode {
    match request().and_then(|request| run(&request)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("incremental_backups: {error}");
            ExitCode::FAILURE
        }
    }
}

fn request() -> Result<Request, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let built = program.parent().and_then(Path::parent);
    let mut request = Request {
        workload: Workload::Shop,
        scale: 10,
        transactions: 20_000,
        backups: 1,
        level: 1,
        pg_bin: None,
        set: None,
        keep: None,
        walzip: built.unwrap_or(Path::new("")).join("walzip"),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if !argument.starts_with('-') {
            request.walzip = argument.into();
            continue;
        }
        let value = arguments.next().ok_or("a value is missing")?;
        match argument.as_str() {
            "--workload" => request.workload = value.parse()?,
            "--scale" => request.scale = value.parse()?,
            "--transactions" => request.transactions = value.parse()?,
            "--backups" => request.backups = value.parse()?,
            "--level" => request.level = value.parse()?,
            "--set" => {
                let (parameter, value) = value.split_once('=').ok_or("--set has no value")?;
                request.set = Some((parameter.to_owned(), value.to_owned()));
            }
            "--pg-bin" => request.pg_bin = Some(value.into()),
            "--keep" => request.keep = Some(value.into()),
            other => return Err(format!("{other} is no option").into()),
        }
    }
    Ok(request)
}

/// A server, and a repository beside it.
struct Experiment<'r> {
    request: &'r Request,
    server: Server,
    walzip: PathBuf,
    repository: PathBuf,
}

fn run(request: &Request) -> Result<(), Box<dyn Error>> {
    let place = tempfile::Builder::new().prefix("walzip-incr-").tempdir()?;
    let (walzip, repository) = (place.path().join("walzip"), place.path().join("repository"));
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
    fs::copy(&request.walzip, &walzip)?;
    fs::create_dir(&repository)?;
    let search_path: OsString = std::env::var_os("PATH").unwrap_or_default();
    let installation = Installation::find(
        request.pg_bin.as_deref(),
        &search_path,
        &std::env::temp_dir(),
        &Cancel::on_signals()?,
    )?;
    let push = format!(
        "\"{}\" archive-push --repo \"{}\" %p",
        walzip.display(),
        repository.display()
    );
    let settings = Settings::volatile()
        .set("wal_level", "replica")
        .set("max_wal_senders", 4)
        .set("archive_mode", "on")
        .set("archive_command", push);
    let settings = match request.set.clone() {
        Some((parameter, value)) => settings.set(&parameter, value),
        None => settings,
    };
    let server = installation.start(&settings)?;
    let owner = fs::metadata(server.data())?;
    chown(&repository, Some(owner.uid()), Some(owner.gid()))?;
    let experiment = Experiment {
        request,
        server,
        walzip,
        repository,
    };
    experiment.run()
}

impl Experiment<'_> {
    fn run(&self) -> Result<(), Box<dyn Error>> {
        let (request, mut labels) = (self.request, Vec::new());
        let data = self.server.data();
        self.walzip(&["init", "-D", &data.to_string_lossy()])?;
        request.workload.load(&self.server, request.scale, SEED)?;
        self.server.sql("CHECKPOINT")?;
        self.keep("before")?;
        let [full, of] = self.backup("full", &mut labels)?;
        let mut incremental = 0;
        for number in 0..request.backups {
            let how = Transactions {
                scale: request.scale,
                count: request.transactions,
                clients: CLIENTS,
                seed: SEED + number,
            };
            request.workload.run(&self.server, &how)?;
            self.server.sql("CHECKPOINT")?;
            if number == 0 {
                self.keep("after")?;
            }
            [incremental, _] = self.backup("incr", &mut labels)?;
        }
        self.backup("full", &mut labels)?;
        for label in &labels {
            self.restore(label)?;
        }
        self.walzip(&["verify"])?;
        println!(
            "{} scale {}, {} bytes; {} times {} transactions, the last backup: {:.3} of the full one",
            request.workload,
            request.scale,
            of,
            request.backups,
            request.transactions,
            incremental as f64 / full as f64
        );
        Ok(())
    }

    /// Takes a backup; returns the bytes that it stored, and those of the files.
    fn backup(&self, kind: &str, labels: &mut Vec<String>) -> Result<[u64; 2], Box<dyn Error>> {
        let level = format!("-{}", self.request.level);
        let begin = Instant::now();
        let said = self.walzip(&["-v", "backup", "--type", kind, &level])?;
        let seconds = begin.elapsed().as_secs_f64();
        print!("{kind:5} {seconds:6.2} s  {said}");
        let words: Vec<&str> = said.split_whitespace().collect();
        let label = words.get(1).ok_or("walzip named no label")?;
        labels.push(label.trim_end_matches(':').to_owned());
        let before = |word: &str| {
            let at = words.iter().position(|&found| found == word)?;
            words.get(at.checked_sub(1)?)?.parse().ok()
        };
        let after = || {
            let at = words.iter().position(|&found| found == "in")?;
            words.get(at + 1)?.trim_end_matches(',').parse().ok()
        };
        match (after(), before("bytes")) {
            (Some(stored), Some(original)) => Ok([stored, original]),
            _ => Err(format!("walzip said: {said}").into()),
        }
    }

    fn restore(&self, label: &str) -> Result<(), Box<dyn Error>> {
        let data = self.server.host().join("restored");
        let begin = Instant::now();
        self.walzip(&["restore", "--backup", label, "-D", &data.to_string_lossy()])?;
        println!("restore {label}: {:.2} s", begin.elapsed().as_secs_f64());
        fs::remove_dir_all(data)?;
        Ok(())
    }

    /// Runs walzip as the server's user.
    fn walzip(&self, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
        let owner = fs::metadata(self.server.data())?;
        let mut command = Command::new(&self.walzip);
        command
            .args(arguments)
            .current_dir(self.server.host())
            .env("WALZIP_CONFIG", "/dev/null")
            .env("WALZIP_REPO", &self.repository)
            .env("WALZIP_HOST", self.server.host())
            .env("WALZIP_PORT", walzip_bench::server::PORT)
            .env("WALZIP_USER", walzip_bench::server::USER)
            .uid(owner.uid())
            .gid(owner.gid());
        let output = command.output()?;
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout)?),
            false => Err(format!("walzip {}: {}", arguments.join(" "), output.status).into()),
        }
    }

    /// Copies the data directory, where that is wanted.
    fn keep(&self, name: &str) -> Result<(), Box<dyn Error>> {
        let Some(directory) = &self.request.keep else {
            return Ok(());
        };
        fs::create_dir_all(directory)?;
        let copied = Command::new("cp")
            .arg("-a")
            .arg(self.server.data())
            .arg(directory.join(name))
            .status()?;
        match copied.success() {
            true => Ok(()),
            false => Err("the data directory could not be copied".into()),
        }
    }
}
