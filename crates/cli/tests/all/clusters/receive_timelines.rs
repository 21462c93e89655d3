//! `walzip receive` from a standby that is promoted.

use std::fs;

use crate::clusters::object_store::archived_files;
use crate::clusters::receiver::{
    self, FIRST, Random, Receiver, copy, local_names, restored_answer, rounds, switch_segment,
    wait, wait_until_archived,
};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

const SEGMENT_SIZE: u64 = 1 << 20;

#[test]
fn a_promotion_of_13_is_followed_without_a_gap() {
    follows_promotions(13);
}

#[test]
fn a_promotion_of_18_is_followed_without_a_gap() {
    follows_promotions(18);
}

fn follows_promotions(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = Server::create(&site, "primary", 1);
    succeed(&mut primary.walzip(&["init"]));
    primary.configure(
        "wal_level = replica\nmax_wal_senders = 4\nmax_wal_size = 64MB\nwal_keep_size = 512MB\n\
         hot_standby = on",
    );
    primary.start(&[]);
    primary.sql("CREATE TABLE row (body text)");
    primary.stop();
    let base = site.path("base");
    copy(&primary.data(), &base);
    copy(&primary.data(), &site.path("standby"));
    primary.start(&[]);
    let standby = Server::on(&site, "standby");
    standby.configure(&format!(
        "primary_conninfo = 'host={} port=5432 user=tester'",
        primary.socket().display()
    ));
    make_standby(&site, &standby);
    standby.start(&[]);

    let mut receiver = Receiver::start_streaming(&site, &standby, FIRST);
    switch_segment(&primary);
    primary.sql("INSERT INTO row VALUES ('of timeline 1')");
    standby.wait_until("SELECT count(*) = 1 FROM row");
    primary.stop();
    promote(&standby, "of timeline 2");
    let old = assert_switched(&site, &standby, 2);
    assert_eq!(local_names(&site, "left"), Vec::<String>::new());

    // The next promotion is while nobody receives.
    receiver.kill();
    standby.stop();
    make_standby(&site, &standby);
    standby.start(&[]);
    promote(&standby, "of timeline 3");
    let receiver = Receiver::start_streaming(&site, &standby, &[]);
    let new = assert_switched(&site, &standby, 3);
    assert!(old < new, "{old} {new}");
    assert!(receiver::assert_same_as_in_pg_wal(&site, &standby) > 3);
    let bodies = "SELECT string_agg(body, ', ' ORDER BY body) FROM row";
    let expected = "of timeline 1, of timeline 2, of timeline 3";
    assert_eq!(restored_answer(&site, &base, major, bodies), expected);
    receiver.stop();
}

#[test]
fn a_receiver_that_is_killed_during_a_promotion_follows_it_all_the_same() {
    let Some(site) = Site::new(15) else { return };
    let server = Server::create(&site, "primary", 1);
    succeed(&mut server.walzip(&["init"]));
    server.configure(
        "wal_level = replica\nmax_wal_senders = 4\nmax_wal_size = 64MB\nwal_keep_size = 512MB\n\
         hot_standby = on",
    );
    server.start(&[]);
    server.sql("CREATE TABLE row (body text)");
    server.stop();
    let base = site.path("base");
    copy(&server.data(), &base);
    server.start(&[]);
    let mut receiver = Receiver::start_streaming(&site, &server, FIRST);
    let mut random = Random::seeded();
    for round in 0..rounds() {
        server.stop();
        make_standby(&site, &server);
        server.start(&[]);
        receiver.kill();
        receiver = Receiver::start_streaming(&site, &server, &[]);
        server.sql("SELECT pg_promote(false)");
        let delay = random.delay(300);
        std::thread::sleep(delay);
        receiver.kill();
        println!("round {round}: killed {delay:?} after the promotion");
        receiver = Receiver::start(&site, &server, &[]);
        server.wait_until("SELECT NOT pg_is_in_recovery()");
        server.sql(&format!("INSERT INTO row VALUES ('round {round}')"));
        assert_switched(&site, &server, round + 2);
        assert!(local_names(&site, "left").is_empty());
    }
    assert!(receiver::assert_same_as_in_pg_wal(&site, &server) > 3);
    let count = restored_answer(&site, &base, 15, "SELECT count(*) FROM row");
    assert_eq!(count, rounds().to_string());
    receiver.stop();
}

#[test]
fn what_only_the_receiver_has_after_a_failover_is_kept_or_refused() {
    let Some(site) = Site::new(15) else { return };
    let old = Server::create(&site, "old", 1);
    succeed(&mut old.walzip(&["init"]));
    old.configure(
        "wal_level = replica\nmax_wal_senders = 4\nmax_wal_size = 64MB\nwal_keep_size = 512MB",
    );
    old.start(&[]);
    old.sql("CREATE TABLE row (body text)");
    let receiver = Receiver::start_streaming(&site, &old, FIRST);
    succeed(&mut old.walzip(&["backup"]));
    receiver.stop();
    old.sql("SELECT pg_drop_replication_slot('walzip')");
    // Two standbys, which will leave the timeline at different positions.
    let (near, far) = (Server::on(&site, "near"), Server::on(&site, "far"));
    for standby in [&near, &far] {
        old.sql("INSERT INTO row VALUES ('before')");
        old.stop();
        copy(&old.data(), &standby.data());
        make_standby(&site, standby);
        old.start(&[]);
    }
    let mut receiver = Receiver::start_streaming(&site, &old, FIRST);
    old.sql("INSERT INTO row VALUES ('only the receiver has this')");
    old.wait_until("SELECT flush_lsn = pg_current_wal_flush_lsn() FROM pg_stat_replication");
    old.crash();
    receiver.kill();

    // Within the segment: the old timeline's last segment is archived with all that was received.
    near.start(&[]);
    promote(&near, "of timeline 2");
    let receiver = Receiver::start_streaming(&site, &near, FIRST);
    receiver.wait_until_said("the server DOES NOT HAVE commits that were received after ");
    let last = switch_segment(&near);
    wait_until_archived(&site, &last);
    let [partial] = partial_segments(&site).try_into().expect("one");
    let text = b"only the receiver has this";
    assert!(partial.windows(text.len()).any(|bytes| bytes == text));
    brings_back_what_the_promoted_server_lacks(&site);

    // Another timeline of the same number is refused, and everything stays.
    receiver.stop();
    near.stop();
    let before = local_names(&site, "");
    far.start(&[]);
    promote(&far, "of another timeline 2");
    far.sql("SELECT pg_create_physical_replication_slot('walzip', true)");
    let refused = Receiver::start(&site, &far, &[]).wait();
    assert_eq!(refused.code(), Some(110), "{}", receiver::log(&site));
    assert!(receiver::log(&site).contains("the server has gone another way"));
    assert_eq!(local_names(&site, ""), before);

    // Nor is the old primary followed, which somebody has started again: it would be told that its commits are safe.
    far.stop();
    old.start(&[]);
    let refused = Receiver::start(&site, &old, &[]).wait();
    assert_eq!(refused.code(), Some(110), "{}", receiver::log(&site));
    assert!(receiver::log(&site).contains("which left timeline 1 of the server at"));
    assert_eq!(local_names(&site, ""), before);
}

/// A restore says which commits it has not, and how to have them; and that is so.
fn brings_back_what_the_promoted_server_lacks(site: &Site) {
    let lacking = "SELECT count(*) FROM row WHERE body = 'only the receiver has this'";
    let restore = |name: &str, arguments: &[&str]| {
        let server = Server::on(site, name);
        let mut restore = server.walzip(&["restore", "--archive-mode", "off", "-D"]);
        let output = restore.arg(server.data()).args(arguments).output();
        said(&output.expect("walzip starts"))
    };
    let told = restore("along-2", &[]);
    let (_, named) = told.split_once("walzip: warning: ").expect(&told);
    let (segment, rest) = named.split_once(".partial has commits").expect(&told);
    // The other is of before the far standby was made.
    assert!(
        rest.contains("recovery reads it: 2, the last at "),
        "{told}"
    );
    let way = "To have them, restore with --target-timeline 1, and before the first start: walzip archive-get";
    assert!(rest.contains(way), "{told}");
    let along = Server::on(site, "along-2");
    along.start(&[]);
    along.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(along.sql(lacking), "0");
    along.stop();

    let told = restore("along-1", &["--target-timeline", "1"]);
    let way = "To have them, before the first start: walzip archive-get";
    assert!(told.contains(way), "{told}");
    let along = Server::on(site, "along-1");
    let to = along.data().join("pg_wal").join(segment);
    let mut get = site.walzip(&["archive-get", &format!("{segment}.partial")]);
    succeed(get.arg(&to));
    site.hand_over(&to);
    along.start(&[]);
    along.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(along.sql(lacking), "1");
    along.stop();
}

/// The partial segments in the repository.
fn partial_segments(site: &Site) -> Vec<Vec<u8>> {
    let archived = archived_files(site).into_iter();
    let partial = archived.filter(|(name, _)| name.ends_with(".partial"));
    partial.map(|(_, content)| content).collect()
}

fn make_standby(site: &Site, server: &Server) {
    let signal = server.data().join("standby.signal");
    fs::write(&signal, "").expect("written");
    site.hand_over(&signal);
}

/// Promotes a standby, and writes a row then.
fn promote(standby: &Server, body: &str) {
    standby.wait_until("SELECT pg_promote()");
    standby.wait_until("SELECT NOT pg_is_in_recovery()");
    standby.sql(&format!("INSERT INTO row VALUES ('{body}')"));
}

/// The switch to a timeline is archived: its history, the old timeline's segments, whole and
/// partial, and the new one's from its beginning on. Returns the number of its first segment.
#[track_caller]
fn assert_switched(site: &Site, server: &Server, timeline: u32) -> u64 {
    let last = switch_segment(server);
    wait_until_archived(site, &last);
    let history_name = format!("{timeline:08X}.history");
    wait_until_archived(site, &history_name);
    let history = fs::read_to_string(server.data().join("pg_wal").join(&history_name));
    let history = history.expect("a history");
    let line = history.lines().last().expect("a line");
    let position = line.split('\t').nth(1).expect("a position");
    let (high, low) = position.split_once('/').expect("two halves");
    let half = |digits: &str| u64::from_str_radix(digits, 16).expect("a number");
    let switch = half(high) << 32 | half(low);
    let (number, offset) = (switch / SEGMENT_SIZE, (switch % SEGMENT_SIZE) as usize);
    assert!(offset > 0, "the switch is within a segment");

    let segment =
        |timeline: u32| format!("{timeline:08X}{:08X}{:08X}", number >> 12, number & 0xFFF);
    let partial = format!("{}.partial", segment(timeline - 1));
    wait_until_archived(site, &partial);
    wait_until_archived(site, &segment(timeline));
    let archived = archived_files(site);
    let content = |name: &str| {
        let found = archived.iter().find(|(found, _)| found == name);
        &found.unwrap_or_else(|| panic!("{name} is not archived")).1
    };
    assert_eq!(content(&history_name), history.as_bytes());
    let (old, new) = (content(&partial), content(&segment(timeline)));
    assert!(
        old[..offset] == new[..offset],
        "both have the same beginning"
    );
    assert!(old[offset..].iter().all(|&byte| byte == 0));
    wait(site, "an empty directory", || {
        local_names(site, "")
            .iter()
            .all(|name| name.ends_with(".partial"))
    });
    number
}
