//! `kill -9` at random moments of setting a timeline aside and of putting it back.
//!
//! Whatever is killed, every object that was there is in one of the two places, unchanged; and
//! doing it again comes to the end that it would have come to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::kills::kill_within;
use super::pushes::{original, push_original};
use super::{Store, walzip::Ended};
use crate::rounds::Checked;

/// The timeline that is set aside, and under what.
const TIMELINE: &str = "2";
const LABEL: &str = "00000002";
const HISTORY: &str = "00000002.history";

/// How many files of the timeline there are at least.
const FILES: usize = 4;

/// Objects by name.
pub type Objects = BTreeMap<String, Vec<u8>>;

/// Away and back again, each killed up to three times.
pub fn killed(store: &mut Store) -> Checked {
    if !has_timeline(store)? {
        return original(store);
    }
    let before = objects(&wal(store))?;
    let begin = Instant::now();
    expect(store, &["timeline", "set-aside", TIMELINE])?;
    let within = begin.elapsed() * 4;
    kill_some(
        store,
        &["timeline", "set-aside", TIMELINE, "--confirm"],
        within,
        &before,
    )?;
    // Half of the way there is a way back, too.
    if store.random.chance(70) {
        expect(store, &["timeline", "set-aside", TIMELINE, "--confirm"])?;
        check_set_aside(store, &before)?;
    }
    let back = ["timeline", "put-back", LABEL, "--confirm"];
    kill_some(store, &back, within, &before)?;
    if !objects(&aside(store))?.is_empty() {
        expect(store, &back)?;
    }
    if objects(&wal(store))? != before || !objects(&aside(store))?.is_empty() {
        return Err("what was put back is not what was set aside".to_owned());
    }
    let own = store.archived.keys().filter(|name| is_own(name));
    let own: Vec<String> = own.cloned().collect();
    match store.random.pick(&own).cloned() {
        Some(name) => store.check(&name),
        None => Ok(()),
    }
}

/// Archives some files of the timeline, with its history; whether it is there.
fn has_timeline(store: &mut Store) -> Checked<bool> {
    if !store.archived.contains_key(HISTORY) {
        let content = store.wal.file(HISTORY).cloned().ok_or("a history")?;
        push_original(store, HISTORY, &content)?;
    }
    if !store.archived.contains_key(HISTORY) {
        return Ok(false);
    }
    let names: Vec<String> = store.wal.names().map(str::to_owned).collect();
    for name in names.iter().filter(|name| is_own(name)) {
        let own = store.archived.keys().filter(|name| is_own(name)).count();
        if own < FILES && !store.archived.contains_key(name) {
            let content = store.wal.file(name).cloned().ok_or("a file")?;
            push_original(store, name, &content)?;
        }
    }
    Ok(true)
}

fn is_own(name: &str) -> bool {
    name.starts_with(LABEL)
}

fn wal(store: &Store) -> PathBuf {
    store.repository().join("wal")
}

fn aside(store: &Store) -> PathBuf {
    store.repository().join("aside")
}

/// Kills a command some times; after each, all objects are there.
fn kill_some(store: &mut Store, arguments: &[&str], within: Duration, before: &Objects) -> Checked {
    for _ in 0..1 + store.random.below(3) {
        let command = store.command(arguments);
        let succeeded = kill_within(store, command, within)?;
        let places = [objects(&wal(store))?, objects(&aside(store))?];
        for (name, object) in before {
            let copies: Vec<&Vec<u8>> = places.iter().filter_map(|at| at.get(name)).collect();
            if copies.is_empty() || copies.iter().any(|copy| *copy != object) {
                return Err(format!(
                    "{arguments:?} was killed, and {name} is in {} places, not as it was",
                    copies.len()
                ));
            }
        }
        if succeeded {
            break;
        }
    }
    Ok(())
}

/// Nothing of the timeline is where a restore looks, everything else is, and no object is lost.
fn check_set_aside(store: &mut Store, before: &Objects) -> Checked {
    let (left, moved) = (objects(&wal(store))?, objects(&aside(store))?);
    if let Some(name) = left.keys().find(|name| is_own(name)) {
        return Err(format!(
            "timeline {TIMELINE} was set aside, and {name} is there"
        ));
    }
    if let Some(name) = moved
        .keys()
        .find(|name| !is_own(name) && !name.contains(".partial"))
    {
        return Err(format!(
            "timeline {TIMELINE} was set aside, and {name} with it"
        ));
    }
    let all: Objects = left.into_iter().chain(moved).collect();
    if all != *before {
        return Err("setting aside has lost or changed an object".to_owned());
    }
    let own = store.archived.keys().find(|name| is_own(name));
    let own = own.cloned().ok_or("a file of the timeline")?;
    let got = store.get(&own)?;
    match got.code {
        1 => Ok(()),
        code => Err(format!("{own}: set aside, and exit {code}\n{}", got.said)),
    }
}

/// Runs a command that has to succeed.
fn expect(store: &mut Store, arguments: &[&str]) -> Checked {
    let Ended { code, said } = store.walzip(arguments)?;
    match code {
        0 => Ok(()),
        code => Err(format!("{arguments:?}: exit {code}\n{said}")),
    }
}

/// All objects below a directory, which need not be there.
pub fn objects(directory: &Path) -> Checked<Objects> {
    let mut found = Objects::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.to_string()),
        };
        for entry in entries {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() {
                directories.push(path);
            } else if let Some(name) = path.file_name().and_then(|name| name.to_str())
                && let Some(name) = name.strip_suffix(".wz")
            {
                let object = fs::read(&path).map_err(|error| error.to_string())?;
                found.insert(name.to_owned(), object);
            }
        }
    }
    Ok(found)
}
