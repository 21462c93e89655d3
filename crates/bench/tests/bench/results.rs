//! What is measured, and what is written down.

use std::fs;

use crate::support::Bench;

const SEGMENT: &str = "000000010000000000000001";

#[test]
fn measures_each_segment_in_each_run_and_compares_sizes_with_zstd_1() {
    let mut bench = Bench::new();
    bench.program("zstd", "for last; do :; done\ncase $1 in -d) /usr/bin/head -c -1 ;; *) /bin/cat \"$last\"; echo ;; esac <\"$last\"");
    bench.segment("oltp", SEGMENT, b"123456789");
    bench.segment("pgbench-off", SEGMENT, b"123456789 123456789");
    bench.options.runs = Some(2);
    let results = bench.run().unwrap();
    assert_eq!(results.stopped, None);
    assert_eq!(results.measurements.len(), 2 * 2 * 2);
    assert_eq!(bench.progress.steps.len(), 2 * 2 * 2);
    assert_eq!(bench.progress.steps.last().unwrap().total, 2 * 2 * 2);
    let walzip = results.summary[1].all.unwrap();
    assert_eq!((walzip.folders, walzip.segments), (2, 2));
    assert_eq!((walzip.original_bytes, walzip.output_bytes), (28, 28));
    let mean = (0.9_f64 * 0.95).sqrt();
    assert!((walzip.ratio_to_zstd_1.unwrap() - mean).abs() < 1e-9);
    let realistic = results.summary[1].realistic.unwrap();
    assert!((realistic.ratio_to_zstd_1.unwrap() - 0.9).abs() < 1e-9);
    assert!(walzip.compress_s > 0.0 && walzip.compress_peak_bytes > 0);
    assert!(walzip.compress_spread.is_some());
}

#[test]
fn counts_processor_time_and_memory_of_the_program() {
    let mut bench = Bench::new();
    // A loop that works for a while, and a variable of 32 MB.
    let works = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done
        x=$(/usr/bin/head -c 32000000 /dev/zero | /usr/bin/tr '\\0' x)";
    bench.program(
        "walzip",
        &format!("case $1 in compress) {works} ;; esac\nfor last; do :; done\n/bin/cat \"$last\""),
    );
    bench.segment("oltp", SEGMENT, b"123456789");
    let results = bench.run().unwrap();
    let walzip = results.summary[1].all.unwrap();
    assert!(walzip.compress_cpu_s > 0.01, "{walzip:?}");
    assert!(walzip.compress_cpu_s > walzip.decompress_cpu_s);
    assert!(walzip.compress_peak_bytes > 32_000_000, "{walzip:?}");
    assert!(walzip.decompress_peak_bytes < walzip.compress_peak_bytes);
}

#[test]
fn writes_provenance_and_each_measurement_as_csv_and_json() {
    let mut bench = Bench::new();
    bench.segment("oltp", SEGMENT, b"123456789");
    bench.options.files.csv = Some(bench.path("results.csv"));
    bench.options.files.json = Some(bench.path("results.json"));
    bench.run().unwrap();
    let csv = fs::read_to_string(bench.path("results.csv")).unwrap();
    let lines: Vec<_> = csv.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 3, "{csv}");
    let columns = lines[0].split(',').count();
    assert!(
        lines.iter().all(|line| line.split(',').count() == columns),
        "{csv}"
    );
    assert!(
        lines[1..]
            .iter()
            .any(|line| line.starts_with(&format!("walzip,3,1,oltp,{SEGMENT},9,1,ok,9,")))
    );
    assert!(csv.contains(
        "# walzip -3: walzip compress -3 -c INPUT > OUTPUT; walzip decompress -c INPUT > OUTPUT"
    ));
    // The programs of this test only copy, so neither is smaller.
    assert!(
        csv.contains("\n# dominance,zstd -1,1,1,,none,1.0000,,,oltp,1,,,,,,,\n"),
        "{csv}"
    );
    let dominance: Vec<_> = csv
        .lines()
        .filter(|line| line.starts_with("# dominance,"))
        .collect();
    let columns = |line: &str| line.split(',').count();
    assert_eq!(columns(dominance[0]), columns(dominance[1]));
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.path("results.json")).unwrap()).unwrap();
    assert_eq!(
        json["dominance"]["verdicts"][0]["verified"]["answer"],
        "unbeaten"
    );
    assert_eq!(json["dominance"]["published"][0]["output_mb"], 4.927);
    let hash = blake3::hash(b"123456789").to_string();
    assert_eq!(json["inputs"][0]["blake3"], hash);
    assert_eq!(json["rows"][1]["label"], "walzip -3");
    assert_eq!(json["measurements"].as_array().unwrap().len(), 2);
    assert_eq!(json["summary"][1]["all"]["ratio_to_zstd_1"], 1.0);
    assert!(
        json["provenance"]["kernel"]
            .as_str()
            .unwrap()
            .contains("Linux")
    );
    assert!(
        !csv.contains(bench.path("").to_str().unwrap()),
        "a published file names no path"
    );
}

#[test]
fn prints_a_line_for_each_row_and_a_table_by_folder() {
    let mut bench = Bench::new();
    bench.segment("oltp", SEGMENT, b"123456789");
    bench.segment("idle", SEGMENT, b"123456789");
    let text = bench.run().unwrap().to_string();
    assert!(
        text.starts_with("2 rows, 2 segments in 2 folders"),
        "{text}"
    );
    assert!(
        text.lines()
            .any(|line| line.starts_with("walzip -3  ") && line.contains("1.000")),
        "{text}"
    );
    assert!(
        text.lines()
            .any(|line| line.split_whitespace().eq(["idle", "1.000", "1.000"])),
        "{text}"
    );
}

#[test]
fn writes_a_report_without_paths() {
    let mut bench = Bench::new();
    bench.segment("oltp", SEGMENT, b"123456789");
    bench.options.files.report = Some(bench.path("report.html"));
    bench.run().unwrap();
    let page = fs::read_to_string(bench.path("report.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains("\"label\":\"walzip -3\""));
    assert!(!page.contains(bench.path("").to_str().unwrap()));
}

#[test]
fn a_results_file_that_cannot_be_written_is_noticed_before_measuring() {
    let mut bench = Bench::new();
    bench.segment("oltp", SEGMENT, b"123456789");
    bench.options.files.csv = Some(bench.path("absent/results.csv"));
    let error = bench.run().unwrap_err().to_string();
    assert!(error.contains("absent/results.csv"), "{error}");
    assert!(bench.progress.steps.is_empty());
}
