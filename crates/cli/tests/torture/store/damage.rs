//! Objects that change in the repository, as disks and people change them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::Store;
use super::pushes::{original, push_original};
use crate::random::Random;
use crate::rounds::Checked;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    Changed,
    Deleted,
    Swapped,
}

/// One object is damaged, looked at in every way, and mended.
pub fn object(store: &mut Store) -> Checked {
    let Some(name) = store.any_kind_archived() else {
        return original(store);
    };
    let path = store.object(&name).ok_or("its object has gone")?;
    let whole = fs::read(&path).map_err(|error| error.to_string())?;
    let damage = do_damage(store, &name, &path, &whole)?;
    if damage == Damage::Swapped {
        store.progress.count(match kind(&name) {
            "" => "  another object in the place of a segment",
            _ => "  another object in the place of a smaller file",
        });
    }
    let is_noticed = is_noticed_by_get(store, &name, damage)?;
    if store.random.chance(60) {
        check_verify(store, &name, damage, is_noticed)?;
    }
    if is_noticed && damage != Damage::Deleted {
        refuses_push(store, &name)?;
    }
    let content = store.archived[&name].clone();
    if store.random.chance(30) && store.wal.file(&name) == Some(&content) {
        // The way out where the server has the file still.
        let _ = fs::remove_file(&path);
        store.archived.remove(&name);
        return push_original(store, &name, &content);
    }
    fs::write(&path, whole).map_err(|error| error.to_string())?;
    store.site.hand_over(&path);
    store.check(&name)
}

/// What a name has after the segment's: nothing, or `.backup`, `.history`, `.partial`.
fn kind(name: &str) -> &str {
    name.rfind('.').map_or("", |dot| &name[dot..])
}

impl Store<'_> {
    /// A name that is archived, each kind as often as another: most files are segments.
    fn any_kind_archived(&mut self) -> Option<String> {
        let kinds: BTreeSet<&str> = self.archived.keys().map(|name| kind(name)).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        let chosen = *self.random.pick(&kinds)?;
        let names = self.archived.keys().filter(|name| kind(name) == chosen);
        let names: Vec<&String> = names.collect();
        self.random.pick(&names).map(|name| (*name).clone())
    }
}

fn do_damage(store: &mut Store, name: &str, path: &Path, whole: &[u8]) -> Checked<Damage> {
    if store.random.chance(10) {
        fs::remove_file(path).map_err(|error| error.to_string())?;
        return Ok(Damage::Deleted);
    }
    if store.random.chance(30)
        && let Some(other) = store.any_archived()
        && other != name
        && let Some(other) = store.object(&other)
    {
        fs::copy(other, path).map_err(|error| error.to_string())?;
        return Ok(Damage::Swapped);
    }
    let mut object = whole.to_vec();
    while object == whole {
        change(&mut store.random, &mut object);
    }
    fs::write(path, object).map_err(|error| error.to_string())?;
    Ok(Damage::Changed)
}

/// Changes an object at one place.
fn change(random: &mut Random, object: &mut Vec<u8>) {
    let at = random.below(object.len());
    let end = (at + 1 + random.below(500)).min(object.len());
    match random.below(6) {
        0 | 1 if at < object.len() => object[at] ^= 1 << random.below(8),
        2 => object.truncate(at),
        3 => object.extend((0..1 + random.below(100)).map(|number| number as u8)),
        4 => object[at..end].fill(0),
        _ => {
            object.drain(at..end);
        }
    }
}

/// A get refuses, or brings the right bytes all the same.
fn is_noticed_by_get(store: &mut Store, name: &str, damage: Damage) -> Checked<bool> {
    let got = store.get(name)?;
    match (got.content, damage) {
        (Some(content), _) if content == *store.archived[name] => {
            store.progress.count("  damage without an effect");
            Ok(false)
        }
        (Some(_), _) => Err(format!("{name}: {damage:?}, and wrong bytes with exit 0")),
        (None, Damage::Deleted) => Ok(true),
        (None, _) if got.code == 1 => Err(format!(
            "{name}: {damage:?}, and \"not in the archive\", at which a recovery ends"
        )),
        (None, _) => Ok(true),
    }
}

fn check_verify(store: &mut Store, name: &str, damage: Damage, is_noticed: bool) -> Checked {
    let verified = store.walzip(&["verify"])?;
    let is_listed = verified.code == 104 && verified.said.contains(name);
    match (is_noticed, damage) {
        // What is not there is known to be missing only after a backup.
        (true, Damage::Deleted) | (false, _) => Ok(()),
        (true, _) if is_listed => Ok(()),
        (true, _) => Err(format!(
            "{name}: {damage:?}, and verify does not list it: exit {}\n{}",
            verified.code, verified.said
        )),
    }
}

/// "It is archived" is not true of what cannot be decoded.
fn refuses_push(store: &mut Store, name: &str) -> Checked {
    let content = Arc::clone(&store.archived[name]);
    let path = store.write_wal(name, &content)?;
    let ended = store.push(&path)?;
    match ended.code {
        0 => Err(format!(
            "{name}: damaged, and a push of it was acknowledged"
        )),
        _ => Ok(()),
    }
}
