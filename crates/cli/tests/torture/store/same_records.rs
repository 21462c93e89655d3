//! Segments with the same records, by pg_waldump: behind a switch record they may differ, for no server replays what is there.

use std::fs;

use super::Store;
use crate::rounds::Checked;

/// Whether two contents of a segment have the same records, up to a switch.
pub fn are_in(store: &Store, name: &str, contents: [&[u8]; 2]) -> Checked<bool> {
    if name.len() != 24 {
        return Ok(false);
    }
    let [one, other] = [
        records(store, name, contents[0])?,
        records(store, name, contents[1])?,
    ];
    let ends_with_switch = one
        .lines()
        .last()
        .is_some_and(|last| last.contains("SWITCH"));
    Ok(ends_with_switch && one == other)
}

fn records(store: &Store, name: &str, content: &[u8]) -> Checked<String> {
    let directory = store.directory.join("dumped");
    fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let path = directory.join(name);
    fs::write(&path, content).map_err(|error| error.to_string())?;
    let mut dump = store.site.command(store.site.program("pg_waldump"));
    // It fails at the end of the file, and where the WAL is damaged: what it has printed by then counts.
    let output = dump.arg(&path).output();
    let output = output.map_err(|error| format!("pg_waldump: {error}"))?;
    fs::remove_file(&path).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
