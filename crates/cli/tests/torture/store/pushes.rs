//! Pushes that must succeed, and pushes that may be refused and must do no harm.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::Arc;

use super::walzip::ended;
use super::{Content, Store, same_records};
use crate::rounds::Checked;

/// A file that PostgreSQL would push next.
pub fn original(store: &mut Store) -> Checked {
    let Some((name, content)) = store.any_missing() else {
        return forget_some(store);
    };
    push_original(store, &name, &content)
}

/// What a server has must be taken. A history may wait for the beginning of its timeline.
pub fn push_original(store: &mut Store, name: &str, content: &Content) -> Checked {
    let path = store.write_wal(name, content)?;
    let ended = store.push(&path)?;
    match ended.code {
        0 => {
            store.archived.insert(name.to_owned(), Arc::clone(content));
        }
        45 | 26 if name.ends_with(".history") && store.has_child_wal() => {
            store.progress.count("  a history was refused");
        }
        code => return Err(format!("push of {name}: exit {code}\n{}", ended.said)),
    }
    store.check(name)
}

/// Everything is archived: some files get lost, outside walzip, to be pushed again.
fn forget_some(store: &mut Store) -> Checked {
    for _ in 0..20 {
        if let Some(name) = store.any_archived() {
            forget(store, &name)?;
        }
    }
    Ok(())
}

pub fn forget(store: &mut Store, name: &str) -> Checked {
    store.archived.remove(name);
    match store.object(name) {
        Some(object) => fs::remove_file(object).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

pub fn again(store: &mut Store) -> Checked {
    let Some(name) = store.any_archived() else {
        return original(store);
    };
    let content = Arc::clone(&store.archived[&name]);
    let path = store.write_wal(&name, &content)?;
    let ended = store.push(&path)?;
    match ended.code {
        0 => store.check(&name),
        code => Err(format!(
            "second push of {name}: exit {code}\n{}",
            ended.said
        )),
    }
}

pub fn changed(store: &mut Store) -> Checked {
    let Some(name) = store.any_archived() else {
        return original(store);
    };
    let mut content = store.archived[&name].to_vec();
    mutate(store, &mut content);
    push_anything(store, &name, content)
}

pub fn mutated(store: &mut Store) -> Checked {
    let Some((name, content)) = store.any_missing() else {
        return forget_some(store);
    };
    let mut content = content.to_vec();
    mutate(store, &mut content);
    push_anything(store, &name, content)?;
    // A server's own file is to have its turn again.
    match store.archived.get(&name) {
        Some(archived) if store.wal.file(&name) != Some(archived) => forget(store, &name),
        _ => Ok(()),
    }
}

pub fn misnamed(store: &mut Store) -> Checked {
    let names: Vec<String> = store.wal.names().map(str::to_owned).collect();
    let (Some(name), Some(other)) = (
        store.random.pick(&names).cloned(),
        store.random.pick(&names).cloned(),
    ) else {
        return Ok(());
    };
    let was_there = store.archived.contains_key(&name);
    let content = store.wal.file(&other).ok_or("a file")?.to_vec();
    push_anything(store, &name, content)?;
    match store.wal.file(&name) == store.archived.get(&name) || was_there {
        true => Ok(()),
        false => forget(store, &name),
    }
}

/// Pushes bytes that may be refused; what is acknowledged must come back.
fn push_anything(store: &mut Store, name: &str, content: Vec<u8>) -> Checked {
    let path = store.write_wal(name, &content)?;
    let ended = store.push(&path)?;
    // Left there, the push of the segment behind it would compare it with the archived one, and refuse.
    fs::remove_file(&path).map_err(|error| error.to_string())?;
    let there = store.archived.get(name);
    match (ended.code, there) {
        (0, Some(there)) if **there != content => {
            if !same_records::are_in(store, name, [there.as_slice(), &content])? {
                return Err(format!("{name}: other bytes were acknowledged"));
            }
            store.progress.count("  the same records were there");
        }
        (0, _) => {
            store.progress.count("  other bytes were archived");
            store.archived.insert(name.to_owned(), Arc::new(content));
        }
        (_, Some(there)) if **there == content => {
            return Err(format!("{name}: refused\n{}", ended.said));
        }
        _ => store.progress.count("  other bytes were refused"),
    }
    store.check(name)
}

/// Two servers, or two archivers, with different bytes under one name: one of them may win.
pub fn rivals(store: &mut Store) -> Checked {
    let Some((name, content)) = store.any_missing() else {
        return forget_some(store);
    };
    let mut other = content.to_vec();
    mutate(store, &mut other);
    let contents = [content, Arc::new(other)];
    let mut running = Vec::new();
    for (number, content) in contents.iter().enumerate() {
        let directory = store.directory.join(format!("rival-{number}"));
        fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let path = directory.join(&name);
        fs::write(&path, content.as_slice()).map_err(|error| error.to_string())?;
        let mut push = store.push_command(&path);
        let push = push.stdout(Stdio::piped()).stderr(Stdio::piped());
        running.push(push.spawn().map_err(|error| error.to_string())?);
    }
    let mut acknowledged = Vec::new();
    for (push, content) in running.into_iter().zip(&contents) {
        let ended = ended(push.wait_with_output())?;
        if ended.code == 0 {
            acknowledged.push((content, ended.said.contains("with the same records")));
        }
    }
    // The loser is told when nothing but what no server replays was lost.
    acknowledged.sort_by_key(|(_, is_told)| *is_told);
    match acknowledged[..] {
        [(_, false), (_, true)]
            if same_records::are_in(store, &name, [&contents[0], &contents[1]])? =>
        {
            store.progress.count("  the same records were there");
        }
        [(one, _), (other, _)] if one != other => {
            return Err(format!("{name}: two contents were acknowledged"));
        }
        _ => (),
    }
    if let Some(&(content, _)) = acknowledged.first() {
        store.archived.insert(name.clone(), Arc::clone(content));
    }
    store.check(&name)?;
    forget(store, &name)
}

/// The disk is full, as far as this process can tell.
pub fn limited(store: &mut Store) -> Checked {
    let Some((name, content)) = store.any_missing() else {
        return forget_some(store);
    };
    let path = store.write_wal(&name, &content)?;
    let push = store.push_command(&path);
    let blocks = store.random.below(400);
    let mut limited = store.site.command("/bin/sh");
    limited
        .arg("-c")
        .arg(format!("ulimit -f {blocks}; exec \"$@\""));
    limited
        .arg("sh")
        .arg(push.get_program())
        .args(push.get_args());
    limited.env("WALZIP_REPO", store.repository());
    let output = limited.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        store.archived.insert(name.clone(), content);
    }
    settle(store, &name)
}

pub fn read_only(store: &mut Store) -> Checked {
    let Some((name, content)) = store.any_missing() else {
        return forget_some(store);
    };
    let closed = match store.random.chance(50) {
        true => store.repository().join(".incoming"),
        false => store.repository().join("wal"),
    };
    if !closed.is_dir() {
        return push_original(store, &name, &content);
    }
    let set = |mode| {
        fs::set_permissions(&closed, Permissions::from_mode(mode))
            .map_err(|error| error.to_string())
    };
    let path = store.write_wal(&name, &content)?;
    set(0o500)?;
    let ended = store.push(&path);
    set(0o700)?;
    let ended = ended?;
    if ended.code == 0 {
        store.archived.insert(name.clone(), content);
    }
    settle(store, &name)
}

/// After an attempt that may have been cut short: the whole file is there, or nothing. And the
/// next attempt succeeds.
pub fn settle(store: &mut Store, name: &str) -> Checked {
    let original = store
        .wal
        .file(name)
        .cloned()
        .ok_or("a file of the server")?;
    let got = store.get(name)?;
    match got.content {
        Some(content) if content == *original => {
            store
                .archived
                .insert(name.to_owned(), Arc::clone(&original));
        }
        Some(_) => return Err(format!("{name}: got other bytes than the server's")),
        None if store.archived.contains_key(name) => {
            return Err(format!("{name}: exit {}\n{}", got.code, got.said));
        }
        None if got.code == 1 || store.lacks_history(name) => {
            store.progress.count("  nothing was left behind");
        }
        None => return Err(format!("{name}: exit {}\n{}", got.code, got.said)),
    }
    match store.random.chance(50) {
        true => push_original(store, name, &original),
        false => Ok(()),
    }
}

/// Changes bytes as a bad disk, a bad copy or a fault in a program would.
pub fn mutate(store: &mut Store, content: &mut Vec<u8>) {
    let random = &mut store.random;
    for _ in 0..=random.below(3) {
        let at = random.below(content.len());
        let end = (at + 1 + random.below(9000)).min(content.len());
        match random.below(8) {
            0 | 1 if at < content.len() => content[at] ^= 1 << random.below(8),
            2 => content[at..end].fill(0),
            3 => content[at..end]
                .iter_mut()
                .for_each(|byte| *byte = random.next() as u8),
            4 => content.truncate(at),
            5 => content.extend((0..random.below(9000)).map(|number| number as u8)),
            6 => content[at..end].reverse(),
            // Headers decide whose WAL it is.
            7 if content.len() > 64 => content[random.below(64)] ^= 1 << random.below(8),
            _ => {
                content.drain(at..end);
            }
        }
    }
}
