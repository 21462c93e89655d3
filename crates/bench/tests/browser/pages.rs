//! The pages under test: a comparison of small programs of the tests' own, and tables and bars.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use walzip_bench::report::{Bars, Cell, Panels, Scatter, Section, Table, page};
use walzip_bench::wal::{Options, run};
use walzip_bench::{Files, Provenance, Silent, segments};

/// A page in a directory of its own.
pub struct Page {
    _directory: TempDir,
    pub path: PathBuf,
}

/// Each program "compresses" to a share of the input in some hundredths of a second, both by its
/// level, and gives back what it was given.
const PROGRAMS: &[(&str, u32, u32)] = &[
    ("zstd", 60, 1),
    ("gzip", 70, 2),
    ("xz", 50, 4),
    ("pigz", 70, 1),
    ("walzip", 30, 2),
];
const CONTENDERS: &[&str] = &[
    "zstd:1-3",
    "gzip:1",
    "gzip:6",
    "xz:2",
    "xz:9",
    "pigz:1",
    "walzip:1",
    "walzip:3",
    "walzip:6",
    "walzip-unverified:3",
    "brotli:1",
];
const INPUT_BYTES: usize = 200_000;

/// The report of `bench wal`.
pub fn comparison() -> Page {
    comparison_of(3, false)
}

/// The same of so many runs.
pub fn comparison_of(runs: u32, quick: bool) -> Page {
    let directory = TempDir::new().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    for name in ["bin", "tmp"] {
        fs::create_dir(at(name)).expect("a directory");
    }
    for &(name, percent, hundredths) in PROGRAMS {
        write_program(&at("bin").join(name), name, percent, hundredths);
    }
    let mut inputs = Vec::new();
    for folder in ["oltp", "bulk-load", "pgbench-init"] {
        let path = at(folder).join("000000010000000000000001");
        fs::create_dir(at(folder)).expect("a directory");
        fs::write(&path, vec![folder.len() as u8; INPUT_BYTES]).expect("a file");
        inputs.push(path);
    }
    let path = at("report.html");
    let options = Options {
        inputs,
        contenders: CONTENDERS
            .iter()
            .map(|text| text.parse().expect("a row"))
            .collect(),
        runs: Some(runs),
        quick,
        files: Files {
            report: Some(path.clone()),
            ..Files::default()
        },
        ..Options::new(at("bin/walzip"), at("bin").into_os_string(), at("tmp"))
    };
    let results = run(&options, &mut Silent).expect("a comparison");
    assert!(results.failed.is_empty(), "{:?}", results.failed);
    Page {
        _directory: directory,
        path,
    }
}

fn write_program(path: &Path, name: &str, percent: u32, hundredths: u32) {
    let stored = path.with_extension("stored");
    let stored = stored.display();
    let script = format!(
        "#!/bin/sh\n\
         level=1\n\
         for last; do case $last in -[0-9]) level=${{last#-}};; esac; done\n\
         case \" $* \" in\n\
         *' --version '*|*' -V '*) echo '{name} 1.2.3'; exit;;\n\
         *' -d '*|*' decompress '*) exec /bin/cat '{stored}';;\n\
         esac\n\
         /bin/cp \"$last\" '{stored}'\n\
         /bin/sleep 0.0$(({hundredths} * (level + 2) / 3))\n\
         exec /usr/bin/head -c $(({INPUT_BYTES} * ({percent} - level * 2) / 100)) \"$last\"\n"
    );
    fs::write(path, script).expect("a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program");
}

/// The report of `bench segments`: a little of what was published.
pub fn segments() -> Page {
    segments_of(3)
}

/// The same of so many runs.
pub fn segments_of(runs: u32) -> Page {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("report.html");
    let search_path = std::env::var_os("PATH").expect("a search path");
    let options = segments::Options {
        total_megabytes: Some(64),
        contents: vec![segments::Content::Zeros],
        methods: vec![segments::Method::named("cp").expect("a way")],
        runs: Some(runs),
        warm: true,
        files: Files {
            report: Some(path.clone()),
            ..Files::default()
        },
        ..segments::Options::new(
            PathBuf::new(),
            |_, _, _| Ok(()),
            search_path,
            directory.path().to_owned(),
        )
    };
    let results = segments::run(&options, &mut Silent).expect("segments are copied");
    assert!(results.failed.is_empty(), "{:?}", results.failed);
    Page {
        _directory: directory,
        path,
    }
}

/// The index over two of these pages.
pub fn index() -> Page {
    let directory = TempDir::new().expect("a directory");
    for (page, name) in [
        (tables(), "wal-compression.html"),
        (segments(), "segments.html"),
    ] {
        fs::copy(page.path, directory.path().join(name)).expect("a page");
    }
    walzip_bench::index::write(directory.path(), false).expect("an index");
    let path = directory.path().join(walzip_bench::index::NAME);
    Page {
        _directory: directory,
        path,
    }
}

/// A page of a machine that was busy.
pub fn busy() -> Page {
    let mut table = Table::new(["way", "seconds", "MB"]).wall(["seconds"]);
    table.row([
        Cell::from("cp"),
        Cell::number(1.5, 1),
        Cell::number(16.0, 1),
    ]);
    let mut times = Bars::new("s", 1).wall();
    times.bar("cp", Some(1.5), None);
    let mut sizes = Bars::new("MB", 1);
    sizes.bar("cp", Some(16.0), None);
    let section = Section::new("Copying").table(table).bars(times).bars(sizes);
    let provenance = Provenance {
        load_average_before: Some(8.0),
        ..provenance()
    };
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("page.html");
    let html = page(
        "Does it take long?",
        "Nobody knows.",
        &[section],
        &provenance,
    );
    fs::write(&path, html).expect("a file");
    Page {
        _directory: directory,
        path,
    }
}

/// A page of small multiples: three of one unit, and one of another.
pub fn panels() -> Page {
    let mut panels = Panels::default();
    for (title, unit, off) in [
        ("gzip -6", "MB", 100.0),
        ("zstd -3", "MB", 80.0),
        ("walzip -3", "MB", 20.0),
        ("Processor time of the server for each row", "\u{b5}s", 7.0),
    ] {
        let mut bars = Bars::new(unit, 1);
        bars.bar("off", Some(off), None);
        bars.bar("zstd (today)", Some(off * 0.75), Some(off / 2.0));
        panels = panels.panel(title, bars);
    }
    let section = Section::new("In the archive").panels(panels);
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("page.html");
    let answer = "It depends on the program.";
    let html = page("What does it cost?", answer, &[section], &provenance());
    fs::write(&path, html).expect("a file");
    Page {
        _directory: directory,
        path,
    }
}

/// A page of tables and bars, as the other experiments make them.
pub fn tables() -> Page {
    let mut table = Table::new(["setting", "WAL MB", "published MB", "transactions/s"]);
    for (setting, wal, published, rate) in [
        ("off", 1208.1, Some(208.1), 1520.0),
        ("pglz", 410.9, Some(81.0), 1380.0),
        ("lz4", 401.5, None, 1544.0),
    ] {
        table.row([
            Cell::from(setting),
            Cell::number(wal, 1).ours(),
            Cell::number_or_none(published, 1),
            Cell::number(rate, 0),
        ]);
    }
    let mut bars = Bars::new("MB", 1);
    bars.bar("off", Some(1208.1), Some(208.1));
    bars.bar("pglz <on>", Some(410.9), Some(81.0));
    bars.bar("zstd", None, None);
    bars.ours("walzip -3", Some(9.5));
    let mut times = Bars::new("s", 1);
    times.bar("off", Some(10.0), Some(5.0));
    times.ours("walzip -3", Some(2.0));
    let mut parts = Bars::parts_of(100.0, "%", 1);
    parts.bar("images", Some(90.0), None);
    parts.bar("headers", Some(0.5), None);
    let mut both = Scatter::new("seconds", "MB");
    both.point("lz4:1", (1.1, 400.0), false);
    both.point("gzip:7", (30.0, 300.0), false);
    both.point("zstd:13", (90.0, 180.0), false);
    both.point("walzip backup -1", (4.0, 210.0), true);
    let section = Section::new("WAL written")
        .paragraph("What a setting does to the WAL of the same transactions.")
        .table(table)
        .bars(bars)
        .bars(times)
        .bars(parts)
        .scatter(both)
        .note("MB are millions of bytes.");
    let provenance = provenance();
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("page.html");
    fs::write(
        &path,
        page(
            "What wal_compression does",
            "It saves two thirds (3 runs).",
            &[section],
            &provenance,
        ),
    )
    .expect("a file");
    Page {
        _directory: directory,
        path,
    }
}

fn provenance() -> Provenance {
    Provenance {
        date: "2026-11-22T01:02:03Z".to_owned(),
        cpu: "A processor of some length, with a name".to_owned(),
        cpus: 4,
        memory_bytes: 8 << 30,
        kernel: "Linux 6.1".to_owned(),
        operating_system: "Debian GNU/Linux".to_owned(),
        harness: "walzip-bench".to_owned(),
        load_average_before: Some(0.1),
        load_average_after: None,
        memory_floor_bytes: None,
    }
}
