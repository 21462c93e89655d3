//! `kill -9` at random moments of packing everything that is archived.

use std::time::Duration;

use walzip_repo::layout::PACK_SETTLED_SECONDS;

use super::Store;
use super::kills::{kill_after, kill_within};
use crate::rounds::Checked;

const ALL: [&str; 4] = ["pack", "--newest", "0", "--all"];

/// Kills it while it encodes and proves, and while it removes; what was archived is there each
/// time, and doing it again comes to an end.
pub fn killed(store: &mut Store) -> Checked {
    for is_late in [false, false, true] {
        let command = store.command(&ALL);
        match is_late {
            false => kill_within(store, command, Duration::from_secs(8))?,
            true => {
                let random = Duration::from_secs(2).mul_f64(store.random.fraction());
                let settled = Duration::from_secs(PACK_SETTLED_SECONDS);
                kill_after(store, command, settled + random)?
            }
        };
        for name in store.archived.keys().cloned().collect::<Vec<_>>() {
            store.check(&name)?;
        }
    }
    let packed = store.walzip(&ALL)?;
    if packed.code != 0 {
        return Err(format!("pack: exit {}\n{}", packed.code, packed.said));
    }
    let mut left = store.archived.keys().filter(|name| is_left(store, name));
    match left.next() {
        None => Ok(()),
        Some(name) => Err(format!("{name} is not packed")),
    }
}

/// Whether a segment is an object of its own, and so is the one behind it: they make a pack.
fn is_left(store: &Store, name: &str) -> bool {
    let parts = name.split_at_checked(16);
    let parts = parts.and_then(|(directory, number)| {
        let next = u64::from_str_radix(number, 16).ok()? + 1;
        Some(format!("{directory}{next:08X}"))
    });
    let Some(following) = parts.filter(|_| name.len() == 24) else {
        return false;
    };
    store.object(&following).is_some() && store.object(name).is_some()
}
