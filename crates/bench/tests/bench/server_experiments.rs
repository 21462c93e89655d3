//! Experiments on servers that meet with trouble: a program that fails, a full disk.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use walzip_bench::insert::{self, Memory, MemoryLimit};
use walzip_bench::wal_compression;
use walzip_bench::workload::Workload;
use walzip_bench::{Cancel, Error, Files};
use walzip_testing::not_run;

use crate::servers::{installation, pg_bin};
use crate::support::{COPIES, Heard, is_empty};

/// The programs of PostgreSQL, of which one is replaced by a script. In it, `REAL` is the
/// program itself and `COUNT` a file that is there from the second call on.
struct Programs {
    directory: TempDir,
    bin: PathBuf,
    temp_dir: PathBuf,
}

impl Programs {
    fn new() -> Option<Programs> {
        let directory = TempDir::new().unwrap();
        let temp_dir = directory.path().join("tmp");
        fs::create_dir(&temp_dir).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let installation = installation(&temp_dir, &Cancel::default())?;
        let bin = directory.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in ["initdb", "postgres", "psql", "pgbench", "pg_basebackup"] {
            symlink(installation.program(name).unwrap(), bin.join(name)).unwrap();
        }
        Some(Programs {
            directory,
            bin,
            temp_dir,
        })
    }

    fn replace(&self, name: &str, script: &str) {
        let path = self.bin.join(name);
        let real = fs::canonicalize(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let script = script
            .replace("REAL", real.to_str().unwrap())
            .replace("COUNT", self.path("count").to_str().unwrap());
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn insert(&self) -> insert::Options {
        insert::Options {
            methods: vec!["off".to_owned()],
            memories: vec![Memory::Fits],
            memory_limit: MemoryLimit::Percent(25),
            rows: 1000,
            further_rows: 200,
            clients: 1,
            seed: 1,
            fsync: false,
            runs: 1,
            parameters: Vec::new(),
            quick: true,
            pg_bin: Some(self.bin.clone()),
            search_path: std::env::var_os("PATH").unwrap(),
            temp_dir: self.temp_dir.clone(),
            files: Files {
                csv: Some(self.path("r.csv")),
                json: Some(self.path("r.json")),
                ..Files::default()
            },
            cancel: Cancel::default(),
        }
    }
}

#[test]
fn a_program_that_fails_is_named_and_what_was_measured_before_is_kept() {
    let Some(programs) = Programs::new() else {
        return;
    };
    let script =
        "[ -e COUNT ] && { echo 'pgbench: out of luck' >&2; exit 3; }\n: >COUNT\nexec REAL \"$@\"";
    programs.replace("pgbench", script);
    let results = insert::run(&programs.insert(), &mut Heard::default()).unwrap();
    let reason = results.stopped.as_deref().unwrap();
    assert_eq!(
        reason,
        "cannot run pgbench: pgbench: exit status: 3: pgbench: out of luck"
    );
    let steps: Vec<&str> = results
        .measurements
        .iter()
        .map(|run| run.step.name())
        .collect();
    assert_eq!(steps, ["l.i0", "l.x"]);
    assert!(
        results
            .to_string()
            .contains(&format!("Incomplete: {reason}."))
    );
    let csv = fs::read_to_string(programs.path("r.csv")).unwrap();
    assert!(
        csv.contains("# incomplete: cannot run pgbench") && csv.contains("\nfits,off,1,l.x,3000,"),
        "{csv}"
    );
    assert!(is_empty(&programs.temp_dir));
}

#[test]
fn a_server_that_dies_is_told_with_its_last_words() {
    let Some(programs) = Programs::new() else {
        return;
    };
    // As the server ends when there is no room for a segment.
    let script = "[ -e COUNT ] || { : >COUNT; exec REAL \"$@\"; }\n\
                  echo 'PANIC:  could not write to file: No space left on device' >>\"$PGHOST/log\"\n\
                  kill -QUIT $(head -n 1 \"$PGHOST/data/postmaster.pid\")\nexec REAL \"$@\"";
    programs.replace("pgbench", script);
    let results = insert::run(&programs.insert(), &mut Heard::default()).unwrap();
    let reason = results.stopped.as_deref().unwrap();
    assert!(reason.starts_with("cannot run pgbench: "), "{reason}");
    assert!(
        reason
            .contains("the server said: PANIC:  could not write to file: No space left on device"),
        "{reason}"
    );
    let directory = programs.directory.path().to_str().unwrap();
    assert!(
        !reason.contains(directory),
        "a published file names no directory: {reason}"
    );
    assert_eq!(results.measurements.len(), 2);
    assert!(is_empty(&programs.temp_dir));
}

#[test]
fn a_program_that_is_missing_is_named_with_its_package_before_anything_is_measured() {
    let Some(programs) = Programs::new() else {
        return;
    };
    let mut options = programs.insert();
    fs::remove_file(programs.bin.join("initdb")).unwrap();
    options.pg_bin = Some(programs.bin.clone());
    let error = insert::run(&options, &mut Heard::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has no initdb") && error.contains("package postgresql"),
        "{error}"
    );
    assert!(is_empty(&programs.temp_dir));
}

fn wal_compression(directory: &Path, programs: &Programs) -> wal_compression::Options {
    let walzip = directory.join("walzip");
    fs::write(&walzip, format!("#!/bin/sh\n{COPIES}\n")).unwrap();
    fs::set_permissions(&walzip, fs::Permissions::from_mode(0o755)).unwrap();
    wal_compression::Options {
        methods: vec!["off".to_owned(), "pglz".to_owned()],
        workload: Workload::Pgbench,
        scale: 1,
        transactions: 400,
        clients: 1,
        seed: 1,
        checkpoints: None,
        rows: 2000,
        standby: false,
        fsync: false,
        runs: 1,
        parameters: Vec::new(),
        segments: Some(1),
        contenders: vec!["walzip:1".parse().unwrap()],
        quick: true,
        pg_bin: pg_bin(),
        launcher: None,
        walzip,
        search_path: std::env::var_os("PATH").unwrap(),
        temp_dir: programs.temp_dir.clone(),
        files: Files {
            json: Some(programs.path("r.json")),
            ..Files::default()
        },
        cancel: Cancel::default(),
    }
}

/// The first method is measured wholly; what the second needs fails once.
#[test]
fn a_comparison_goes_on_from_the_methods_that_are_complete() {
    let Some(programs) = Programs::new() else {
        return;
    };
    let mut options = wal_compression(programs.directory.path(), &programs);
    options.methods.pop();
    let first = wal_compression::run(&options, &mut Heard::default()).unwrap();
    assert_eq!((first.measurements.len(), first.stopped), (4, None));
    assert!(
        first
            .archived
            .iter()
            .any(|archived| archived.program == "walzip -1" && archived.ratio == 1.0)
    );

    options.methods.push("pglz".to_owned());
    options.files.resume = true;
    let mut heard = Heard::default();
    let second = wal_compression::run(&options, &mut heard).unwrap();
    assert_eq!(second.measurements.len(), 8);
    let of_first = |run: &wal_compression::Measurement| (run.phase.from, run.phase.to);
    assert_eq!(
        second
            .measurements
            .iter()
            .take(4)
            .map(of_first)
            .collect::<Vec<_>>(),
        first.measurements.iter().map(of_first).collect::<Vec<_>>()
    );
    assert_eq!(second.resumed.unwrap().measurements, 4);
    let archives = (second.archive.len(), second.archive_of_earlier_runs.len());
    assert_eq!(archives, (1, 1), "how the archive was measured is kept");
    let json = fs::read_to_string(programs.path("r.json")).unwrap();
    options.methods.remove(0);
    let refused = wal_compression::run(&options, &mut Heard::default()).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::WouldLose {
                measurements: 4,
                ..
            }
        ),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(programs.path("r.json")).unwrap(), json);
    options.methods.insert(0, "off".to_owned());
    assert!(
        heard
            .notes
            .iter()
            .any(|note| note.contains("is taken over"))
    );
    let steps = heard.steps.iter().filter(|step| step.label.contains("off"));
    assert_eq!(steps.count(), 0, "nothing is measured twice");

    options.transactions = 401;
    let refused = wal_compression::run(&options, &mut Heard::default());
    assert!(matches!(refused, Err(Error::Usage(reason)) if reason.contains("other options")));
    assert!(is_empty(&programs.temp_dir));
}

#[test]
fn every_segment_is_archived_unless_a_number_is_given_and_then_sizes_have_an_uncertainty() {
    let Some(programs) = Programs::new() else {
        return;
    };
    let mut options = wal_compression(programs.directory.path(), &programs);
    options.methods.pop();
    options.files.json = None;
    options.segments = None;
    // Makes more of one segment than of another, so that they differ.
    let halves = "for last; do :; done\ncase $1 in compress) /usr/bin/gzip -c \"$last\" ;; *) /usr/bin/gzip -dc \"$last\" ;; esac";
    fs::write(&options.walzip, format!("#!/bin/sh\n{halves}\n")).unwrap();
    let of_load = |results: &wal_compression::Results| {
        let mut archived = results.archived.iter();
        let found = archived.find(|of| of.program == "walzip -1" && of.stage.name() == "load");
        found.unwrap().clone()
    };
    let all = wal_compression::run(&options, &mut Heard::default()).unwrap();
    let of_all = of_load(&all);
    assert!(of_all.of > 4 && of_all.segments == of_all.of, "{of_all:?}");
    assert_eq!(of_all.uncertainty, Some(0.0));
    let text = all.to_string();
    assert!(
        text.contains("From every segment") && !text.contains('\u{b1}'),
        "{text}"
    );
    options.segments = Some(3);
    options.files.csv = Some(programs.path("r.csv"));
    let some = wal_compression::run(&options, &mut Heard::default()).unwrap();
    let of_some = of_load(&some);
    assert!(of_some.segments == 3 && of_some.of > 4, "{of_some:?}");
    assert!(of_some.uncertainty.unwrap() > 0.0, "{of_some:?}");
    let text = some.to_string();
    assert!(
        text.contains("From at most 3 segments") && text.contains(" \u{b1} 0."),
        "{text}"
    );
    let csv = fs::read_to_string(programs.path("r.csv")).unwrap();
    let lines: Vec<_> = csv
        .lines()
        .filter(|line| line.starts_with("# archived,"))
        .collect();
    let columns = lines[0].split(',').count();
    assert!(
        lines.len() > 1 && lines.iter().all(|line| line.split(',').count() == columns),
        "{csv}"
    );
    assert!(is_empty(&programs.temp_dir));
}

#[test]
fn a_standby_says_what_it_receives_and_how_far_behind_it_is() {
    let Some(programs) = Programs::new() else {
        return;
    };
    let mut options = wal_compression(programs.directory.path(), &programs);
    options.standby = true;
    options.rows = 20_000;
    options.files.csv = Some(programs.path("r.csv"));
    options.files.report = Some(programs.path("r.html"));
    let results = wal_compression::run(&options, &mut Heard::default()).unwrap();
    assert_eq!(
        (results.stopped.clone(), results.measurements.len()),
        (None, 8)
    );
    for measured in &results.measurements {
        let had = measured.replication.expect("a standby");
        let written = measured.phase.to - measured.phase.from;
        // Everything that a step wrote, and little of what the server does by itself.
        assert!(had.received_bytes + 200_000 > written, "{had:?}, {written}");
        assert!(had.received_bytes < written + 200_000, "{had:?}, {written}");
    }
    // Updates of rows whose pages were checkpointed have images, which compression makes smaller.
    let received = |method: &str| {
        let mut measured = results.measurements.iter();
        let update = measured.find(|run| run.method == method && run.stage.name() == "update");
        update.unwrap().replication.unwrap().received_bytes
    };
    assert!(received("pglz") < received("off"));
    let text = results.to_string();
    assert!(text.contains("What a standby received"), "{text}");
    assert!(
        text.contains("a reader's updates: faster with wal_compression"),
        "{text}"
    );
    let csv = fs::read_to_string(programs.path("r.csv")).unwrap();
    let heads = csv
        .lines()
        .find(|line| line.contains("received_bytes"))
        .unwrap();
    let last = csv.lines().last().unwrap();
    assert_eq!(heads.split(',').count(), last.split(',').count(), "{last}");
    assert!(is_empty(&programs.temp_dir));
}

/// A method that is measured before those of the earlier run, and fails, takes nothing away.
#[test]
fn what_an_earlier_run_has_is_kept_however_the_next_one_ends() {
    let Some(programs) = Programs::new() else {
        return;
    };
    let mut options = programs.insert();
    options.files.csv = None;
    options.methods = vec!["pglz".to_owned()];
    let first = insert::run(&options, &mut Heard::default()).unwrap();
    assert_eq!((first.measurements.len(), first.stopped), (3, None));
    options.files.resume = true;
    options.methods = vec!["off".to_owned()];
    let refused = insert::run(&options, &mut Heard::default()).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::WouldLose {
                measurements: 3,
                ..
            }
        ),
        "{refused}"
    );
    options.methods.push("pglz".to_owned());
    let script = "[ -e COUNT ] && exit 3\n: >COUNT\nexec REAL \"$@\"";
    programs.replace("pgbench", script);
    let second = insert::run(&options, &mut Heard::default()).unwrap();
    assert!(second.stopped.is_some());
    let json = fs::read(programs.path("r.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let kept = json["measurements"].as_array().unwrap().iter();
    assert_eq!(kept.filter(|run| run["method"] == "pglz").count(), 3);
}

/// Groups of this process that are there now: none once an experiment has ended.
fn memory_groups(of: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(of).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(memory_groups(&entry.path()));
            let name = entry.file_name().to_string_lossy().into_owned();
            let of_this_process = name.ends_with(&format!("-{}", std::process::id()));
            let is_ours = name.starts_with("walzip-") && of_this_process;
            found.extend(is_ours.then(|| entry.path()));
        }
    }
    found
}

/// A table of more than 64 MB, and no more than that for everything.
fn io_bound(programs: &Programs) -> insert::Options {
    insert::Options {
        memories: vec![Memory::Exceeds, Memory::IoBound],
        memory_limit: MemoryLimit::Megabytes(64),
        rows: 700_000,
        further_rows: 10_000,
        ..programs.insert()
    }
}

#[test]
fn an_io_bound_server_reads_from_its_disk_what_server_and_page_cache_cannot_keep() {
    let Some(programs) = Programs::new() else {
        return;
    };
    let mut options = io_bound(&programs);
    options.files.report = Some(programs.path("r.html"));
    let results = insert::run(&options, &mut Heard::default()).unwrap();
    assert_eq!(results.stopped, None);
    let reason = results
        .left_out
        .iter()
        .find(|said| said.contains("IO-bound"));
    if let Some(reason) = reason {
        return not_run(reason);
    }
    let of = |memory: Memory, step: insert::Step| {
        let mut measured = results.measurements.iter();
        let found = measured.find(|run| (run.memory, run.step) == (memory, step));
        found.unwrap().clone()
    };
    // The table is read thrice, and a limit of 64 MB holds no more than that of it.
    let table = of(Memory::IoBound, insert::Step::Load)
        .database_bytes
        .unwrap();
    let limit = 64 << 20;
    let read = of(Memory::IoBound, insert::Step::Index)
        .phase
        .read_bytes
        .unwrap();
    assert!(
        table > limit + 10_000_000 && read > table - limit,
        "{read} of {table}"
    );
    let cached = of(Memory::Exceeds, insert::Step::Index)
        .phase
        .read_bytes
        .unwrap();
    assert!(cached < read / 2, "{cached} of {read}");
    let read = of(Memory::IoBound, insert::Step::Insert)
        .phase
        .read_bytes
        .unwrap();
    assert!(read > 10_000_000, "{read}");
    let said =
        "exceeds the 64 MB that server and page cache have together, shared_buffers of 16 MB";
    assert!(results.to_string().contains(said), "{results}");
    let page = fs::read_to_string(programs.path("r.html")).unwrap();
    assert!(page.contains("Where the database exceeds memory (IO-bound)"));
    let json = fs::read_to_string(programs.path("r.json")).unwrap();
    assert!(json.contains("\"memory_limit_megabytes\": 64") && json.contains("io-bound"));
    assert!(is_empty(&programs.temp_dir));
    let left = memory_groups(Path::new("/sys/fs/cgroup"));
    // Tests beside this one have servers, but none with a limit.
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_io_bound_database_that_is_not_possible_is_named_with_the_reason() {
    let Some(programs) = Programs::new() else {
        return;
    };
    let in_memory = TempDir::new_in("/dev/shm").unwrap();
    fs::set_permissions(in_memory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = io_bound(&programs);
    options.temp_dir = in_memory.path().to_owned();
    let reason = "The IO-bound database is not possible here: the database would lie in memory";
    let results = insert::run(&options, &mut Heard::default()).unwrap();
    assert_eq!(
        results.measurements.len(),
        3,
        "what is possible is measured"
    );
    assert!(results.to_string().contains(reason), "{results}");
    options.memories = vec![Memory::IoBound];
    options.files.json = None;
    options.files.csv = None;
    let error = insert::run(&options, &mut Heard::default()).unwrap_err();
    assert!(error.to_string().starts_with(reason), "{error}");
    assert!(is_empty(in_memory.path()));
}
