//! Measures.

use std::path::Path;

use super::measure::{DROP_CACHES, Runnable, Schedule};
use super::methods::{Kind, METHODS, Method};
use super::options::Options;
use super::results::{Caches, Results, Row, Settings};
use super::sets::{Content, Set, Workshop};
use super::sshd::{self, Sshd};
use super::stores::InStore;
use super::target::{Target, There};
use crate::contender::find_program;
use crate::error::Error;
use crate::input;
use crate::input::Input;
use crate::output::check_space;
use crate::package::how_to_install;
use crate::process::{Surroundings, memory_floor};
use crate::progress::Progress;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::scratch::Scratch;
use crate::server::Installation;

/// Measures; what stops it after the first measurement is part of the results.
pub fn run(options: &Options, progress: &mut impl Progress) -> Result<Results, Error> {
    options.files.check()?;
    let scratch = Scratch::new_in(&options.temp_dir, "walzip-bench-")?;
    let surroundings = Surroundings {
        launcher: options.launcher.as_deref(),
        search_path: &options.search_path,
        temp_dir: scratch.path(),
        cancel: &options.cancel,
    };
    let results = measure_all(options, surroundings, progress)?;
    options.files.write(&results)?;
    scratch.close()?;
    Ok(results)
}

fn measure_all(
    options: &Options,
    surroundings: Surroundings<'_>,
    progress: &mut impl Progress,
) -> Result<Results, Error> {
    let provenance = Provenance::gather(memory_floor(surroundings));
    let mut left_out = Vec::new();
    let (rows, _server) = find_rows(options, surroundings, &mut left_out)?;
    let there = match &options.target {
        Some(Target::Host { host, path }) => {
            let configuration = options.ssh_config.as_deref();
            Some(There::make((host, path), configuration, surroundings)?)
        }
        _ => None,
    };
    let store = match &options.target {
        Some(Target::Store(url)) => Some(InStore::new(url, &options.stores)),
        _ => None,
    };
    for reason in &left_out {
        progress.note(reason);
    }
    let caches = caches(options);
    if let Caches::Warm(reason) = &caches {
        progress.note(&format!("files may be in memory: {reason}"));
    }
    let sets = make_sets(options, surroundings, &mut left_out, progress)?;
    let settings = Settings {
        total_bytes: options.total_bytes(),
        runs: options.runs(),
        quick: options.quick,
        caches,
        target_file_system: match &options.target {
            Some(Target::Directory(directory)) => Some(file_system(directory)?),
            _ => None,
        },
        target_host: options.target.as_ref().and_then(Target::mark),
        target_store: options
            .target
            .as_ref()
            .and_then(Target::store)
            .map(str::to_owned),
    };
    let target = match &options.target {
        Some(Target::Directory(directory)) => Some(Scratch::new_in(directory, "walzip-bench-")?),
        _ => None,
    };
    let described = rows.iter().map(|(row, _, _)| row.clone()).collect();
    let mut results = Results::new(provenance, settings, sets, described, left_out);
    if options.files.resume {
        results.resume(&options.files, progress)?;
    }
    Schedule {
        rows: &rows,
        results: &mut results,
        surroundings,
        make_repository: options.make_repository,
        target: target.as_ref().map_or(surroundings.temp_dir, Scratch::path),
        there: there.as_ref(),
        store: store.as_ref(),
        files: &options.files,
        progress,
    }
    .measure_all();
    if let Some(reason) = store.as_ref().and_then(|store| store.clear().err()) {
        // Nobody else would remove it.
        progress.note(&format!("something may be left in the store: {reason}"));
    }
    results.provenance.finish();
    results.summarise();
    Ok(results)
}

/// What takes part, and the SSH server that some of it needs.
fn find_rows(
    options: &Options,
    surroundings: Surroundings<'_>,
    left_out: &mut Vec<String>,
) -> Result<(Vec<Runnable>, Option<Sshd>), Error> {
    let asked = |method: &&Method| {
        options.methods.is_empty()
            || options
                .methods
                .iter()
                .any(|asked| asked.name == method.name)
    };
    let mut rows: Vec<Runnable> = Vec::new();
    // What reaches it, where it is not in a directory here.
    let elsewhere = match &options.target {
        Some(Target::Host { .. }) => Some((Kind::Ssh, "another host")),
        Some(Target::Store(_)) => Some((Kind::Push, "a store")),
        Some(Target::Directory(_)) | None => None,
    };
    for method in METHODS.iter().filter(asked) {
        if let Some((_, place)) = elsewhere.filter(|(reaches, _)| method.kind != *reaches) {
            let name = method.name;
            left_out.push(format!("{name} is left out: it does not reach {place}"));
            continue;
        }
        let path = match method.is_walzip() {
            true => options.walzip.is_file().then(|| options.walzip.clone()),
            false => find_program(method.program, surroundings.search_path),
        };
        match path {
            Some(path) => {
                let program = identify(method, &path, surroundings);
                rows.push((Row::new(method, program), method, path));
            }
            None => left_out.push(format!(
                "{} is left out: {} is not installed ({})",
                method.name,
                method.program,
                how_to_install(method.package)
            )),
        }
    }
    let server = match elsewhere {
        Some(_) => None,
        None => start_sshd(&mut rows, surroundings, left_out),
    };
    if rows.is_empty() {
        return Err(Error::Usage(format!(
            "no way to measure: {}",
            left_out.join("; ")
        )));
    }
    Ok((rows, server))
}

/// scp does not say its version; it comes with ssh, which does.
fn identify(method: &Method, path: &Path, surroundings: Surroundings<'_>) -> Program {
    if method.version.is_empty() {
        let ssh = find_program("ssh", surroundings.search_path);
        let of_ssh = ssh.map(|ssh| Program::identify(&ssh, method.package, &["-V"], surroundings));
        let of_itself = Program::identify(path, method.package, &["-V"], surroundings);
        return Program {
            version: of_ssh.map_or(of_itself.version, |ssh| ssh.version),
            ..of_itself
        };
    }
    Program::identify(path, method.package, method.version, surroundings)
}

/// Starts the SSH server when something needs it; without it, those methods are left out.
fn start_sshd(
    rows: &mut Vec<Runnable>,
    surroundings: Surroundings<'_>,
    left_out: &mut Vec<String>,
) -> Option<Sshd> {
    if !rows.iter().any(|(row, _, _)| row.kind == Kind::Ssh) {
        return None;
    }
    let started = match sshd::program(surroundings) {
        None => Err(format!(
            "sshd is not installed ({})",
            how_to_install(sshd::SERVER_PACKAGE)
        )),
        Some(_) if find_program("ssh", surroundings.search_path).is_none() => Err(format!(
            "ssh is not installed ({})",
            how_to_install(sshd::CLIENT_PACKAGE)
        )),
        Some(program) => Sshd::start(&program, surroundings).map_err(|error| error.to_string()),
    };
    match started {
        Ok(server) => Some(server),
        Err(reason) => {
            let mut without = Vec::new();
            rows.retain(|(row, _, _)| {
                if row.kind == Kind::Ssh {
                    without.push(row.method);
                }
                row.kind != Kind::Ssh
            });
            left_out.push(format!("{} are left out: {reason}", without.join(" and ")));
            None
        }
    }
}

/// The kind of file system that a directory is on, as the kernel calls it.
fn file_system(directory: &Path) -> Result<String, Error> {
    let absolute = directory
        .canonicalize()
        .map_err(|source| Error::file(directory, source))?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of_mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?.replace("\\040", " "), words.next()?);
        absolute
            .starts_with(&place)
            .then(|| (place.len(), kind.to_owned()))
    };
    let deepest = mounts.lines().filter_map(of_mount).max();
    Ok(deepest.map_or("an unknown file system".to_owned(), |(_, kind)| kind))
}

/// Whether this process can, and is to, make the kernel forget what files contain.
fn caches(options: &Options) -> Caches {
    if options.warm {
        return Caches::Warm("as asked for".to_owned());
    }
    match std::fs::OpenOptions::new().write(true).open(DROP_CACHES) {
        Ok(_) => Caches::Cold,
        Err(_) => Caches::Warm("only root can make the kernel forget them".to_owned()),
    }
}

fn make_sets(
    options: &Options,
    surroundings: Surroundings<'_>,
    left_out: &mut Vec<String>,
    progress: &mut impl Progress,
) -> Result<Vec<Set>, Error> {
    let sizes = options.sizes()?;
    let workshop = Workshop {
        directory: &surroundings.temp_dir.join("sources"),
        total_bytes: options.total_bytes(),
        cancel: surroundings.cancel,
    };
    let contents = [Content::Zeros, Content::Wal];
    let wanted = contents.iter().filter(|content| options.wants(**content));
    // All sets are there at once, one more is the archive, and a server takes some.
    let sets = (wanted.count() * sizes.len()) as u64;
    let needed = options.total_bytes().max(*sizes.last().unwrap_or(&0));
    check_space(surroundings.temp_dir, needed.saturating_mul(sets + 2))?;
    let mut made = Vec::new();
    if options.wants(Content::Zeros) {
        for size in &sizes {
            made.push(workshop.zeros(*size)?);
        }
    }
    if !options.wants(Content::Wal) {
        return Ok(made);
    }
    if !options.inputs.is_empty() {
        let inputs: Vec<Input> = input::gather(&options.inputs, None, surroundings, progress)?;
        for size in &sizes {
            made.push(workshop.given(&inputs, *size)?);
        }
        return Ok(made);
    }
    let installation = Installation::find(
        options.pg_bin.as_deref(),
        surroundings.search_path,
        // A server may run as another user, who cannot enter a directory of ours.
        &options.temp_dir,
        surroundings.cancel,
    );
    match installation {
        Ok(installation) => {
            for size in &sizes {
                made.push(workshop.generated(&installation, *size, progress)?);
            }
        }
        Err(error @ Error::Missing { .. }) => {
            let reason = format!("real WAL is left out: {error}, or name segments");
            progress.note(&reason);
            left_out.push(reason);
        }
        Err(error) => return Err(error),
    }
    Ok(made)
}
