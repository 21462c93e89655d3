//! `archive-push` and `archive-get` with a worker in the background: a call succeeds when its file
//! is in the archive, and for no other reason.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

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

fn get(sandbox: &Sandbox, number: u64) {
    let output = get_output(sandbox, number);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{number}: {said}");
    assert_eq!(said, "");
    assert!(
        sandbox.read("data/pg_wal/RECOVERYXLOG") == segment(number),
        "{number} differs"
    );
}

fn get_output(sandbox: &Sandbox, number: u64) -> Output {
    let mut command = sandbox.command();
    command.current_dir(sandbox.path("data"));
    let repo = sandbox.path("repo");
    let spool = sandbox.path("spool");
    command
        .args(["archive-get", "--archive-async", "--spool-path"])
        .arg(spool);
    command
        .arg("--repo")
        .arg(repo)
        .args([&name(number), "pg_wal/RECOVERYXLOG"]);
    command.output().expect("walzip starts")
}

fn archived(count: u64) -> Sandbox {
    let sandbox = ready(count);
    for number in 1..=count {
        sandbox.ok(&[
            "archive-push",
            "--repo",
            "repo",
            &format!("data/pg_wal/{}", name(number)),
        ]);
    }
    sandbox
}

fn ahead(sandbox: &Sandbox) -> Vec<PathBuf> {
    let entries = fs::read_dir(spooled(sandbox, "get/ahead")).expect("a spool");
    entries
        .map(|entry| entry.expect("readable").path())
        .collect()
}

#[test]
fn segments_are_fetched_before_they_are_asked_for() {
    let sandbox = archived(12);
    get(&sandbox, 1);
    wait_until("the rest is fetched", || ahead(&sandbox).len() == 11);
    for number in 2..=12 {
        // From the spool: the repository has it no longer.
        fs::remove_file(object(&sandbox, "repo", &name(number))).expect("removed");
        get(&sandbox, number);
    }
}

/// As pg_rewind asks: neither a worker that is there nor a call fetches what nobody will ask for.
#[test]
fn nothing_is_fetched_ahead_of_calls_that_go_back() {
    let sandbox = archived(12);
    get(&sandbox, 10);
    wait_until("the rest is fetched", || ahead(&sandbox).len() == 2);
    for number in (5..=8).rev() {
        get(&sandbox, number);
        assert!(ahead(&sandbox).is_empty(), "{number}");
    }
    kill_workers(&sandbox);
    get(&sandbox, 4);
    assert_eq!(kill_workers(&sandbox), 0, "no worker is started");
    get(&sandbox, 5);
    wait_until("a recovery goes on", || ahead(&sandbox).len() == 7);
}

#[test]
fn what_was_fetched_ahead_and_is_not_right_is_not_given_out() {
    let sandbox = archived(8);
    get(&sandbox, 1);
    wait_until("the rest is fetched", || ahead(&sandbox).len() == 7);
    for path in ahead(&sandbox) {
        let mut content = fs::read(&path).expect("readable");
        content[5000] ^= 1;
        fs::write(&path, content).expect("written");
    }
    for number in 2..=8 {
        get(&sandbox, number);
    }
}

#[test]
fn another_clusters_segments_are_not_given_out() {
    let sandbox = archived(6);
    get(&sandbox, 1);
    get(&sandbox, 2);
    wait_until("the rest is fetched", || ahead(&sandbox).len() == 4);
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID + 1));
    let output = get_output(&sandbox, 3);
    assert_eq!(output.status.code(), Some(44));
}

/// What a timeline is may have become something else since: a recovery that begins again asks anew.
#[test]
fn a_recovery_that_begins_again_asks_the_archive() {
    let sandbox = archived(6);
    get(&sandbox, 1);
    get(&sandbox, 2);
    wait_until("the rest is fetched", || ahead(&sandbox).len() == 4);
    get(&sandbox, 1);
    fs::remove_file(object(&sandbox, "repo", &name(3))).expect("removed");
    let output = get_output(&sandbox, 3);
    assert_eq!(
        output.status.code(),
        Some(1),
        "it is not in the archive any more"
    );
}

/// Each restored server has a spool of its own, and may be gone the next day.
#[test]
fn the_spool_of_a_data_directory_that_is_gone_is_removed_after_a_day() {
    let sandbox = archived(2);
    let spool = |name: &str, data_directory: PathBuf, seen_gone: Option<u64>| {
        let path = sandbox.path("spool").join(name);
        fs::create_dir_all(path.join("get/ahead")).expect("a directory");
        let text = data_directory.as_os_str().as_encoded_bytes();
        fs::write(path.join("data-directory"), text).expect("written");
        if let Some(hours) = seen_gone {
            let mark = fs::File::create(path.join("gone")).expect("a file");
            let time = SystemTime::now() - Duration::from_secs(hours * 60 * 60);
            mark.set_modified(time).expect("set");
        }
        path
    };
    let gone = spool("gone-0123456789abcdef", sandbox.path("gone"), Some(25));
    let new = spool("new-0123456789abcdef", sandbox.path("gone"), Some(23));
    let unseen = spool("unseen-0123456789abcdef", sandbox.path("gone"), None);
    let there = spool("there-0123456789abcdef", sandbox.path("data"), Some(25));
    get(&sandbox, 1);
    assert!(!gone.exists());
    // It may be mounted again: from now on it is gone.
    assert!(new.exists() && unseen.join("gone").exists());
    assert!(there.exists() && !there.join("gone").exists());
}

#[test]
fn a_recovery_goes_on_without_a_spool() {
    let sandbox = archived(1);
    fs::remove_dir(sandbox.path("spool")).expect("removed");
    let output = get_output(&sandbox, 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("nothing is fetched ahead"), "{said}");
}

/// Its destination is that of a call which has ended, and may be another one's by now.
#[test]
fn a_worker_that_may_not_work_gets_nothing() {
    let sandbox = archived(3);
    let work = || {
        let mut worker = sandbox.command();
        worker.current_dir(sandbox.path("data")).args([
            "archive-get",
            "--worker",
            "--repo",
            "../repo",
            &name(2),
            "pg_wal/RECOVERYXLOG",
        ]);
        let output = worker
            .env("TMPDIR", sandbox.path("tmp"))
            .write_stdin("")
            .output()
            .expect("walzip starts");
        assert!(!output.status.success());
        assert!(!sandbox.path("data/pg_wal/RECOVERYXLOG").exists());
    };
    fs::create_dir(sandbox.path("tmp")).expect("a directory");
    work();
    // A spool that it cannot use, and a cluster that cannot be told.
    fs::remove_dir_all(sandbox.path("tmp")).expect("removed");
    fs::write(sandbox.path("tmp"), "a file").expect("written");
    work();
    fs::remove_file(sandbox.path("tmp")).expect("removed");
    fs::create_dir(sandbox.path("tmp")).expect("a directory");
    let control_file = sandbox.path("data/global/pg_control");
    fs::remove_file(control_file).expect("removed");
    work();
}
