//! `walzip check` on a real server: every reason why WAL does not arrive has its own words.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// A limit that no test waits for.
const FOR_EVER: &str = "100000";

/// Changes `archive_command`. The archiver of a server that was started again knows it at once,
/// and has forgotten how long it meant to wait after its failures.
fn set_command(server: &Server, command: &str) {
    let quoted = command.replace('\'', "''");
    server.sql(&format!("ALTER SYSTEM SET archive_command = '{quoted}'"));
    server.stop();
    server.start(&[]);
}

/// What a failing check says.
fn complaint(server: &Server, code: i32, timeout: &str) -> String {
    let output = server
        .walzip(&["check", "--archive-timeout", timeout])
        .output();
    let output = output.expect("walzip starts");
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(told.lines().count(), 2, "{told}");
    told
}

/// Pushes the files that wait to be archived, as long as something runs.
fn while_pushed_by_another<T>(server: &Server, run: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    let pg_wal = server.data().join("pg_wal");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let marks = fs::read_dir(pg_wal.join("archive_status")).expect("readable");
                for mark in marks.map(|mark| mark.expect("an entry").file_name()) {
                    let mark = mark.to_string_lossy().into_owned();
                    if let Some(name) = mark.strip_suffix(".ready") {
                        let path = pg_wal.join(name).display().to_string();
                        succeed(&mut server.walzip(&["archive-push", &path]));
                    }
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let result = catch_unwind(AssertUnwindSafe(run));
        is_done.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[track_caller]
fn says(told: &str, parts: &[&str]) {
    for part in parts {
        assert!(told.contains(part), "\"{part}\" is not in:\n{told}");
    }
}

#[test]
fn a_check_names_what_archives_and_tells_the_reasons_of_failure_apart() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    let (walzip, ours) = (site.program_under_test(), site.repository());
    let (walzip, ours) = (walzip.display(), ours.display());
    let right = format!("{walzip} archive-push --repo {ours} %p");

    let fine = succeed(&mut primary.walzip(&["check"]));
    says(
        &fine,
        &[" was archived in ", &format!(" s and is in {ours}\n")],
    );
    says(&fine, &[&format!("archive_command = '{right}'\n")]);
    assert_eq!(fine.lines().count(), 2, "{fine}");

    set_command(&primary, "");
    let empty = complaint(&primary, 31, FOR_EVER);
    says(
        &empty,
        &["archive_command is empty", &format!("--repo {ours} %p'")],
    );
    // A file may have more than this repository.
    let file = site.path("walzip.toml");
    fs::write(&file, format!("repo = \"{ours}\"\n")).expect("written");
    let mut by_file = primary.walzip(&["check", "--config"]);
    by_file.arg(&file).env_remove("WALZIP_REPO");
    let empty = said(&by_file.output().expect("walzip starts"));
    says(
        &empty,
        &[&format!("archive-push --config {} %p'", file.display())],
    );

    succeed(&mut site.walzip(&["init", "--repo", "other", "-D", "primary"]));
    let other = site.path("other");
    set_command(
        &primary,
        &format!("{walzip} archive-push --repo {} %p", other.display()),
    );
    let elsewhere = complaint(&primary, 82, FOR_EVER);
    says(
        &elsewhere,
        &["the server reports 0000", "names another repository, "],
    );
    says(
        &elsewhere,
        &[&format!("{} instead of {ours}", other.display())],
    );
    says(
        &elsewhere,
        &[&format!("walzip check --repo {}", other.display())],
    );

    set_command(&primary, "true %p");
    let foreign = complaint(&primary, 82, "2");
    says(
        &foreign,
        &["not archived within 2 seconds: archive_command is not walzip's"],
    );
    says(&foreign, &["The server has archive_command = 'true %p'"]);

    // Hidden, a failure looks like a success.
    set_command(
        &primary,
        &format!("{walzip} archive-push --repo {ours} /nowhere %p || true"),
    );
    let hidden = complaint(&primary, 82, FOR_EVER);
    says(
        &hidden,
        &["reports 0000", "does not have it", "hide a failure"],
    );

    // It is not seen before something fails, which is too late.
    set_command(&primary, &format!("{right} || true"));
    let hidden = complaint(&primary, 31, FOR_EVER);
    says(&hidden, &["hides its exit code", "removes WAL", &right]);
    set_command(&primary, &format!("{walzip} archive-push --repo {ours}"));
    let pathless = complaint(&primary, 82, "3");
    says(&pathless, &["it has no %p, the file to archive"]);
    set_command(&primary, &right);
    primary.archive_everything();

    set_command(&primary, &format!("false && {right}"));
    let failing = complaint(&primary, 82, "5");
    says(
        &failing,
        &["archive_command last failed at ", "1 file waits"],
    );
    says(
        &failing,
        &["server's log says why this failed: archive_command = 'false && "],
    );
    assert!(!failing.contains("another repository"), "{failing}");

    // Something else brings the segments, as `serve` does, and PostgreSQL keeps them all the same.
    let kept = while_pushed_by_another(&primary, || complaint(&primary, 82, "3"));
    says(
        &kept,
        &["but the server's own archiving has not succeeded within 3 seconds"],
    );
    says(&kept, &["archive_command last failed at ", "pg_wal grows"]);
    primary.sql("CREATE TABLE begins_a_segment ()");
    let unfinished = primary.sql("SELECT pg_walfile_name(pg_current_wal_lsn())");
    let unfinished = primary.data().join("pg_wal").join(unfinished.trim());
    let path = unfinished.display().to_string();
    let by_hand = primary.walzip(&["archive-push", &path]).output();
    let by_hand = by_hand.expect("walzip starts");
    assert_eq!(by_hand.status.code(), Some(28), "{}", said(&by_hand));
    says(&said(&by_hand), &["has not finished this segment"]);

    set_command(&primary, &right);
    let past = succeed(&mut primary.walzip(&["check"]));
    says(&past, &["and is in", "an earlier failure, at ", " is past"]);

    primary.stop();
    primary.configure("archive_mode = off");
    primary.start(&[]);
    let off = complaint(&primary, 31, FOR_EVER);
    says(&off, &["archive_mode is off", "restart the server"]);
}

#[test]
fn a_failure_that_is_past_is_not_blamed_for_a_segment_that_is_late() {
    let Some(site) = Site::new(17) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    let right = primary.sql("SHOW archive_command");
    set_command(&primary, "false");
    let failing = complaint(&primary, 82, "1");
    says(&failing, &["last failed at "]);
    set_command(&primary, &right);
    primary.archive_everything();

    set_command(&primary, &format!("sleep 1000 && {right}"));
    let late = complaint(&primary, 82, "1");
    says(
        &late,
        &[
            "an earlier failure, at ",
            " is past",
            "neither a success nor a failure",
        ],
    );
    assert!(!late.contains("last failed"), "{late}");
}

/// Positions follow from the names of segments and their size.
#[test]
fn segments_of_another_size_are_refused() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::backed_up(&site);
    primary.stop();
    let mut reset = site.command(site.program("pg_resetwal"));
    succeed(reset.arg("--wal-segsize=2").arg(primary.data()));
    primary.start(&[]);
    for command in ["check", "backup"] {
        let output = primary.walzip(&[command]).output().expect("walzip starts");
        let told = said(&output);
        assert_eq!(output.status.code(), Some(31), "{command}: {told}");
        let sizes = ["segments have 2097152 bytes", " have 1048576: "];
        says(&told, &sizes);
        says(&told, &["Make a new repository (walzip init)"]);
    }
}
