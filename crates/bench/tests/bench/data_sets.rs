//! The published data sets: downloaded, named in a manifest, and loaded. Here they come from files
//! beside the test, small and of the same kinds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use walzip_bench::Cancel;
use walzip_bench::basebackup::{PUBLISHED_SETS, manifest};
use walzip_bench::server::{Server, Settings};
use walzip_testing::not_run;

use crate::servers::installation;

const DEMO: &str = "DROP DATABASE demo;\nCREATE DATABASE demo;\n\\connect demo\n\
    CREATE TABLE flights AS SELECT 1 AS flight;\n";
const TRIP: &str =
    "1,2021-01-01 00:30:10,2021-01-01 00:36:12,1,2.10,1,N,142,43,2,8,3,0.5,0,0,0.3,11.8,2.5";
const POSTS: &str = "<?xml version=\"1.0\"?><posts>\
    <row Id=\"1\" PostTypeId=\"1\" CreationDate=\"2010-07-28T19:04:21.300\" Score=\"12\" \
    Body=\"&lt;p&gt;a, &quot;b&quot;&#xA;c&lt;/p&gt;\" /></posts>";
const HISTORY: &str = "<?xml version=\"1.0\"?><posthistory>\
    <row Id=\"7\" PostHistoryTypeId=\"2\" PostId=\"1\" Text=\"\" \
    RevisionGUID=\"5bcf1f71-2074-4bd3-9d4f-5a1f3a1e9b3d\" /></posthistory>";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs in a directory.
fn run(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(words[0]);
    let output = command.args(&words[1..]).current_dir(directory).output();
    output.unwrap_or_else(|error| panic!("{}: {error}", words[0]))
}

fn succeed(directory: &Path, words: &[&str]) {
    let output = run(directory, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
}

fn script() -> String {
    let script = root().join("scripts/fetch-data-sets");
    script.to_str().unwrap().to_owned()
}

/// Whether everything is there that the script runs; says so if not.
fn has_programs() -> bool {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |name: &str| std::env::split_paths(&search_path).any(|at| at.join(name).is_file());
    let missing = ["curl", "python3", "7zz"]
        .into_iter()
        .find(|name| !is_there(name));
    if let Some(name) = missing {
        not_run(&format!(
            "data sets are not downloaded: {name} is not installed"
        ));
    }
    missing.is_none()
}

/// What providers would send, and the table of where it is.
fn write_sources(directory: &Path, server: &Server) {
    let at = |name: &str| directory.join(name);
    server
        .sql("CREATE TABLE title AS SELECT n FROM generate_series(1, 100) n")
        .unwrap();
    let dump = at("imdb.dump");
    let to = ["-Fc", "-f", dump.to_str().unwrap()];
    server.client_output("pg_dump", &to).unwrap();
    server.sql("DROP TABLE title").unwrap();
    for month in 1..=12 {
        fs::write(
            at(&format!("trips-{month:02}.csv")),
            format!("head\n{TRIP}\n"),
        )
        .unwrap();
    }
    fs::write(at("demo.sql"), DEMO).unwrap();
    succeed(
        directory,
        &["python3", "-m", "zipfile", "-c", "demo.zip", "demo.sql"],
    );
    fs::write(at("Posts.xml"), POSTS).unwrap();
    fs::write(at("PostHistory.xml"), HISTORY).unwrap();
    succeed(
        directory,
        &["7zz", "a", "ask.7z", "Posts.xml", "PostHistory.xml"],
    );
    let sources = [
        ("imdb", "imdb.dump"),
        ("nyc_taxi_rides", "trips-MM.csv"),
        ("postgrespro_demodb_big", "demo.zip"),
        ("stackexchange_askubuntu", "ask.7z"),
    ];
    let lines = sources.map(|(name, file)| {
        let url = format!("file://{}", at(file).display());
        format!("{name}\t0\t0\tnone\there\t{url}\n")
    });
    fs::write(at("sources.tsv"), lines.concat()).unwrap();
}

#[test]
fn published_data_sets_are_downloaded_and_loaded() {
    if !has_programs() {
        return;
    }
    let servers = TempDir::new().unwrap();
    let Some(installation) = installation(servers.path(), &Cancel::default()) else {
        return;
    };
    let server = installation.start(&Settings::volatile()).unwrap();
    let directory = TempDir::new_in(server.host()).unwrap();
    write_sources(directory.path(), &server);
    let (script, sources) = (script(), directory.path().join("sources.tsv"));
    let fetch = [&*script, "--sources", sources.to_str().unwrap(), "sets"];
    succeed(directory.path(), &fetch);
    let path = directory.path().join("sets/manifest.toml");
    let written = fs::read_to_string(&path).unwrap();
    let data_sets = manifest(&path).unwrap();
    assert_eq!(data_sets.len(), 4, "{written}");

    // What is there is not fetched again: the sources may be gone.
    for file in ["imdb.dump", "demo.zip", "ask.7z", "trips-01.csv"] {
        fs::remove_file(directory.path().join(file)).unwrap();
    }
    succeed(directory.path(), &fetch);
    assert_eq!(fs::read_to_string(&path).unwrap(), written);
    // One that is fetched alone keeps the others in the manifest.
    succeed(directory.path(), &[&fetch[..], &["imdb"]].concat());
    assert_eq!(fs::read_to_string(&path).unwrap(), written);

    for data_set in &data_sets {
        data_set.load(&server).unwrap();
    }
    let counted = [
        ("SELECT count(*) FROM title", "100"),
        ("SELECT count(*), sum(fare) FROM trips", "12|96"),
        ("SELECT score, body FROM posts", "12|<p>a, \"b\"\nc</p>"),
        (
            "SELECT count(*) FROM post_history WHERE \"PostId\" = 1",
            "1",
        ),
        (
            "SELECT count(*) FROM pg_database WHERE datname = 'demo'",
            "1",
        ),
    ];
    for (query, expected) in counted {
        let query = query.replace("score, body", "\"Score\", \"Body\"");
        assert_eq!(server.sql(&query).unwrap(), expected, "{query}");
    }

    // What a command makes, and one that is not there.
    let of = |command: &str| {
        let text = format!("[[data_set]]\nname = \"made\"\ncommands = [{command}]\n");
        fs::write(&path, text).unwrap();
        manifest(&path).unwrap()[0].load(&server)
    };
    of("[\"pgbench\", \"--initialize\", \"--quiet\", \"--scale=1\"]").unwrap();
    let made = server.sql("SELECT count(*) FROM pgbench_accounts").unwrap();
    assert_eq!(made, "100000");
    let error = of("[\"no-such-loader\"]").unwrap_err().to_string();
    assert!(error.contains("no-such-loader is not installed"), "{error}");
    server.stop().unwrap();
}

#[test]
fn every_published_data_set_has_a_source_and_its_size() {
    let table = fs::read_to_string(root().join("scripts/data-sets.tsv")).unwrap();
    let lines: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
        .collect();
    let of_table: Vec<(&str, f64)> = lines
        .iter()
        .map(|fields| (fields[0], fields[2].parse().unwrap()))
        .collect();
    let published: Vec<(&str, f64)> = PUBLISHED_SETS
        .iter()
        .map(|set| (set.name, set.gigabytes))
        .collect();
    assert_eq!(of_table, published);
    let fetches = fs::read_to_string(script()).unwrap();
    for fields in &lines {
        assert_eq!(fields.len(), 6, "{fields:?}");
        assert!(fetches.contains(&format!("fetch_{}() {{", fields[0])));
    }
}

#[test]
fn a_source_that_cannot_be_reached_leaves_no_manifest_and_says_so() {
    if !has_programs() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let sources = directory.path().join("sources.tsv");
    fs::write(
        &sources,
        "imdb\t0\t0\tnone\there\tfile:///absent/imdb.dump\n",
    )
    .unwrap();
    let (script, sources) = (script(), sources.to_str().unwrap().to_owned());
    let of = |name: &str| {
        run(
            directory.path(),
            &[&script, "--sources", &sources, "sets", name],
        )
    };
    let output = of("imdb");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is there a network?"), "{said}");
    assert!(!directory.path().join("sets/manifest.toml").exists());
    let output = of("imdbb");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no data set imdbb: imdb"), "{said}");
}
