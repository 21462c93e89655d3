//! Every workload on a real server: what it loads, what it writes, and what is kept of it.

use std::fs;

use tempfile::TempDir;
use walzip_bench::generate::{self, Options};
use walzip_bench::server::Settings;
use walzip_bench::workload::{Transactions, Workload};
use walzip_bench::{Cancel, Error, Progress, Step};

use crate::servers::{installation, pg_bin};
use crate::support::{Heard, is_empty};

/// Three small segments of a workload, into `out` of a directory.
fn options(directory: &TempDir, workload: Workload) -> Option<Options> {
    let temp_dir = directory.path().join("tmp");
    fs::create_dir_all(&temp_dir).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(directory.path(), mode).unwrap();
    installation(&temp_dir, &Cancel::default())?;
    Some(Options {
        workload,
        scale: 1,
        seed: 7,
        segments: 3,
        output: directory.path().join("out"),
        loading: false,
        clients: 2,
        wal_compression: "off".to_owned(),
        segment_megabytes: 1,
        checksums: false,
        parameters: Vec::new(),
        pg_bin: pg_bin(),
        search_path: std::env::var_os("PATH").unwrap(),
        temp_dir,
        cancel: Cancel::default(),
    })
}

#[test]
fn each_workload_writes_segments_that_say_where_they_come_from() {
    for workload in Workload::ALL {
        let directory = TempDir::new().unwrap();
        let Some(options) = options(&directory, workload) else {
            return;
        };
        let results = generate::run(&options, &mut Heard::default()).unwrap();
        assert_eq!(results.stopped, None);
        assert!(
            is_empty(&options.temp_dir),
            "{workload} left something behind"
        );
        let names: Vec<&str> = results
            .segments
            .iter()
            .map(|segment| segment.name.as_str())
            .collect();
        assert_eq!(names.len(), 3, "{workload}");
        for name in &names {
            assert_eq!(
                fs::metadata(options.output.join(name)).unwrap().len(),
                1 << 20
            );
        }
        // Whole segments of records: nothing idle, nothing that could not be read.
        let wal = results.wal;
        assert_eq!(wal.bytes, 3 << 20);
        assert!(wal.record_bytes > 2_900_000, "{workload}: {wal:?}");
        let json = fs::read_to_string(options.output.join("generated.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["workload"], workload.name());
        assert_eq!(json["segments"][2]["name"], names[2]);
        let error = generate::run(&options, &mut Heard::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("is not empty"), "{error}");
    }
}

#[test]
fn the_same_seed_loads_the_same_rows() {
    let directory = TempDir::new().unwrap();
    let Some(installation) = installation(directory.path(), &Cancel::default()) else {
        return;
    };
    let fingerprint = |workload: Workload, seed| {
        let server = installation.start(&Settings::volatile()).unwrap();
        workload.load(&server, 1, seed).unwrap();
        let table = match workload {
            Workload::Shop => "order_items",
            Workload::Documents => "documents",
            _ => "readings",
        };
        server
            .sql(&format!(
                "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {table} t"
            ))
            .unwrap()
    };
    for workload in [Workload::Shop, Workload::TimeSeries, Workload::Documents] {
        let first = fingerprint(workload, 1);
        assert_eq!(first, fingerprint(workload, 1));
        assert_ne!(first, fingerprint(workload, 2));
    }
}

#[test]
fn a_shop_has_orders_with_lines_and_customers_who_change_them() {
    let directory = TempDir::new().unwrap();
    let Some(installation) = installation(directory.path(), &Cancel::default()) else {
        return;
    };
    let server = installation.start(&Settings::volatile()).unwrap();
    Workload::Shop.load(&server, 1, 1).unwrap();
    let orphans = "SELECT count(*) FROM order_items WHERE order_id NOT IN (SELECT id FROM orders)";
    assert_eq!(server.sql(orphans).unwrap(), "0");
    let counts = "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM events)";
    assert_eq!(server.sql(counts).unwrap(), "12000|0");
    let how = Transactions {
        scale: 1,
        count: 400,
        clients: 2,
        seed: 1,
    };
    let ran = Workload::Shop.run(&server, &how).unwrap();
    assert_eq!(ran.transactions, 400);
    assert!(ran.tps > 0.0);
    let changed =
        "SELECT (SELECT count(*) > 12050 FROM orders), (SELECT count(*) > 100 FROM events),
        (SELECT count(*) > 0 FROM prices), (SELECT sum(reserved) > 0 FROM inventory)";
    assert_eq!(server.sql(changed).unwrap(), "t|t|t|t");
}

#[test]
fn segments_of_loading_are_those_that_loading_writes() {
    let directory = TempDir::new().unwrap();
    let Some(mut options) = options(&directory, Workload::Copy) else {
        return;
    };
    options.loading = true;
    options.segments = 1000;
    let results = generate::run(&options, &mut Heard::default()).unwrap();
    let reason = results.stopped.unwrap();
    assert!(
        reason.starts_with("loading scale 1 writes no more than "),
        "{reason}"
    );
    assert!((5..100).contains(&results.segments.len()));
    assert_eq!(results.transactions, 0);
}

/// Requests a stop when some segments are there.
struct StopsAfter(Cancel, usize);

impl Progress for StopsAfter {
    fn note(&mut self, _text: &str) {}

    fn step(&mut self, step: &Step) {
        if step.done >= self.1 {
            self.0.request();
        }
    }
}

#[test]
fn an_interrupt_keeps_the_segments_that_are_complete() {
    let directory = TempDir::new().unwrap();
    let Some(mut options) = options(&directory, Workload::Insert) else {
        return;
    };
    // More than are written before it stops; their room must be there.
    options.segments = 500;
    let results = generate::run(&options, &mut StopsAfter(options.cancel.clone(), 2)).unwrap();
    assert_eq!(results.stopped.as_deref(), Some("interrupted"));
    assert!(results.segments.len() >= 2);
    assert!(results.to_string().contains("Incomplete: interrupted."));
    assert!(options.output.join(&results.segments[1].name).exists());
    assert!(is_empty(&options.temp_dir));
    options.output = directory.path().join("again");
    assert!(matches!(
        generate::run(&options, &mut Heard::default()),
        Err(Error::Interrupted)
    ));
}
