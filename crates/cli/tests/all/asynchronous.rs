//! `archive-push` with a worker in the background: a call succeeds when its file is in the archive, and for no other
//! reason.

mod fetching;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{SYSTEM_ID, Sandbox, control_file, segment, segment_of};

/// How long a worker may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A data directory with segments 1 to N that are ready, and a repository for it.
fn ready(count: u64) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    for number in 1..=count {
        make_ready(&sandbox, &name(number), &segment(number));
    }
    init(&sandbox, "repo");
    fs::create_dir(sandbox.path("spool")).expect("made");
    sandbox
}

fn init(sandbox: &Sandbox, repository: &str) {
    let made = sandbox.run(&["init", "--repo", repository, "-D", "data"]);
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}

fn make_ready(sandbox: &Sandbox, name: &str, content: &[u8]) {
    sandbox.write(&format!("data/pg_wal/{name}"), content);
    sandbox.write(&format!("data/pg_wal/archive_status/{name}.ready"), b"");
}

fn name(number: u64) -> String {
    format!("0000000100000000{number:08X}")
}

fn object(sandbox: &Sandbox, repository: &str, name: &str) -> PathBuf {
    let directory = &name[..16];
    sandbox.path(&format!(
        "{repository}/wal/15-{SYSTEM_ID}/{directory}/{name}.wz"
    ))
}

fn push_args(name: &str) -> Vec<String> {
    let path = format!("data/pg_wal/{name}");
    let args = [
        "archive-push",
        "--archive-async",
        "--spool-path",
        "spool",
        "--repo",
        "repo",
    ];
    args.into_iter().map(str::to_owned).chain([path]).collect()
}

fn push(sandbox: &Sandbox, name: &str) {
    let args = push_args(name);
    sandbox.ok(&args.iter().map(String::as_str).collect::<Vec<_>>());
}

fn push_fails(sandbox: &Sandbox, code: i32, name: &str) -> String {
    let args = push_args(name);
    sandbox.fails(code, &args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A file of one side of the spool.
fn spooled(sandbox: &Sandbox, file: &str) -> PathBuf {
    let entries = fs::read_dir(sandbox.path("spool")).expect("a spool");
    let mut directories = entries.map(|entry| entry.expect("readable").path());
    directories.next().expect("one data directory").join(file)
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until no worker has the lock, and keeps it so.
fn wait_for_the_end(sandbox: &Sandbox, side: &str) {
    let lock = fs::File::open(spooled(sandbox, &format!("{side}/lock"))).expect("a lock");
    wait_until("the worker ends", || {
        use rustix::fs::{FlockOperation, flock};
        flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
    });
}

#[test]
fn one_call_has_everything_pushed_that_is_ready() {
    let sandbox = ready(5);
    push(&sandbox, &name(1));
    wait_until("all are acknowledged", || {
        (1..=5).all(|number| {
            spooled(&sandbox, "push/acknowledged")
                .join(name(number))
                .exists()
        })
    });
    for number in 1..=5 {
        assert!(object(&sandbox, "repo", &name(number)).is_file());
        // Nothing is asked of the repository any more: it is not there.
        push(&sandbox, &name(number));
    }
    sandbox.ok(&["verify", "--repo", "repo"]);
    // PostgreSQL's own files are PostgreSQL's.
    assert!(
        sandbox
            .path(&format!("data/pg_wal/archive_status/{}.ready", name(3)))
            .exists()
    );
}

#[test]
fn an_acknowledgement_is_for_one_file_in_the_same_repositories() {
    let sandbox = ready(2);
    push(&sandbox, &name(1));
    push(&sandbox, &name(2));
    // The same name, and another file: as after a rewind, or a snapshot that was put back.
    let other = format!("data/pg_wal/{}", name(2));
    let mut content = segment(2);
    content[9000] = 1;
    fs::write(sandbox.path("other"), &content).expect("written");
    let times = fs::metadata(sandbox.path(&other)).and_then(|metadata| metadata.modified());
    fs::rename(sandbox.path("other"), sandbox.path(&other)).expect("renamed");
    let file = fs::File::options()
        .write(true)
        .open(sandbox.path(&other))
        .expect("opened");
    file.set_modified(times.expect("a time")).expect("set");
    let refused = push_fails(&sandbox, 45, &name(2));
    assert!(refused.contains("archive-duplicate"), "{refused}");
    // A repository that was made anew has nothing.
    fs::remove_dir_all(sandbox.path("repo")).expect("removed");
    let lost = push_fails(&sandbox, 103, &name(1));
    assert!(lost.contains("repo-invalid"), "{lost}");
    init(&sandbox, "repo");
    push(&sandbox, &name(1));
    assert!(object(&sandbox, "repo", &name(1)).is_file());
}

#[test]
fn a_further_repository_is_not_acknowledged_by_the_first() {
    let sandbox = ready(1);
    push(&sandbox, &name(1));
    sandbox.write(
        "walzip.toml",
        b"repo = \"repo\"\nrepo2 = \"two\"\n\
        archive-async = true\nspool-path = \"spool\"\nprocess-max = 3\n",
    );
    init(&sandbox, "two");
    let path = format!("data/pg_wal/{}", name(1));
    sandbox.ok(&["archive-push", "--config", "walzip.toml", &path]);
    assert!(object(&sandbox, "two", &name(1)).is_file());
    fs::remove_dir_all(sandbox.path("two")).expect("removed");
    let refused = sandbox.fails(103, &["archive-push", "--config", "walzip.toml", &path]);
    assert!(refused.contains("repository 2"), "{refused}");
}

#[test]
fn a_failure_is_told_by_the_call_for_that_file_and_nothing_behind_it_is_lost() {
    let sandbox = ready(4);
    // The third one is of another cluster.
    sandbox.write(
        &format!("data/pg_wal/{}", name(3)),
        &segment_of(SYSTEM_ID + 1, 3),
    );
    push(&sandbox, &name(1));
    push(&sandbox, &name(2));
    for _ in 0..2 {
        let refused = push_fails(&sandbox, 44, &name(3));
        assert!(refused.contains("archive-mismatch"), "{refused}");
        assert!(!refused.contains("warning"), "{refused}");
    }
    assert!(!object(&sandbox, "repo", &name(3)).exists());
    sandbox.write(&format!("data/pg_wal/{}", name(3)), &segment(3));
    push(&sandbox, &name(3));
    push(&sandbox, &name(4));
    sandbox.ok(&["verify", "--repo", "repo"]);
}

#[test]
fn a_timeline_waits_for_its_history() {
    let sandbox = ready(1);
    let second = "000000020000000000000002";
    make_ready(&sandbox, second, &segment(2));
    make_ready(
        &sandbox,
        "00000002.history",
        b"1\t0/200000\tno recovery target specified\n",
    );
    push(&sandbox, &name(1));
    wait_for_the_end(&sandbox, "push");
    assert!(
        !object(&sandbox, "repo", second).exists(),
        "before its history"
    );
    push(&sandbox, "00000002.history");
    let status = "data/pg_wal/archive_status/00000002.history";
    let (ready, done) = (format!("{status}.ready"), format!("{status}.done"));
    fs::rename(sandbox.path(&ready), sandbox.path(&done)).expect("renamed");
    push(&sandbox, &name(1));
    make_ready(&sandbox, &name(3), &segment(3));
    push(&sandbox, &name(3));
    wait_until("the timeline follows", || {
        object(&sandbox, "repo", second).exists()
    });
}

#[test]
fn a_worker_that_was_killed_leaves_nothing_wrong_behind() {
    let sandbox = ready(40);
    let mut killed = 0;
    for number in 1..=40 {
        let mut call = sandbox_command(&sandbox, &push_args(&name(number)));
        let mut call = call.spawn().expect("walzip starts");
        if number % 3 == 0 {
            std::thread::sleep(Duration::from_millis(number));
            killed += kill_workers(&sandbox);
        }
        assert!(call.wait().expect("it ends").success(), "{}", name(number));
        assert!(object(&sandbox, "repo", &name(number)).is_file());
    }
    assert!(killed > 0, "no worker was there to be killed");
    sandbox.ok(&["verify", "--repo", "repo"]);
}

fn sandbox_command(sandbox: &Sandbox, args: &[String]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("walzip"));
    command.args(args).current_dir(sandbox.path("."));
    command.env("WALZIP_CONFIG", "/dev/null");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Kills the workers of this sandbox; says how many.
fn kill_workers(sandbox: &Sandbox) -> usize {
    signal_workers(sandbox, Signal::KILL)
}

/// A signal for the workers whose standard input is a lock in this sandbox; how many they are.
fn signal_workers(sandbox: &Sandbox, signal: Signal) -> usize {
    let here = sandbox.path("spool").canonicalize().expect("a directory");
    let mut count = 0;
    for entry in fs::read_dir("/proc").expect("processes").flatten() {
        let process = entry.path();
        let input = fs::read_link(process.join("fd/0"));
        let is_here = input.is_ok_and(|lock| lock.starts_with(&here));
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let (true, Some(number)) = (is_here, number.and_then(Pid::from_raw)) {
            count += usize::from(kill_process(number, signal).is_ok());
        }
    }
    count
}

#[test]
fn a_spool_that_cannot_be_written_does_not_stop_archiving() {
    let sandbox = ready(3);
    push(&sandbox, &name(1));
    wait_for_the_end(&sandbox, "push");
    // Where an acknowledgement should be is something that cannot be replaced.
    for number in [1, 2] {
        let taken = spooled(&sandbox, "push/acknowledged").join(name(number));
        let _ = fs::remove_file(&taken);
        fs::create_dir_all(taken.join("in the way")).expect("made");
    }
    let said = push_with_warning(&sandbox, &name(2));
    assert!(said.contains("this call pushes"), "{said}");
    // Not even a place for the worker's lock.
    fs::remove_dir_all(sandbox.path("spool")).expect("removed");
    sandbox.write("spool/in the way", b"");
    let taken = sandbox.path("spool");
    fs::set_permissions(&taken, fs::Permissions::from_mode(0o700)).expect("set");
    for entry in spool_names(&sandbox) {
        fs::write(taken.join(entry), b"").expect("written");
    }
    let said = push_with_warning(&sandbox, &name(3));
    assert!(said.contains("this call pushes"), "{said}");
}

/// The names that a spool for the data directory has.
fn spool_names(sandbox: &Sandbox) -> Vec<String> {
    let other = sandbox.path("spool2");
    fs::create_dir(&other).expect("made");
    let path = format!("data/pg_wal/{}", name(1));
    let spool = other.to_str().expect("UTF-8");
    let args = ["archive-push", "--archive-async", "--spool-path", spool];
    sandbox.ok(&[&args[..], &["--repo", "repo", &path]].concat());
    let entries = fs::read_dir(&other).expect("a spool");
    let names = entries.map(|entry| entry.expect("readable").file_name());
    names.filter_map(|name| name.into_string().ok()).collect()
}

/// Pushes with success, and returns the warning.
fn push_with_warning(sandbox: &Sandbox, name: &str) -> String {
    let args = push_args(name);
    let output = sandbox.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(object(sandbox, "repo", name).is_file());
    said
}

/// A copy of the cluster took the position first: what follows there is refused as well.
#[test]
fn nothing_gets_in_behind_a_segment_that_is_refused() {
    let sandbox = ready(6);
    let mut other = segment(1);
    other[9000] = 1;
    sandbox.write(&format!("other/pg_wal/{}", name(1)), &other);
    sandbox.ok(&[
        "archive-push",
        "--repo",
        "repo",
        &format!("other/pg_wal/{}", name(1)),
    ]);
    for _ in 0..3 {
        push_fails(&sandbox, 45, &name(1));
    }
    wait_for_the_end(&sandbox, "push");
    for number in 2..=6 {
        assert!(
            !object(&sandbox, "repo", &name(number)).exists(),
            "{number} got in"
        );
    }
}

/// A worker is there for one directory, whatever has its path by now.
#[test]
fn a_directory_that_was_put_in_place_of_another_has_a_worker_of_its_own() {
    let sandbox = ready(1);
    push(&sandbox, &name(1));
    fs::rename(sandbox.path("data"), sandbox.path("old")).expect("renamed");
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    // The old one has a segment that is being written, under the name of a finished one here.
    let mut unfinished = segment(2);
    unfinished[9000] = 1;
    sandbox.write(&format!("old/pg_wal/{}", name(2)), &unfinished);
    make_ready(&sandbox, &name(2), &segment(2));
    push(&sandbox, &name(2));
    sandbox.ok(&["archive-get", "--repo", "repo", &name(2), "got"]);
    assert!(sandbox.read("got") == segment(2));
}

/// A stopped worker would be waited for in vain.
#[test]
fn a_worker_that_hangs_is_not_waited_for() {
    let sandbox = ready(1);
    push(&sandbox, &name(1));
    assert!(signal_workers(&sandbox, Signal::STOP) > 0);
    make_ready(&sandbox, &name(2), &segment(2));
    let said = push_with_warning(&sandbox, &name(2));
    signal_workers(&sandbox, Signal::KILL);
    assert!(said.contains("no sign of life"), "{said}");
}

#[test]
fn a_spool_that_cannot_be_used_is_not_and_does_not_stop_archiving() {
    let sandbox = ready(4);
    push(&sandbox, &name(1));
    wait_for_the_end(&sandbox, "push");
    let acknowledged = spooled(&sandbox, "push/acknowledged");
    fs::set_permissions(&acknowledged, fs::Permissions::from_mode(0o777)).expect("set");
    // What it says of the second one is not looked at.
    fs::remove_dir_all(sandbox.path("repo")).expect("removed");
    init(&sandbox, "repo");
    pushed_alone(&sandbox, 2, "only this user can write");
    fs::remove_dir_all(sandbox.path("spool")).expect("removed");
    pushed_alone(&sandbox, 3, "does not exist");
    std::os::unix::fs::symlink("data/base", sandbox.path("spool")).expect("a link");
    fs::create_dir_all(sandbox.path("data/base")).expect("made");
    pushed_alone(&sandbox, 4, "lies in the data directory");
}

/// A call that warns, and has pushed its file when it ends.
#[track_caller]
fn pushed_alone(sandbox: &Sandbox, number: u64, problem: &str) {
    let mut command = sandbox.command();
    let output = command.args(push_args(&name(number))).output();
    let output = output.expect("walzip starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(problem), "{said}");
    assert!(said.contains("this call pushes the file itself"), "{said}");
    sandbox.ok(&["archive-get", "--repo", "repo", &name(number), "got"]);
    assert!(sandbox.read("got") == segment(number));
    fs::remove_file(sandbox.path("got")).expect("removed");
}
