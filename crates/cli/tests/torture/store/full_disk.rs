//! A disk without room, under a repository and under what a get writes.

use std::fs;
use std::path::{Path, PathBuf};

use super::walzip::{Ended, ended};
use super::{Content, Store};
use crate::disk::Disk;
use crate::rounds::Checked;

/// Room for some objects, and for one segment that a get writes.
const DISK_BYTES: u64 = 4 << 20;

/// A repository of its own on a small disk: the first file is archived, the second one comes when
/// little is left or nothing. Then there is room again.
pub fn full(store: &mut Store) -> Checked {
    let Some(disk) = Disk::mount(store.site, &store.directory.join("disk"), DISK_BYTES)? else {
        store
            .progress
            .count("  no disk of its own can be mounted here");
        return Ok(());
    };
    let (first, second) = (any_file(store)?, any_file(store)?);
    expect(&run(store, &disk, &["init"])?, 0, "init")?;
    expect(&push(store, &disk, &first)?, 0, "the first push")?;
    let filler = disk.fill(store.random.below(200_000) as u64)?;
    let pushed = push(store, &disk, &second)?.code;
    // What is there can be got wherever there is room.
    let aside = store.directory.join("got/RECOVERYXLOG");
    get(store, &disk, &first, &aside, true)?;
    get(
        store,
        &disk,
        &second,
        &aside,
        pushed == 0 || first.0 == second.0,
    )?;
    // And where there is none, nothing wrong has the file's name.
    let beside = disk.path.join("RECOVERYXLOG");
    let _ = disk.fill(0)?;
    let in_full = get_into(store, &disk, &first, &beside)?;
    match (in_full.code, fs::read(&beside).ok()) {
        (0, Some(content)) if content == *first.1 => {}
        (0, _) => {
            return Err(format!(
                "{}: exit 0 on a full disk, and other bytes",
                first.0
            ));
        }
        (1, _) => {
            return Err(format!(
                "{}: \"not in the archive\" on a full disk",
                first.0
            ));
        }
        (_, Some(_)) => return Err(format!("{}: refused, and something was written", first.0)),
        (_, None) => {}
    }
    let _ = fs::remove_file(&beside);
    fs::remove_file(filler).map_err(|error| error.to_string())?;
    let _ = fs::remove_file(disk.path.join("filler-0"));
    expect(
        &push(store, &disk, &second)?,
        0,
        "a push when there is room again",
    )?;
    get(store, &disk, &second, &aside, true)?;
    expect(&run(store, &disk, &["verify"])?, 0, "verify")
}

fn repository(disk: &Disk) -> PathBuf {
    disk.path.join("repository")
}

fn any_file(store: &mut Store) -> Checked<(String, Content)> {
    // Histories and what a child timeline needs have rules of their own.
    let files: Vec<(&str, &Content)> = store
        .wal
        .files()
        .filter(|(name, _)| name.starts_with("00000001") && name.len() == 24)
        .collect();
    let &(name, content) = store.random.pick(&files).ok_or("a segment")?;
    Ok((name.to_owned(), content.clone()))
}

fn run(store: &Store, disk: &Disk, arguments: &[&str]) -> Checked<Ended> {
    let mut command = store.command(arguments);
    command.env("WALZIP_REPO", repository(disk));
    command.env("WALZIP_PGDATA", store.wal.data());
    ended(command.output())
}

fn push(store: &mut Store, disk: &Disk, (name, content): &(String, Content)) -> Checked<Ended> {
    let path = store.write_wal(name, content)?;
    let mut command = store.push_command(&path);
    command.env("WALZIP_REPO", repository(disk));
    ended(command.output())
}

fn get_into(
    store: &Store,
    disk: &Disk,
    (name, _): &(String, Content),
    destination: &Path,
) -> Checked<Ended> {
    let destination = destination.to_string_lossy();
    let mut command = store.command(&["archive-get", name, &destination]);
    command.env("WALZIP_REPO", repository(disk));
    ended(command.output())
}

/// Gets a file where there is room: it must be the right one where it `is_there`.
fn get(
    store: &Store,
    disk: &Disk,
    file: &(String, Content),
    destination: &Path,
    is_there: bool,
) -> Checked {
    let got = get_into(store, disk, file, destination)?;
    let found = fs::read(destination).ok();
    let _ = fs::remove_file(destination);
    match found {
        Some(content) if got.code == 0 && content == *file.1 => Ok(()),
        // A push that was refused may have stored it all the same.
        None if got.code == 1 && !is_there => Ok(()),
        _ => Err(format!(
            "{} from a full disk: exit {}\n{}",
            file.0, got.code, got.said
        )),
    }
}

fn expect(ended: &Ended, code: i32, what: &str) -> Checked {
    match ended.code == code {
        true => Ok(()),
        false => Err(format!("{what}: exit {}\n{}", ended.code, ended.said)),
    }
}
