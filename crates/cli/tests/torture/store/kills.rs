//! `kill -9` at a random moment of a push or a get.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::Store;
use super::pushes::{forget, original, settle};
use crate::rounds::Checked;

/// A push of a file that may be archived already.
pub fn push(store: &mut Store) -> Checked {
    let missing = store.any_missing();
    let Some((name, content)) = missing else {
        // The next push has its whole way to go.
        return match store.any_archived() {
            Some(name) => forget(store, &name),
            None => Ok(()),
        };
    };
    let path = store.write_wal(&name, &content)?;
    let command = store.push_command(&path);
    if kill_at_random(store, command)? {
        store.archived.insert(name.clone(), content);
    }
    settle(store, &name)
}

/// Two pushes of the same file, as when an archiver was started twice.
pub fn one_of_two(store: &mut Store) -> Checked {
    let Some((name, content)) = store.any_missing() else {
        return original(store);
    };
    let path = store.write_wal(&name, &content)?;
    let mut other = store.push_command(&path);
    let other = other.stdout(Stdio::null()).stderr(Stdio::null());
    let mut other = other.spawn().map_err(|error| error.to_string())?;
    let command = store.push_command(&path);
    let finished = kill_at_random(store, command)?;
    let status = other.wait().map_err(|error| error.to_string())?;
    if finished || status.success() {
        store.archived.insert(name.clone(), content);
    } else if !name.ends_with(".history") {
        return Err(format!("{name}: the push that was not killed: {status}"));
    }
    settle(store, &name)
}

/// A get, over what an earlier one left: the old bytes or the new ones.
pub fn get(store: &mut Store) -> Checked {
    let Some(name) = store.any_archived() else {
        return original(store);
    };
    let expected = Arc::clone(&store.archived[&name]);
    let destination = store.directory.join("got").join("RECOVERYXLOG");
    let old = b"an earlier segment".to_vec();
    let is_over_old = store.random.chance(50);
    if is_over_old {
        fs::write(&destination, &old).map_err(|error| error.to_string())?;
    }
    let mut command = store.command(&["archive-get", &name]);
    command.arg(&destination);
    let finished = kill_at_random(store, command)?;
    let found = fs::read(&destination).ok();
    let is_right = match &found {
        Some(found) if *found == *expected => true,
        Some(found) => !finished && is_over_old && *found == old,
        None => !finished && !is_over_old,
    };
    if found.is_some() {
        fs::remove_file(&destination).map_err(|error| error.to_string())?;
    }
    // What a killed get leaves is nobody's; PostgreSQL clears pg_wal of it when it starts.
    let left = fs::read_dir(store.directory.join("got")).map_err(|error| error.to_string())?;
    for entry in left.flatten() {
        fs::remove_file(entry.path()).map_err(|error| error.to_string())?;
    }
    match is_right {
        true => store.check(&name),
        false => Err(format!(
            "{name}: a get that {} left {:?} bytes that are neither old nor new",
            if finished { "finished" } else { "was killed" },
            found.map(|found| found.len())
        )),
    }
}

/// Starts a command and kills it some time later; whether it had succeeded before.
fn kill_at_random(store: &mut Store, command: Command) -> Checked<bool> {
    kill_within(store, command, store.usual * 3 / 2)
}

/// The same for a command that takes another time.
pub fn kill_within(store: &mut Store, command: Command, within: Duration) -> Checked<bool> {
    // More kills come early than late: a command that has ended is not killed.
    let fraction = store.random.fraction();
    kill_after(store, command, within.mul_f64(fraction * fraction))
}

/// Starts a command and kills it after this time; whether it had succeeded before.
pub fn kill_after(store: &mut Store, mut command: Command, delay: Duration) -> Checked<bool> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    std::thread::sleep(delay);
    // It may have ended a moment ago: killing it is then without effect.
    child.kill().map_err(|error| error.to_string())?;
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.code().is_none() {
        store.progress.killed(1);
    } else {
        store.progress.count("  ended before the kill");
    }
    Ok(status.success())
}
