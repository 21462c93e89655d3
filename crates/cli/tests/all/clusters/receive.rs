//! `walzip receive`: WAL as it is written, from real servers.

use std::fs;
use std::path::PathBuf;

use crate::clusters::object_store::{archived_files, assert_no_gaps};
use crate::clusters::receiver::{
    self, DIRECTORY, FIRST, Receiver, local_names, switch_segment, wait, wait_until_archived,
};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};
use crate::clusters::small_disk::SmallDisk;

/// A server that archives nothing itself, started.
fn primary(site: &Site) -> Server<'_> {
    let server = Server::create(site, "primary", 1);
    succeed(&mut server.walzip(&["init"]));
    server.configure(
        "wal_level = replica\nmax_wal_senders = 4\nmax_wal_size = 64MB\nwal_keep_size = 512MB",
    );
    server.start(&[]);
    server
}

/// The path of a file in the local directory.
fn local(site: &Site, name: &str) -> PathBuf {
    site.path(DIRECTORY).join(name)
}

#[test]
fn what_is_received_of_13_is_what_its_archive_command_archives() {
    receives_what_is_archived(13);
}

#[test]
fn what_is_received_of_15_is_what_its_archive_command_archives() {
    receives_what_is_archived(15);
}

#[test]
fn what_is_received_of_18_is_what_its_archive_command_archives() {
    receives_what_is_archived(18);
}

fn receives_what_is_archived(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let server = Server::create(&site, "primary", 1);
    succeed(&mut server.walzip(&["init"]));
    let plain = site.create_directory("plain");
    server.configure(&format!(
        "wal_level = replica\nmax_wal_senders = 4\nmax_wal_size = 64MB\narchive_mode = on\n\
         archive_command = 'cp %p {}/%f'",
        plain.display()
    ));
    server.start(&[]);
    let first = Receiver::start_streaming(&site, &server, FIRST);
    server.pgbench(&["-i", "-q", "-s", "1"]);
    switch_segment(&server);
    // Another one goes on where the first one was.
    first.stop();
    assert!(receiver::log(&site).contains("received and synced in"));
    let second = Receiver::start_streaming(&site, &server, &[]);
    server.pgbench(&["-t", "200"]);
    let last = switch_segment(&server);
    server.sql("CREATE TABLE after_the_switch ()");
    wait_until_archived(&site, &last);
    server.wait_until(&format!(
        "SELECT coalesce(last_archived_wal >= '{last}', false) FROM pg_stat_archiver"
    ));

    let archived = archived_files(&site);
    assert_no_gaps(&archived);
    for (name, content) in &archived {
        let original = fs::read(plain.join(name)).expect("archived by the server");
        assert!(*content == original, "{name} differs");
    }
    assert!(archived.len() > 10, "only {} segments", archived.len());
    assert_partial_is_prefix(&site, &server);
    second.stop();
    let whole = local_names(&site, "");
    assert!(
        matches!(whole.as_slice(), [one] if one.ends_with(".partial")),
        "{whole:?}"
    );
}

/// The partial segment holds what the server says is synced there.
#[track_caller]
fn assert_partial_is_prefix(site: &Site, server: &Server) {
    server.wait_until("SELECT flush_lsn = pg_current_wal_flush_lsn() FROM pg_stat_replication");
    let position = server.sql(
        "SELECT file_name || ' ' || file_offset
         FROM pg_stat_replication, pg_walfile_name_offset(flush_lsn)",
    );
    let (name, offset) = position.split_once(' ').expect("a name and an offset");
    let offset: usize = offset.parse().expect("a number");
    let partial = fs::read(local(site, &format!("{name}.partial"))).expect("a partial segment");
    let original = fs::read(server.data().join("pg_wal").join(name)).expect("the segment");
    assert_eq!(partial.len(), original.len());
    assert!(
        offset > 0 && partial[..offset] == original[..offset],
        "{name} differs"
    );
}

#[test]
fn a_repository_that_is_away_holds_up_nothing_and_gets_everything_later() {
    let Some(site) = Site::new(15) else { return };
    let server = primary(&site);
    let mut receiver = Receiver::start_streaming(&site, &server, FIRST);
    // A backup finds its WAL in the repository, although the server archives nothing.
    succeed(&mut server.walzip(&["backup"]));
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'walzip'");
    server.sql("SELECT pg_reload_conf()");
    let away = site.path("repository.away");
    fs::rename(site.repository(), &away).expect("moved away");
    // Each commit waits until it is synced in the directory.
    server.pgbench(&["-i", "-q", "-s", "1"]);
    receiver.wait_until_said("trying again in 2 s");
    assert!(receiver.log().contains("warning: 0000000100000000000000"));
    let waiting = local_names(&site, "").len();
    assert!(waiting > 5, "only {waiting} files wait");
    // One that is started meanwhile brings in what is there already.
    receiver.kill();
    let receiver = Receiver::start_streaming(&site, &server, &[]);
    fs::rename(&away, site.repository()).expect("moved back");
    let last = switch_segment(&server);
    wait_until_archived(&site, &last);
    wait(&site, "an empty directory", || {
        local_names(&site, "")
            .iter()
            .all(|name| name.ends_with(".partial"))
    });
    assert_no_gaps(&archived_files(&site));
    assert!(receiver::assert_same_as_in_pg_wal(&site, &server) > 5);
    succeed(&mut site.walzip(&["verify"]));

    // What is committed last is in the directory only.
    server.sql("CREATE TABLE newest AS SELECT 42 AS number");
    server.crash();
    let restored = Server::on(&site, "restored");
    succeed(restored.walzip(&["restore", "-D"]).arg(restored.data()));
    receiver::copy_local_wal(&site, &restored);
    restored.start(&["synchronous_standby_names="]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.sql("SELECT number FROM newest"), "42");
    receiver.stop();
}

/// A repository that was away makes room as it takes what waits.
#[test]
fn a_full_directory_waits_for_the_repositories() {
    let Some(site) = Site::new(15) else { return };
    let server = primary(&site);
    let Some(disk) = SmallDisk::mount(&site, site.create_directory(DIRECTORY), "6m") else {
        return;
    };
    let receiver = Receiver::start_streaming(&site, &server, FIRST);
    let away = site.path("repository.away");
    fs::rename(site.repository(), &away).expect("moved away");
    server.pgbench(&["-i", "-q", "-s", "2"]);
    receiver.wait_until_said("until the repositories have taken");
    assert!(receiver.log().contains("No space left on device"));
    fs::rename(&away, site.repository()).expect("moved back");
    let last = switch_segment(&server);
    wait_until_archived(&site, &last);
    assert_no_gaps(&archived_files(&site));
    assert!(receiver::assert_same_as_in_pg_wal(&site, &server) > 20);
    receiver.stop();
    drop(disk);
}

/// Nothing that waits could make room.
#[test]
fn a_full_directory_in_which_nothing_waits_is_an_error() {
    let Some(site) = Site::new(15) else { return };
    let server = primary(&site);
    let directory = site.create_directory(DIRECTORY);
    let Some(_disk) = SmallDisk::mount(&site, directory, "512k") else {
        return;
    };
    let receiver = Receiver::start(&site, &server, FIRST);
    let status = receiver.wait();
    assert_eq!(status.code(), Some(64));
    assert!(receiver::log(&site).contains("Make room there"));
}

#[test]
fn a_directory_has_one_receiver_and_one_cluster() {
    let Some(site) = Site::new(15) else { return };
    let server = primary(&site);
    let receiver = Receiver::start_streaming(&site, &server, FIRST);
    server.sql("CREATE TABLE something ()");
    wait(&site, "a segment", || !local_names(&site, "").is_empty());
    let arguments = ["receive", "--slot", "walzip", "-D"];
    let second = server.walzip(&arguments).arg(site.path(DIRECTORY)).output();
    let second = second.expect("walzip runs");
    assert_eq!(second.status.code(), Some(31), "{}", said(&second));
    assert!(
        said(&second).contains("another process receives into"),
        "{}",
        said(&second)
    );
    receiver.stop();

    let other = Server::create(&site, "other", 1);
    other.start(&[]);
    let refused = other.walzip(&arguments).arg(site.path(DIRECTORY)).output();
    let refused = refused.expect("walzip runs");
    assert_eq!(refused.status.code(), Some(44), "{}", said(&refused));
    site.create_directory("empty");
    let wrong = other.walzip(&arguments).arg(site.path("empty")).output();
    let wrong = wrong.expect("walzip runs");
    assert_eq!(wrong.status.code(), Some(44), "{}", said(&wrong));
    assert!(
        said(&wrong).contains("the server belongs to"),
        "{}",
        said(&wrong)
    );
    assert!(
        said(&refused).contains("and the server is"),
        "{}",
        said(&refused)
    );
}

#[test]
fn a_server_that_goes_away_is_waited_for_unless_that_is_not_wanted() {
    let Some(site) = Site::new(15) else { return };
    let server = primary(&site);
    let receiver = Receiver::start_streaming(&site, &server, FIRST);
    server.sql("CREATE TABLE before ()");
    server.stop();
    receiver.wait_until_said("trying again in 1 s");
    server.start(&[]);
    server.sql("CREATE TABLE after ()");
    let last = switch_segment(&server);
    wait_until_archived(&site, &last);
    // Its WAL ends with the segment now, and has to after a crash.
    server.crash();
    server.start(&[]);
    server.sql("CREATE TABLE after_the_crash ()");
    let last = switch_segment(&server);
    wait_until_archived(&site, &last);
    receiver.stop();

    let receiver = Receiver::start_streaming(&site, &server, &["--no-loop"]);
    server.stop();
    assert_eq!(receiver.wait().code(), Some(56), "{}", receiver::log(&site));
    // Whole segments are archived although the server is not there any more.
    let name = local_names(&site, "").pop().expect("a partial segment");
    let whole = name.strip_suffix(".partial").expect("a partial segment");
    fs::rename(local(&site, &name), local(&site, whole)).expect("renamed");
    let receiver = Receiver::start(&site, &server, &[]);
    wait_until_archived(&site, whole);
    receiver.stop();
}

#[test]
fn a_server_that_was_set_back_is_refused() {
    let Some(site) = Site::new(15) else { return };
    let server = primary(&site);
    server.sql("SELECT pg_create_physical_replication_slot('walzip', true)");
    server.stop();
    let earlier = site.path("earlier");
    receiver::copy(&server.data(), &earlier);
    server.start(&[]);
    let receiver = Receiver::start_streaming(&site, &server, &[]);
    server.sql("CREATE TABLE lost ()");
    switch_segment(&server);
    let last = switch_segment(&server);
    wait_until_archived(&site, &last);
    server.sql("CREATE TABLE lost_too ()");
    wait(&site, "a segment", || !local_names(&site, "").is_empty());
    receiver.stop();
    server.stop();
    fs::remove_dir_all(server.data()).expect("removed");
    receiver::copy(&earlier, &server.data());
    server.start(&[]);
    // The directory knows it, and without it the repository.
    site.create_directory("empty");
    for directory in [DIRECTORY, "empty"] {
        let arguments = ["receive", "--slot", "walzip", "-D"];
        let output = server.walzip(&arguments).arg(site.path(directory)).output();
        let output = output.expect("walzip runs");
        assert_eq!(output.status.code(), Some(110), "{}", said(&output));
        let words = "the server has gone another way";
        assert!(said(&output).contains(words), "{}", said(&output));
    }
}

/// Within the segment that is being received: nothing that comes next is missing, and what would
/// come is another.
#[test]
fn a_server_that_was_set_back_within_a_segment_is_refused() {
    let Some(site) = Site::new(15) else { return };
    let server = primary(&site);
    server.sql("SELECT pg_create_physical_replication_slot('walzip', true)");
    // The copy's WAL ends where the next segment begins, but for a checkpoint.
    switch_segment(&server);
    server.stop();
    let earlier = site.path("earlier");
    receiver::copy(&server.data(), &earlier);
    server.start(&[]);
    let receiver = Receiver::start_streaming(&site, &server, &[]);
    server.sql("CREATE TABLE lost AS SELECT generate_series(1, 1000)");
    server.wait_until("SELECT flush_lsn = pg_current_wal_flush_lsn() FROM pg_stat_replication");
    receiver.stop();
    server.stop();
    fs::remove_dir_all(server.data()).expect("removed");
    receiver::copy(&earlier, &server.data());
    server.start(&[]);
    let arguments = ["receive", "--slot", "walzip", "-D"];
    let output = server.walzip(&arguments).arg(site.path(DIRECTORY)).output();
    let output = output.expect("walzip runs");
    assert_eq!(output.status.code(), Some(110), "{}", said(&output));
    let words = "was received, and the server's ends at";
    assert!(said(&output).contains(words), "{}", said(&output));
}

/// PostgreSQL keeps its WAL for an archiver that has nothing to call, whoever else brings it.
#[test]
fn a_check_fails_where_an_empty_command_keeps_what_is_received() {
    let Some(site) = Site::new(15) else { return };
    let server = primary(&site);
    server.stop();
    server.configure("archive_mode = on\narchive_command = ''");
    server.start(&[]);
    let receiver = Receiver::start_streaming(&site, &server, FIRST);
    let output = server.walzip(&["check"]).output().expect("walzip runs");
    assert_eq!(output.status.code(), Some(31), "{}", said(&output));
    for words in ["archive_command is empty", "set archive_mode = off"] {
        assert!(said(&output).contains(words), "{}", said(&output));
    }
    receiver.stop();
}

#[test]
fn info_and_check_say_that_wal_is_received_and_how_far() {
    let Some(site) = Site::new(15) else { return };
    let server = primary(&site);
    let receiver = Receiver::start_streaming(&site, &server, FIRST);
    let checked = succeed(&mut server.walzip(&["check"]));
    let words = "\"walzip receive\" brings WAL here; the server archives nothing itself";
    assert!(checked.contains(words), "{checked}");
    server.sql("CREATE TABLE something ()");
    server.wait_until("SELECT flush_lsn = pg_current_wal_flush_lsn() FROM pg_stat_replication");
    let directory = site.path(DIRECTORY);
    let info = |arguments: &[&str]| {
        let mut command = server.walzip(&["info"]);
        command.env("WALZIP_RECEIVE_DIRECTORY", &directory);
        succeed(command.args(arguments))
    };
    let json: serde_json::Value = serde_json::from_str(&info(&["--json"])).expect("JSON");
    let received = &json["received"];
    assert_eq!(received["is_receiving"], true, "{received}");
    let to = received["received_to"].as_str().expect("a position");
    let is_all = format!("SELECT '{to}'::pg_lsn + 8 >= pg_current_wal_flush_lsn()");
    assert_eq!(server.sql(&is_all), "t", "{to}");
    let unfinished = received["unfinished_segment"].as_str().expect("a segment");
    assert_eq!(local_names(&site, ""), [format!("{unfinished}.partial")]);
    receiver.stop();
    let text = info(&[]);
    let line = format!(
        "received in {}: up to {to} on timeline 1, ",
        directory.display()
    );
    assert!(text.contains(&line), "{text}");
    let end = format!("unfinished: {unfinished}; NOBODY RECEIVES");
    assert!(text.contains(&end), "{text}");
}

#[test]
fn a_slot_of_15_that_was_lost_is_an_error_and_no_hole_is_silent() {
    says_that_wal_was_removed(15);
}

#[test]
fn a_slot_of_18_that_was_lost_is_an_error_and_no_hole_is_silent() {
    says_that_wal_was_removed(18);
}

fn says_that_wal_was_removed(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let server = Server::create(&site, "primary", 1);
    succeed(&mut server.walzip(&["init"]));
    server.configure(
        "wal_level = replica\nmax_wal_senders = 4\nmin_wal_size = 2MB\nmax_wal_size = 4MB\n\
         max_slot_wal_keep_size = 2MB",
    );
    server.start(&[]);
    let receiver = Receiver::start_streaming(&site, &server, FIRST);
    let archived = switch_segment(&server);
    wait_until_archived(&site, &archived);
    server.sql("CREATE TABLE something ()");
    wait(&site, "a segment", || !local_names(&site, "").is_empty());
    receiver.stop();
    let [partial] = local_names(&site, "").try_into().expect("one file");
    server.pgbench(&["-i", "-q", "-s", "1"]);
    server.sql("CHECKPOINT");
    server.wait_until("SELECT wal_status = 'lost' FROM pg_replication_slots");

    let fails = |directory: &str, code: i32, words: &[&str]| {
        let arguments = ["receive", "--slot", "walzip", "-D"];
        let output = server.walzip(&arguments).arg(site.path(directory)).output();
        let output = output.expect("walzip runs");
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        for word in words {
            assert!(
                said(&output).contains(word),
                "{word:?} in {}",
                said(&output)
            );
        }
    };
    let missing = partial.strip_suffix(".partial").expect("a partial segment");
    let missing = format!("the server no longer has {missing}");
    match major {
        15 => fails(DIRECTORY, 111, &[&missing, "--accept-gap"]),
        _ => fails(
            DIRECTORY,
            57,
            &["the slot walzip cannot be used", "--create-slot"],
        ),
    }
    // A new slot begins later. With what is in the directory, and without it, since the repository
    // has an end too, the hole is seen.
    server.sql("SELECT pg_drop_replication_slot('walzip')");
    fails(
        DIRECTORY,
        57,
        &["the slot walzip cannot be used", "--create-slot"],
    );
    server.sql("SELECT pg_create_physical_replication_slot('walzip', true)");
    let position = || server.sql("SELECT restart_lsn FROM pg_replication_slots");
    let before = position();
    site.create_directory("empty");
    for directory in [DIRECTORY, "empty"] {
        fails(directory, 111, &[&missing, "--accept-gap"]);
    }
    assert_eq!(
        position(),
        before,
        "an attempt that fails must not move the slot"
    );
    assert_eq!(local_names(&site, ""), std::slice::from_ref(&partial));
    let receiver = Receiver::start_streaming(&site, &server, &["--accept-gap"]);
    receiver.wait_until_said("going on behind the gap");
    let last = switch_segment(&server);
    wait_until_archived(&site, &last);
    wait_until_archived(&site, &partial);
    receiver.stop();
}
