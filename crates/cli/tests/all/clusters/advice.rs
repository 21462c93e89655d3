//! `advise` on live servers: it asks, reads, and changes nothing.

use serde_json::Value;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, majors_with_servers, said, succeed};

#[test]
fn every_major_is_asked_for_its_settings_and_its_segments() {
    for major in majors_with_servers() {
        let Some(site) = Site::new(major) else {
            continue;
        };
        let server = Server::create(&site, "asked", 1);
        server.configure("archive_timeout = 90\ncheckpoint_timeout = 7min\nlog_statement = all");
        server.start(&[]);
        server.sql(
            "CREATE TABLE t AS SELECT i, md5(i::text) AS text FROM generate_series(1, 40000) AS i",
        );
        server.sql("CHECKPOINT");
        server.sql("UPDATE t SET text = 'changed' WHERE i % 7 = 0");
        let socket = server.socket();
        let socket = socket.to_str().expect("a readable path");
        let arguments = [
            "advise",
            "--json",
            "--contender",
            "walzip:1",
            "--segments",
            "2",
            "-h",
            socket,
            "-U",
            "tester",
        ];
        let mut advise = server.walzip(&arguments);
        advise.env("TMPDIR", site.create_directory("tmp"));
        let advice: Value = serde_json::from_str(&succeed(&mut advise)).expect("JSON");
        let asked = &advice["server"];
        assert_eq!(asked["major"], major);
        assert_eq!(asked["settings"]["archive_timeout"], "90");
        assert_eq!(asked["settings"]["checkpoint_timeout"], "420");
        assert_eq!(asked["settings"]["wal_segment_size"], "1048576");
        assert_eq!(asked["wal"].is_null(), major < 14);
        // Counted later than asked, so that only the place of the figure is certain.
        assert!(asked["checkpoints"]["requested"].is_u64(), "{asked}");
        assert_eq!(advice["sources"][0]["name"], "the server's pg_wal");
        assert_eq!(advice["measured_segments"], 2);
        assert_eq!(advice["wal"]["majors"][0], major);
        assert!(advice["wal"]["stretches"][0]["image_bytes"].as_u64() > Some(0));
        let left = std::fs::read_dir(site.path("tmp"))
            .expect("readable")
            .count();
        assert_eq!(left, 0, "temporary files were left behind");
        only_reads(&server.log());
        server.stop();
    }
}

#[test]
fn inspect_names_the_relations_of_every_database_as_the_server_does() {
    let Some(major) = majors_with_servers().into_iter().next_back() else {
        return;
    };
    let Some(site) = Site::new(major) else {
        return;
    };
    let server = Server::create(&site, "named", 1);
    server.start(&[]);
    server.sql("CREATE TABLE \"Odd name\" AS SELECT i FROM generate_series(1, 200000) AS i");
    server.sql("CREATE DATABASE other");
    server.sql("\\c other\nCREATE TABLE elsewhere AS SELECT i FROM generate_series(1, 2000) AS i");
    server.sql("CREATE DATABASE closed");
    server.sql("ALTER DATABASE closed CONNECTION LIMIT 0");
    server.sql("CREATE ROLE reader LOGIN");
    server.sql("SELECT pg_switch_wal()");
    let wal = server.data().join("pg_wal");
    let mut segments: Vec<_> = std::fs::read_dir(&wal)
        .expect("readable")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    segments.sort();
    let socket = server.socket();
    let mut inspect = server.walzip(&["inspect", "--rmgr", "Heap", "--rmgr", "Heap2"]);
    inspect
        .arg("-h")
        .arg(&socket)
        .args(["-U", "reader", "-d", "postgres"]);
    inspect.args(&segments[..segments.len() - 1]);
    let output = inspect.output().expect("walzip starts");
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), said(&output));
    assert!(output.status.success(), "{said}");
    assert!(shown.contains("postgres.public.\"Odd name\""), "{shown}");
    assert!(shown.contains("other.public.elsewhere"), "{shown}");
    // What a role may not ask keeps its numbers, and that is said.
    assert!(
        said.contains("the relations of database closed have no names"),
        "{said}"
    );
    inspect.arg("--json");
    let found: Value = serde_json::from_str(&succeed(&mut inspect)).expect("JSON");
    let relations = found["relations"].as_array().expect("relations");
    let is_named = |relation: &Value| relation["name"] == "other.public.elsewhere";
    assert!(relations.iter().any(is_named), "{relations:?}");
    server.stop();
}

#[test]
fn segments_of_another_cluster_get_no_names_and_no_advice() {
    let Some(site) = Site::new(15) else { return };
    let server = Server::create(&site, "asked", 1);
    server.start(&[]);
    let foreign = site.path("foreign");
    std::fs::write(&foreign, crate::sandbox::segment(1)).expect("writable");
    let socket = server.socket();
    let ask = |arguments: &[&str]| {
        let mut walzip = server.walzip(arguments);
        walzip.arg(&foreign).arg("-h").arg(&socket);
        let output = walzip.args(["-U", "tester", "-d", "postgres"]).output();
        output.expect("walzip starts")
    };
    let inspected = ask(&["inspect"]);
    let warned = said(&inspected);
    assert!(inspected.status.success(), "{warned}");
    assert!(
        warned.contains("the relations have no names") && warned.contains("7600000000000000001"),
        "{warned}"
    );
    let advised = ask(&["advise", "--contender", "walzip:1"]);
    let refused = said(&advised);
    assert_eq!(advised.status.code(), Some(44), "{refused}");
    assert!(
        refused.contains("none of the segments is of this server")
            && refused.contains("7600000000000000001"),
        "{refused}"
    );
    server.sql("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC");
    server.sql("CREATE ROLE reader LOGIN");
    let mut inspect = server.walzip(&["inspect"]);
    inspect.arg(&foreign).arg("-h").arg(&socket);
    let output = inspect.args(["-U", "reader", "-d", "postgres"]).output();
    let output = output.expect("walzip starts");
    let unknown = said(&output);
    assert!(
        output.status.success() && unknown.contains("may not execute pg_control_system()"),
        "{unknown}"
    );
    server.stop();
}

/// Every statement of advise, whose session begins by forbidding itself to write.
fn only_reads(log: &str) {
    let begins = log.find("SET default_transaction_read_only = on");
    let asked = &log[begins.expect("the session is read-only")..];
    let statements: Vec<&str> = asked
        .lines()
        .filter_map(|line| line.split_once("statement: "))
        .map(|(_, statement)| statement)
        .collect();
    assert!(statements.len() > 5, "{log}");
    for statement in &statements[1..] {
        assert!(statement.starts_with("SELECT "), "{statement}");
    }
}

#[test]
fn a_role_that_may_not_read_segments_is_told_what_to_do() {
    let Some(site) = Site::new(15) else { return };
    let server = Server::create(&site, "closed", 1);
    server.start(&[]);
    server.sql("CREATE ROLE guest LOGIN");
    let socket = server.socket();
    let socket = socket.to_str().expect("a readable path");
    let arguments = ["advise", "-h", socket, "-U", "guest"];
    let output = server.walzip(&arguments).output().expect("walzip starts");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(57), "{said}");
    assert!(said.contains("hint: Name --pg-wal or --repo"), "{said}");
    server.stop();
}
