//! What PostgreSQL's own recovery tests try (src/test/recovery/t, PostgreSQL 19), with walzip as the
//! archive, in the background: 020_archive_status, 023_pitr_prepared_xact, 024_archive_recovery,
//! 025_stuck_on_old_timeline, 026_overwrite_contrecord, 039_end_of_wal, 042_low_level_backup,
//! 043_no_contrecord_switch, 050_redo_segment_missing.
//!
//! Of 039 the defects are taken that a segment can have when it is archived; those of split headers differ
//! in nothing that an archive sees. 043 streams from the promoted server; here the second standby has the
//! archive alone. 050 stops a checkpoint half way by an injection point; here a backup's slow checkpoint
//! does the same. The other tests ask nothing of an archive but what is asked here: they are about
//! streaming, slots, logical decoding, conflicts on a standby, and a server's own files.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::clusters::asynchronous::{configure, walzip};
use crate::clusters::object_store::object_of;
use crate::clusters::receiver::copy;
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

fn backed_up<'s>(site: &'s Site, settings: &str) -> Server<'s> {
    let primary = Server::create(site, "primary", 1);
    configure(site, &primary);
    primary.configure(settings);
    primary.start(&[]);
    primary.sql("CREATE TABLE note (body text)");
    succeed(&mut walzip(&primary, site, &["backup"]));
    primary
}

fn restored<'s>(site: &'s Site, name: &'s str, arguments: &[&str]) -> Server<'s> {
    let server = Server::on(site, name);
    let mut restore = walzip(&server, site, &["restore", "-D"]);
    succeed(restore.arg(server.data()).args(arguments));
    server
}

/// A restored cluster whose recovery has ended.
fn recovered<'s>(site: &'s Site, arguments: &[&str]) -> Server<'s> {
    let copy = restored(site, "restored", arguments);
    copy.start(&["archive_mode=off"]);
    copy.wait_until("SELECT NOT pg_is_in_recovery()");
    copy
}

fn rows(server: &Server) -> String {
    server.sql("SELECT string_agg(body, ' ' ORDER BY body) FROM note")
}

/// 020_archive_status: what could not be archived before a crash is archived after it.
#[test]
fn what_waits_to_be_archived_survives_a_crash() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "");
    let away = site.path("away");
    fs::rename(site.repository(), &away).expect("renamed");
    for number in 0..5 {
        primary.sql(&format!(
            "INSERT INTO note VALUES ('{number}'); SELECT pg_switch_wal()"
        ));
    }
    primary.wait_until("SELECT failed_count > 0 FROM pg_stat_archiver");
    primary.crash();
    let ready = || {
        let entries = fs::read_dir(primary.data().join("pg_wal/archive_status"));
        let names = entries
            .expect("readable")
            .flatten()
            .map(|entry| entry.file_name());
        names
            .filter(|name| name.to_string_lossy().ends_with(".ready"))
            .count()
    };
    assert!(ready() >= 5, "{}", ready());
    fs::rename(&away, site.repository()).expect("renamed");
    primary.start(&[]);
    primary.archive_everything();
    succeed(&mut walzip(&primary, &site, &["verify"]));
    primary.stop();
    let copy = recovered(&site, &[]);
    assert_eq!(rows(&copy), "0 1 2 3 4");
}

/// 023_pitr_prepared_xact: a transaction that was prepared before the target can still be committed.
#[test]
fn a_prepared_transaction_is_there_after_a_restore_to_a_point_behind_it() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "max_prepared_transactions = 4");
    primary.sql("BEGIN; INSERT INTO note VALUES ('prepared'); PREPARE TRANSACTION 'one'");
    primary.sql("SELECT pg_create_restore_point('here')");
    primary.sql("ROLLBACK PREPARED 'one'; INSERT INTO note VALUES ('later')");
    primary.archive_everything();
    primary.stop();
    let copy = recovered(&site, &["--target-name", "here"]);
    assert_eq!(copy.sql("SELECT count(*) FROM note"), "0");
    copy.sql("COMMIT PREPARED 'one'");
    assert_eq!(rows(&copy), "prepared");
}

/// 025_stuck_on_old_timeline: a standby that has the archive alone follows a promotion.
#[test]
fn a_standby_of_the_archive_alone_follows_a_promotion() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "");
    let follower = restored(&site, "follower", &["--standby"]);
    follower.start(&["wal_retrieve_retry_interval=100ms"]);
    primary.sql("INSERT INTO note VALUES ('one')");
    primary.archive_everything();
    primary.stop();

    let next = restored(&site, "next", &["--archive-mode", "preserve"]);
    next.start(&[]);
    next.wait_until("SELECT NOT pg_is_in_recovery()");
    next.sql("INSERT INTO note VALUES ('two')");
    next.archive_everything();
    follower.wait_until("SELECT count(*) = 2 FROM note");
    assert_eq!(rows(&follower), "one two");
    let timeline = "SELECT received_tli FROM pg_stat_wal_receiver";
    assert_eq!(follower.sql(timeline), "", "it has no other source");
    follower.stop();
    next.stop();
}

/// 026_overwrite_contrecord: a crash leaves the first part of a record at the end of a segment, and
/// the server writes over the rest of it.
#[test]
fn a_record_that_a_crash_cut_short_is_replayed_past() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "checkpoint_timeout = 1h\nautovacuum = off");
    primary.sql("INSERT INTO note VALUES ('before')");
    primary.sql("CHECKPOINT");
    // Up to the last bytes of a segment, and then a record that crosses its end.
    primary.sql(
        "DO $$
         DECLARE place bigint;
         BEGIN
             LOOP
                 place := (pg_current_wal_insert_lsn() - '0/0') % (1024 * 1024);
                 EXIT WHEN place > 1024 * 1024 - 4096 AND place < 1024 * 1024 - 512;
                 PERFORM pg_logical_emit_message(false, 'fill', repeat('x', 256));
             END LOOP;
         END $$",
    );
    let cut = primary.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    primary.sql("SELECT pg_logical_emit_message(true, 'long', repeat('y', 100000))");
    let last = primary.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    assert!(last > cut, "{cut}, {last}");
    primary.crash();
    for entry in fs::read_dir(primary.data().join("pg_wal"))
        .expect("pg_wal")
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.len() == 24 && name > cut {
            fs::remove_file(entry.path()).expect("removed");
        }
    }
    primary.start(&[]);
    primary.sql("INSERT INTO note VALUES ('behind')");
    primary.archive_everything();
    succeed(&mut walzip(&primary, &site, &["verify"]));
    primary.stop();
    let copy = recovered(&site, &[]);
    assert_eq!(rows(&copy), "before behind");
    assert!(
        copy.log()
            .contains("successfully skipped missing contrecord"),
        "no record was written over:\n{}",
        copy.log()
    );
}

/// 024_archive_recovery: what was written with wal_level = minimal cannot be replayed, and PostgreSQL has to
/// see that in the archived WAL.
#[test]
fn wal_of_level_minimal_ends_a_recovery_and_a_standby() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "hot_standby = off");
    primary.stop();
    primary.start(&["wal_level=minimal", "archive_mode=off", "max_wal_senders=0"]);
    primary.sql("INSERT INTO note VALUES ('minimal')");
    primary.stop();
    primary.start(&[]);
    primary.archive_everything();
    let verified = walzip(&primary, &site, &["verify"]).output();
    let verified = verified.expect("walzip runs");
    assert_eq!(verified.status.code(), Some(104), "{}", said(&verified));
    let told = "a recovery from this backup ends there";
    assert!(said(&verified).contains(told), "{}", said(&verified));
    primary.stop();
    for (name, arguments) in [("restored", &[][..]), ("standby", &["--standby"])] {
        let copy = restored(&site, name, arguments);
        copy.try_start(&["archive_mode=off"]);
        copy.wait_until_stopped();
        let log = copy.log();
        let words = [
            "FATAL:  WAL was generated with wal_level",
            "cannot continue recovering",
        ];
        assert!(
            words.iter().all(|words| log.contains(words)),
            "{name}:\n{log}"
        );
        assert!(!log.contains("archive recovery complete"), "{log}");
    }
}

const PAGE: usize = 8192;
const SEGMENT: usize = 1 << 20;

/// The header of a record that is not there (XLogRecord).
fn record_header(len: u32, prev: u64) -> Vec<u8> {
    let mut header = len.to_le_bytes().to_vec();
    header.extend(0_u32.to_le_bytes());
    header.extend(prev.to_le_bytes());
    header.resize(24, 0);
    header
}

/// The header of a page (XLogPageHeaderData) of PostgreSQL 15.
fn page_header(magic: u16, flags: u16, address: u64, remaining: u32) -> Vec<u8> {
    let mut header = magic.to_le_bytes().to_vec();
    header.extend(flags.to_le_bytes());
    header.extend(1_u32.to_le_bytes());
    header.extend(address.to_le_bytes());
    header.extend(remaining.to_le_bytes());
    header
}

/// Bytes to be written into a segment, and where.
type Patch = (usize, Vec<u8>);

/// Ends of WAL as crashes and recycled segments leave them: what is written where the last record ends,
/// and what PostgreSQL says there.
fn ends_of_wal(end: usize, start: u64, prev: u64) -> Vec<(&'static str, Vec<Patch>)> {
    const MAGIC: u16 = 0xD110;
    const CONTINUED: u16 = 1;
    let next = end - end % PAGE + PAGE;
    let address = start + next as u64;
    let long = (end, record_header(100_000, prev));
    let page = |header| vec![long.clone(), (next, header)];
    vec![
        ("invalid record length", vec![]),
        ("invalid record length", vec![(end, record_header(23, 0))]),
        (
            "incorrect prev-link",
            vec![(end, record_header(100_000, 0xDEAD_BEEF))],
        ),
        (
            "incorrect resource manager data checksum",
            vec![(end - 8, b"!".to_vec())],
        ),
        ("invalid magic number 0000", vec![long.clone()]),
        (
            "invalid magic number CAFE",
            page(page_header(0xCAFE, 0, 0, 0)),
        ),
        (
            "unexpected pageaddr 0/BAAAAAAD",
            page(page_header(MAGIC, 0, 0xBAAA_AAAD, 0)),
        ),
        (
            "invalid info bits 1234",
            page(page_header(MAGIC, 0x1234, address, 0)),
        ),
        (
            "there is no contrecord flag",
            page(page_header(MAGIC, 0, address, 0)),
        ),
        (
            "invalid contrecord length 123456",
            page(page_header(MAGIC, CONTINUED, address, 123_456)),
        ),
    ]
}

/// 039_end_of_wal: however WAL ends, the archive gives it back as it is, and a recovery ends there.
#[test]
fn a_recovery_ends_where_archived_wal_does_whatever_stands_there() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "checkpoint_timeout = 1h\nautovacuum = off");
    primary.sql("INSERT INTO note VALUES ('last')");
    let number = |sql: &str| primary.sql(sql).parse::<u64>().expect("a position");
    let emit = || number("SELECT pg_logical_emit_message(true, '', repeat('a', 100)) - '0/0'");
    let insert = || number("SELECT pg_current_wal_insert_lsn() - '0/0'");
    // Away from the ends of pages and of the segment.
    let is_near = |at: u64| !(1000..4000).contains(&(at as usize % PAGE));
    while is_near(insert()) || insert() as usize % SEGMENT > SEGMENT - 3 * PAGE {
        emit();
    }
    // The last record; the one that commits it is cut off below.
    let (prev, end) = (insert(), emit());
    let name = primary.sql(&format!("SELECT pg_walfile_name('0/0'::pg_lsn + {end})"));
    primary.crash();
    let segment = fs::read(primary.data().join("pg_wal").join(&name)).expect("the last segment");
    let archive = site.path("archive");
    copy(&site.repository(), &archive);
    let (start, end) = (end - end % SEGMENT as u64, end as usize % SEGMENT);
    for (words, patches) in ends_of_wal(end, start, prev) {
        fs::remove_dir_all(site.repository()).expect("removed");
        copy(&archive, &site.repository());
        let mut patched = segment.clone();
        // What the server wrote after the last look at it.
        patched[end..].fill(0);
        for (at, bytes) in patches {
            patched[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let path = primary.data().join("pg_wal").join(&name);
        fs::write(&path, &patched).expect("written");
        let mut push = walzip(&primary, &site, &["archive-push", "--archive-async=false"]);
        succeed(push.arg(&path));
        let back = site.path("back");
        let mut get = walzip(&primary, &site, &["archive-get", &name]);
        succeed(get.arg(&back));
        assert!(fs::read(&back).expect("got") == patched, "{words}");
        let copy = recovered(&site, &[]);
        assert_eq!(rows(&copy), "last", "{words}");
        assert!(copy.log().contains(words), "{words}:\n{}", copy.log());
        copy.stop();
        fs::remove_dir_all(copy.data()).expect("removed");
        fs::remove_file(site.path("restored.log")).expect("removed");
    }
}

/// A backup by pg_backup_start and pg_backup_stop; statements are run between the copy of the files and
/// that of the control file.
fn low_level_backup<'s>(
    site: &'s Site,
    primary: &Server,
    is_fast: bool,
    statements: &str,
) -> Server<'s> {
    let by_hand = Server::on(site, "by-hand");
    let (from, to) = (primary.data(), by_hand.data());
    let (from, to) = (from.display(), to.display());
    primary.sql(&format!(
        "SELECT pg_backup_start('by hand', {is_fast});\n\
         \\! cp -a {from} {to} 2>/dev/null\n\
         \\! rm -r {to}/postmaster.pid {to}/postmaster.opts {to}/pg_wal/0*\n\
         {statements};\n\
         CHECKPOINT;\n\
         \\! cp {from}/global/pg_control {to}/global/pg_control\n\
         \\o {to}/backup_label\n\
         SELECT labelfile FROM pg_backup_stop();\n"
    ));
    by_hand.configure(&format!(
        "archive_mode = off\nrestore_command = '{} archive-get --config {} %f %p'",
        site.program_under_test().display(),
        site.path("walzip.toml").display()
    ));
    let signal = by_hand.data().join("recovery.signal");
    fs::write(&signal, "").expect("written");
    site.hand_over(&signal);
    by_hand
}

/// 042_low_level_backup: a recovery begins where the label says, and not where the control file does.
#[test]
fn a_backup_by_hand_is_recovered_from_the_archive() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "");
    let canary = "INSERT INTO note VALUES ('canary'); SELECT pg_switch_wal()";
    let by_hand = low_level_backup(&site, &primary, true, canary);
    let label = fs::read_to_string(by_hand.data().join("backup_label")).expect("a label");
    // START WAL LOCATION: 0/800028 (file 000000010000000000000008)
    let words: Vec<&str> = label.split([' ', '/', ')', '\n']).collect();
    let (low, first) = (words[4], words[6]);
    let low = usize::from_str_radix(low, 16).expect("a position");
    let history = format!("{first}.{:08X}.backup", low % SEGMENT);
    let is_archived = object_of(&site, &history).is_some();
    assert!(is_archived, "{history} is not archived");
    primary.stop();
    by_hand.start(&[]);
    by_hand.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(rows(&by_hand), "canary");
}

/// 043_no_contrecord_switch: a record's second page is zeros in the archive. A standby that is promoted
/// there begins its timeline at that page, and another one follows it through the archive.
#[test]
fn a_standby_follows_a_timeline_that_begins_at_a_lost_page() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "checkpoint_timeout = 1h\nautovacuum = off");
    primary.sql("INSERT INTO note VALUES ('before')");
    primary.archive_everything();
    let emit = |len: u64| {
        let sql = format!("SELECT pg_logical_emit_message(true, '', repeat('a', {len})) - '0/0'");
        primary.sql(&sql).parse::<u64>().expect("a position")
    };
    let mut end = emit(0);
    while !(1000..4000).contains(&(end as usize % PAGE)) {
        end = emit(100);
    }
    let end = emit(PAGE as u64 - end % PAGE as u64);
    let name = primary.sql(&format!("SELECT pg_walfile_name('0/0'::pg_lsn + {end})"));
    primary.crash();
    let path = primary.data().join("pg_wal").join(&name);
    let mut segment = fs::read(&path).expect("a segment");
    let page = end as usize % SEGMENT / PAGE * PAGE;
    segment[page..].fill(0);
    fs::write(&path, &segment).expect("written");
    let mut push = walzip(&primary, &site, &["archive-push", "--archive-async=false"]);
    succeed(push.arg(&path));

    let one = restored(&site, "one", &["--standby", "--archive-mode", "preserve"]);
    let two = restored(&site, "two", &["--standby"]);
    let settings = ["wal_retrieve_retry_interval=100ms"];
    for server in [&one, &two] {
        server.start(&settings);
        server.wait_until("SELECT count(*) = 1 FROM note");
        let words = "invalid magic number 0000";
        while !server.log().contains(words) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    one.sql("SELECT pg_promote()");
    one.sql("SELECT pg_switch_wal(); INSERT INTO note SELECT 'behind'");
    one.archive_everything();
    two.wait_until("SELECT count(*) = 2 FROM note");
    assert_eq!(rows(&two), "before behind");
    succeed(&mut walzip(&one, &site, &["verify"]));
    two.stop();
    one.stop();
}

/// 050_redo_segment_missing: a checkpoint's record is there, and the WAL from which it has to be replayed is
/// not. PostgreSQL ends, and walzip's own restore does not begin.
#[test]
fn a_recovery_whose_redo_segment_is_missing_does_not_begin() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "checkpoint_timeout = 1h\nautovacuum = off");
    // Pages for a slow checkpoint to write, one every 100 ms.
    primary.sql("CREATE TABLE wide AS SELECT repeat('x', 7000) FROM generate_series(1, 40)");
    let by_hand = std::thread::scope(|scope| {
        let backup = scope.spawn(|| low_level_backup(&site, &primary, false, "SELECT 1"));
        primary.wait_until(
            "SELECT count(*) = 1 FROM pg_stat_activity
             WHERE wait_event = 'CheckpointWriteDelay'",
        );
        primary.sql("SELECT pg_create_restore_point('here'); SELECT pg_switch_wal()");
        backup.join().expect("a backup")
    });
    primary.archive_everything();
    primary.stop();
    let label = fs::read_to_string(by_hand.data().join("backup_label")).expect("a label");
    let field = |name: &str| {
        let line = label.lines().find(|line| line.starts_with(name));
        line.expect("a line of the label").to_owned()
    };
    let redo = field("START WAL LOCATION");
    let redo = redo
        .split("file ")
        .nth(1)
        .expect("a segment")
        .trim_end_matches(')');
    let checkpoint = field("CHECKPOINT LOCATION");
    let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    let position = checkpoint.rsplit('/').next().expect("a position");
    assert!(
        number(position) / SEGMENT as u64 > number(&redo[16..]),
        "{label}"
    );
    let object: PathBuf = object_of(&site, redo).expect("it is archived");
    fs::remove_file(object).expect("removed");
    assert!(!by_hand.try_start(&[]), "{}", by_hand.log());
    let log = by_hand.log();
    let words = [
        "could not find redo location",
        "could not locate required checkpoint record",
    ];
    assert!(words.iter().any(|words| log.contains(words)), "{log}");
    let refused = Server::on(&site, "refused");
    let mut restore = walzip(&refused, &site, &["restore", "-D"]);
    let output = restore.arg(refused.data()).output().expect("walzip starts");
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains(redo), "{}", said(&output));
    assert!(!refused.data().exists());
}
