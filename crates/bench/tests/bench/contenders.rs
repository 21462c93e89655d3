//! Programs that are missing, fail or lie; and the real ones.

use std::path::Path;

use walzip_bench::contender::CONTENDERS;
use walzip_bench::segments::METHODS;
use walzip_testing::not_run;

use crate::support::Bench;

const SEGMENT: &str = "000000010000000000000001";

#[test]
fn a_missing_program_is_named_with_its_package_and_the_others_are_measured() {
    let mut bench = Bench::new();
    bench.options.contenders = vec!["lrzip-z:9".parse().unwrap(), "walzip:1".parse().unwrap()];
    bench.segment("oltp", SEGMENT, b"123456789");
    let results = bench.run().unwrap();
    let said = "lrzip-z is left out: lrzip is not installed (package lrzip; scripts/bench-tools in walzip's source installs it)";
    assert_eq!(bench.progress.notes, [said]);
    assert!(results.to_string().contains(said));
    assert_eq!(results.measurements.len(), 2);
}

#[test]
fn without_zstd_there_are_figures_but_no_ratio() {
    let mut bench = Bench::new();
    std::fs::remove_file(bench.path("bin/zstd")).unwrap();
    bench.segment("oltp", SEGMENT, b"123456789");
    let results = bench.run().unwrap();
    assert_eq!(results.summary[0].all.unwrap().ratio_to_zstd_1, None);
    assert!(
        results
            .to_string()
            .contains("No relative sizes: they need zstd -1.")
    );
}

#[test]
fn a_program_that_changes_a_byte_gets_no_figure() {
    let mut bench = Bench::new();
    bench.program("walzip", "for last; do :; done\n/bin/cat \"$last\"; echo");
    bench.segment("good", SEGMENT, b"123456789");
    let results = bench.run().unwrap();
    assert_eq!(results.measurements.len(), 1);
    assert!(
        results.failed[0]
            .reason
            .contains("the round trip changed the data")
    );
    assert!(results.summary[1].all.is_none());
    assert!(results.to_string().contains("walzip -3 FAILED on good/"));
}

#[test]
fn a_program_that_fails_once_is_not_tried_again_and_gets_no_figure() {
    let mut bench = Bench::new();
    // Fails from the second call on, when the first round trip has already succeeded.
    let count = bench.path("count");
    let script = format!(
        "if [ $1 = compress ]; then\n  [ -e {0} ] && {{ echo 'out of luck' >&2; exit 3; }}\n  : >{0}\nfi\n{1}",
        count.display(),
        crate::support::COPIES
    );
    bench.program("walzip", &script);
    bench.segment("good", SEGMENT, b"123456789");
    bench.options.runs = Some(4);
    let results = bench.run().unwrap();
    assert_eq!(results.measurements.len(), 4 + 1);
    assert_eq!(results.failed.len(), 1);
    assert_eq!(
        results.failed[0].reason,
        "walzip: exit status: 3: out of luck"
    );
    assert!(results.summary[1].all.is_none());
}

#[test]
fn nothing_of_the_environment_reaches_a_program() {
    let mut bench = Bench::new();
    let said = bench.path("environment");
    let script = format!(
        "/usr/bin/env >{}\n{}",
        said.display(),
        crate::support::COPIES
    );
    bench.program("lz4", &script);
    bench.options.contenders = vec!["lz4:1".parse().unwrap()];
    bench.segment("good", SEGMENT, b"123456789");
    bench.run().unwrap();
    let environment = std::fs::read_to_string(said).unwrap();
    let mut names: Vec<_> = environment
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["LC_ALL", "LZ4_NBWORKERS", "PATH", "TMPDIR"]);
}

/// Every program that is installed here, at its lowest and highest level on a small input.
#[test]
fn every_installed_contender_gives_back_what_it_was_given() {
    let mut bench = Bench::new();
    bench.options.search_path = std::env::var_os("PATH").unwrap();
    bench.options.contenders = CONTENDERS
        .iter()
        .filter(|contender| !contender.is_walzip())
        .flat_map(|contender| {
            [contender.levels.first(), contender.levels.last()].map(|level| (contender, level))
        })
        .map(|(contender, level)| {
            format!("{}:{}", contender.name, level.unwrap())
                .parse()
                .unwrap()
        })
        .collect();
    let text: Vec<u8> = (0..4000_u32)
        .flat_map(|number| (number / 7).to_le_bytes())
        .collect();
    bench.segment("oltp", SEGMENT, &text);
    let results = bench.run().unwrap();
    for missing in &results.missing {
        not_run(&missing.to_string());
    }
    let failures: Vec<_> = results.failed.iter().map(|failed| &failed.reason).collect();
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(results.measurements.len(), results.rows.len());
    assert!(
        results
            .measurements
            .iter()
            .all(|measurement| measurement.output_bytes < 16_000)
    );
}

/// Each line of the script's list: the names of a program, and its package.
fn installed_by_the_script() -> Vec<(Vec<String>, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = std::fs::read_to_string(root.join("scripts/bench-tools")).unwrap();
    let list = script.split("TOOLS=\"\\\n").nth(1).unwrap();
    let lines = list.split('"').next().unwrap().lines();
    lines
        .map(|line| {
            let (names, package) = line.split_once(' ').unwrap();
            let names = names.split(',').map(str::to_owned).collect();
            (names, package.trim().to_owned())
        })
        .collect()
}

#[test]
fn the_script_installs_every_package_in_the_table_and_no_other() {
    let mut of_table: Vec<(Vec<String>, String)> = CONTENDERS
        .iter()
        .filter(|contender| !contender.is_walzip())
        .map(|contender| {
            let mut names: Vec<_> = contender.programs.iter().map(ToString::to_string).collect();
            names.sort();
            (names, contender.package.to_owned())
        })
        .collect();
    // What every system has is not in the list.
    let ways = METHODS
        .iter()
        .filter(|way| !way.is_walzip() && way.package != "coreutils");
    of_table.extend(ways.map(|way| (vec![way.program.to_owned()], way.package.to_owned())));
    of_table.push((vec!["sshd".to_owned()], "openssh-server".to_owned()));
    let mut of_script = installed_by_the_script();
    of_script.iter_mut().for_each(|(names, _)| names.sort());
    of_script.sort();
    of_table.sort();
    of_table.dedup();
    assert_eq!(of_script, of_table);
}
