//! Base backups of a real server: what is measured, kept, continued, and left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use walzip_bench::basebackup::{Options, Results, Source, run};
use walzip_bench::workload::Workload;
use walzip_bench::{Cancel, Error, Progress, Step};
use walzip_testing::not_run;

use crate::servers::pg_bin;
use crate::support::is_empty;

/// Archives by copying, and says the size of a backup that it does not take.
const WALZIP: &str = r#"#!/bin/sh
case $1 in
init) /bin/mkdir -p repository ;;
archive-push) /bin/cp "$4" "$3" ;;
backup) echo 'backup x: 9000 bytes stored in 4000, WAL 0/1 to 0/2' ;;
restore) /bin/mkdir "$5" && echo 15 >"$5/PG_VERSION" ;;
--version) echo 'walzip 0' ;;
esac
"#;

struct Site {
    directory: TempDir,
    options: Options,
}

impl Site {
    /// Nothing when there is no server to measure on.
    fn new() -> Option<Site> {
        let directory = TempDir::new().unwrap();
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory.path(), open.clone()).unwrap();
        fs::create_dir(directory.path().join("tmp")).unwrap();
        let walzip = directory.path().join("walzip");
        fs::write(&walzip, WALZIP).unwrap();
        fs::set_permissions(&walzip, open).unwrap();
        let search_path = std::env::var_os("PATH").unwrap();
        let mut options = Options::new(walzip, search_path, directory.path().join("tmp"));
        options.pg_bin = pg_bin();
        options.quick = true;
        options.data_sets = vec![Source::Generated(Workload::Pgbench, 1)];
        options.files.json = Some(directory.path().join("results.json"));
        if options.pg_bin.is_none() {
            not_run("PostgreSQL 15 is not here; run scripts/fetch-postgres");
            return None;
        }
        Some(Site { directory, options })
    }

    /// Puts a program before all others.
    fn install(&mut self, name: &str, script: &str) {
        let bin = self.path("bin");
        fs::create_dir(&bin).unwrap();
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&bin, open.clone()).unwrap();
        fs::write(bin.join(name), script).unwrap();
        fs::set_permissions(bin.join(name), open).unwrap();
        let mut search_path = bin.into_os_string();
        search_path.push(":");
        search_path.push(&self.options.search_path);
        self.options.search_path = search_path;
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, progress: &mut impl Progress) -> Result<Results, Error> {
        let results = run(&self.options, progress);
        assert!(is_empty(&self.path("tmp")), "something was left behind");
        assert_nothing_runs(&self.path("tmp"));
        results
    }
}

/// The server and what watches over it have the directory in their command lines.
fn assert_nothing_runs(directory: &Path) {
    let directory = directory.to_str().unwrap();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        assert!(!command.contains(directory), "still runs: {command}");
    }
}

/// Requests a stop when a step begins, and remembers the steps.
#[derive(Default)]
struct Ear {
    stop_at: Option<(&'static str, Cancel)>,
    steps: Vec<String>,
    notes: Vec<String>,
}

impl Progress for Ear {
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    fn step(&mut self, step: &Step) {
        self.steps.push(step.label.clone());
        if let Some((label, cancel)) = &self.stop_at
            && step.label.ends_with(label)
            && step.done >= 5
        {
            cancel.request();
        }
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_said_before_anything_is_measured() {
    let Some(mut site) = Site::new() else { return };
    let connection = "user=nobody password=hush".to_owned();
    site.options.data_sets.push(Source::Running(connection));
    // What libpq reads reaches it.
    site.options.connection_environment = vec![("PGHOST".into(), "/absent".into())];
    let mut ear = Ear::default();
    let said = site.run(&mut ear).unwrap_err().to_string();
    assert!(ear.steps.is_empty(), "{:?}", ear.steps);
    assert!(
        said.contains("cannot connect to server 2 for a backup") && said.contains("/absent"),
        "{said}"
    );
    assert!(!said.contains("hush"), "{said}");
    assert!(!site.path("results.json").exists());
}

#[test]
fn an_interrupted_comparison_keeps_its_backups_and_goes_on() {
    let Some(mut site) = Site::new() else { return };
    let mut ear = Ear {
        stop_at: Some(("zstd:1", site.options.cancel.clone())),
        ..Ear::default()
    };
    let first = site.run(&mut ear).unwrap();
    assert_eq!(first.stopped.as_deref(), Some("interrupted"));
    let kept = first.measurements.len();
    assert!((1..4).contains(&kept), "{kept}");
    assert!(first.to_string().contains("Incomplete: interrupted."));
    // The second time, only what is missing is taken.
    site.options.cancel = Cancel::default();
    site.options.files.resume = true;
    let mut ear = Ear::default();
    let second = site.run(&mut ear).unwrap();
    assert_eq!(second.stopped, None);
    assert_eq!(second.measurements.len(), 5, "{:?}", second.failed);
    assert_eq!(
        second.restored.len(),
        5,
        "each is restored once, with one loop"
    );
    assert_eq!(ear.steps.len(), 2 * (5 - kept), "{:?}", ear.steps);
    assert_eq!(second.resumed[0].measurements, kept);
    let walzip = second.rows.iter().position(|row| row.taker.is_walzip());
    let of_walzip = second
        .measurements
        .iter()
        .find(|measured| Some(measured.row) == walzip);
    assert_eq!(of_walzip.unwrap().bytes, 4000);
    assert_eq!(second.ranks.average.len(), 5);
    // The third time, not even a server is started.
    let mut ear = Ear::default();
    let third = site.run(&mut ear).unwrap();
    assert_eq!((third.measurements.len(), ear.steps.len()), (5, 0));
    let said = ear.notes.join("\n");
    assert!(!said.contains("making a server"), "{said}");
    assert_eq!(third.restored.len(), 5);
    let json = fs::read_to_string(site.path("results.json")).unwrap();
    assert!(
        !json.contains(site.path("").to_str().unwrap()),
        "a path is published"
    );
}

#[test]
fn an_interrupt_before_a_data_set_is_reached_keeps_what_an_earlier_run_has_of_it() {
    let Some(mut site) = Site::new() else { return };
    let first = site.run(&mut Ear::default()).unwrap();
    assert_eq!(first.measurements.len(), 5, "{:?}", first.failed);
    // Now another data set comes first, and the run ends before it is measured.
    let shop = Source::Generated(Workload::Shop, 1);
    site.options.data_sets.insert(0, shop);
    site.options.files.resume = true;
    let mut ear = Ear {
        stop_at: Some(("zstd:1", site.options.cancel.clone())),
        ..Ear::default()
    };
    let second = site.run(&mut ear).unwrap();
    assert_eq!(second.stopped.as_deref(), Some("interrupted"));
    let json = fs::read(site.path("results.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let kept = json["measurements"].as_array().unwrap().iter();
    let of_pgbench = kept.filter(|measured| measured["data_set"] == 1).count();
    assert_eq!(json["data_sets"][1]["name"], "pgbench");
    assert_eq!(of_pgbench, 5, "{json}");
    // And a run without it would lose it.
    site.options.cancel = Cancel::default();
    site.options.data_sets.pop();
    let refused = site.run(&mut Ear::default()).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::WouldLose {
                measurements: 5,
                ..
            }
        ),
        "{refused}"
    );
}

#[test]
fn every_backup_is_restored_as_often_as_it_is_taken_and_what_is_no_cluster_is_told() {
    let Some(mut site) = Site::new() else { return };
    site.options.loops = Some(2);
    site.options.files.csv = Some(site.path("r.csv"));
    site.options.files.report = Some(site.path("r.html"));
    let nothing = WALZIP.replace("echo 15 >\"$5/PG_VERSION\"", "true");
    fs::write(&site.options.walzip, nothing).unwrap();
    let results = site.run(&mut Ear::default()).unwrap();
    let labels = results.restored.iter();
    let labels: Vec<_> = labels
        .map(|of| results.rows[of.row].label.as_str())
        .collect();
    for label in ["gzip:1", "lz4:1", "zstd:1", "zstd:5"] {
        assert_eq!(
            labels.iter().filter(|of| **of == label).count(),
            2,
            "{labels:?}"
        );
    }
    assert_eq!(labels.len(), 8, "{labels:?}");
    assert!(
        results.failed[0]
            .reason
            .contains("what was restored has no PG_VERSION")
    );
    let text = results.to_string();
    assert!(text.contains("restored from"), "{text}");
    let csv = fs::read_to_string(site.path("r.csv")).unwrap();
    assert_eq!(
        csv.matches("# restored,zstd:5,pgbench,").count(),
        2,
        "{csv}"
    );
    let page = fs::read_to_string(site.path("r.html")).unwrap();
    assert!(page.contains("making a data directory again"), "{page}");
}

/// Stores 5000 bytes for each backup.
const PGBACKREST: &str = r#"#!/bin/sh
for last; do :; done
repository=$(/bin/sed -n s/^repo1-path=//p "$PGBACKREST_CONFIG")
case $last in
version) echo 'pgBackRest 0' ;;
stanza-create) /bin/mkdir "$repository/backup" ;;
backup) /bin/mkdir "$repository/backup/$$" && printf '%5000d' 0 >"$repository/backup/$$/file" ;;
restore) for word; do case $word in --pg1-path=*) echo 15 >"${word#*=}/PG_VERSION" ;; esac; done ;;
esac
"#;

#[test]
fn pgbackrest_takes_part_where_it_is_installed() {
    let Some(mut site) = Site::new() else { return };
    site.install("pgbackrest", PGBACKREST);
    site.options.files.report = Some(site.path("r.html"));
    let results = site.run(&mut Ear::default()).unwrap();
    assert!(results.failed.is_empty(), "{:?}", results.failed);
    let of = |label: &str| results.rows.iter().position(|row| row.label == label);
    let row = of("pgBackRest zst:3").unwrap();
    let mut measured = results.measurements.iter();
    let measured = measured.find(|measured| measured.row == row).unwrap();
    assert_eq!(measured.bytes, 5000);
    assert!(results.restored.iter().any(|restored| restored.row == row));
    // It takes nobody's rank, and is nobody's best.
    let mut ranked = results.ranks.average.iter();
    assert_eq!(
        ranked.find(|average| average.row == row).unwrap().rank,
        None
    );
    assert_eq!(results.ranks.ranked, 4);
    let page = fs::read_to_string(site.path("r.html")).unwrap();
    assert!(page.contains("pgBackRest zst:3"), "{page}");
    assert!(!results.left_out.iter().any(|of| of.contains("pgBackRest")));
}

#[test]
fn a_backup_that_cannot_be_unpacked_gets_no_figure() {
    let Some(mut site) = Site::new() else { return };
    site.install("lz4", "#!/bin/sh\n/bin/cat >/dev/null\nexit 1\n");
    let results = site.run(&mut Ear::default()).unwrap();
    assert_eq!(results.failed.len(), 1, "{:?}", results.failed);
    let failed = &results.failed[0];
    assert_eq!(results.rows[failed.row].label, "lz4:1");
    assert!(
        failed.reason.contains("cannot be unpacked"),
        "{}",
        failed.reason
    );
    assert_eq!(results.measurements.len(), 4);
    let csv = results.to_string();
    assert!(csv.contains("lz4:1 FAILED on pgbench"), "{csv}");
}

#[test]
fn a_request_before_the_beginning_measures_nothing() {
    let Some(site) = Site::new() else { return };
    site.options.cancel.request();
    let error = site.run(&mut Ear::default()).unwrap_err().to_string();
    assert_eq!(error, "interrupted before anything was measured");
}
