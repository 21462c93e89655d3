//! A disk that can lose its power between any two operations.
//!
//! It keeps what programs see apart from what is on the medium. Syncing a file brings
//! its content to the medium, syncing a directory its entries; everything else may or
//! may not have arrived when the power goes, in any order, each change for itself.
//! That is more than real file systems lose, and what POSIX permits them to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::disk::Disk;

/// What a power cut leaves of the changes that were not synced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unsynced {
    /// Nothing of them.
    Lost,
    /// All names, none of the bytes: the torn file that a rename without a sync makes.
    NamesKept,
    /// Each by chance, and of the bytes a part, from this seed.
    Random(u64),
}

/// Which promise the disk breaks, to show that the tests would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ignores {
    Nothing,
    FileSyncs,
    DirectorySyncs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    File(usize),
}

#[derive(Clone, Debug, Default)]
struct Content {
    seen: Vec<u8>,
    on_medium: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct State {
    contents: Vec<Content>,
    seen: BTreeMap<PathBuf, Node>,
    on_medium: BTreeMap<PathBuf, Node>,
    /// How many more operations happen before the process dies.
    operations_left: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk {
    state: Arc<Mutex<State>>,
    ignores: Ignores,
    hard_links: bool,
}

impl SimulatedDisk {
    /// An empty disk with this directory on it.
    pub(crate) fn new(directory: &Path, ignores: Ignores) -> Self {
        let mut state = State::default();
        state.seen.insert(directory.to_owned(), Node::Directory);
        state.on_medium = state.seen.clone();
        Self {
            state: Arc::new(Mutex::new(state)),
            ignores,
            hard_links: true,
        }
    }

    /// The same without hard links, as FAT is.
    pub(crate) fn without_hard_links(mut self) -> Self {
        self.hard_links = false;
        self
    }

    /// Lets the process die before its operation of this number.
    pub(crate) fn die_before(&self, operation: Option<usize>) {
        self.state.lock().unwrap().operations_left = operation;
    }

    /// Cuts the power: a disk with what was left on the medium.
    pub(crate) fn after_power_cut(&self, unsynced: Unsynced) -> Self {
        let state = self.state.lock().unwrap();
        let mut chance = Chance::new(unsynced);
        let paths: BTreeSet<&PathBuf> = state.seen.keys().chain(state.on_medium.keys()).collect();
        let mut image = State::default();
        for path in paths {
            let (seen, on_medium) = (state.seen.get(path), state.on_medium.get(path));
            let node = if seen != on_medium && chance.name_arrived() {
                seen
            } else {
                on_medium
            };
            let has_parent = path
                .parent()
                .is_none_or(|parent| parent == Path::new("/") || image.seen.contains_key(parent));
            if let (Some(node), true) = (node, has_parent) {
                image.seen.insert(path.clone(), *node);
            }
        }
        image.on_medium = image.seen.clone();
        for content in &state.contents {
            let left = chance.bytes_left(content);
            image.contents.push(Content {
                seen: left.clone(),
                on_medium: left,
            });
        }
        Self {
            state: Arc::new(Mutex::new(image)),
            ..self.clone()
        }
    }

    /// What a reader finds under a name.
    pub(crate) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock().unwrap();
        match state.seen.get(path) {
            Some(Node::File(index)) => Some(state.contents[*index].seen.clone()),
            _ => None,
        }
    }

    /// The files in a directory, for finding debris.
    pub(crate) fn files_in(&self, directory: &Path) -> Vec<PathBuf> {
        let state = self.state.lock().unwrap();
        let is_file = |(path, node): &(&PathBuf, &Node)| {
            path.parent() == Some(directory) && **node != Node::Directory
        };
        state
            .seen
            .iter()
            .filter(is_file)
            .map(|(path, _)| path.clone())
            .collect()
    }

    fn operate<T>(&self, work: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock().unwrap();
        match &mut state.operations_left {
            Some(0) => return Err(io::Error::other("the process is dead")),
            Some(left) => *left -= 1,
            None => {}
        }
        work(&mut state)
    }
}

impl State {
    fn node(&self, path: &Path) -> io::Result<Node> {
        let node = self.seen.get(path).copied();
        node.ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn add(&mut self, path: &Path, node: Node) -> io::Result<()> {
        if let Some(parent) = path.parent().filter(|parent| *parent != Path::new("/")) {
            self.node(parent)?;
        }
        if self.seen.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.seen.insert(path.to_owned(), node);
        Ok(())
    }
}

impl Disk for SimulatedDisk {
    type File = usize;

    fn create_new(&self, path: &Path) -> io::Result<usize> {
        self.operate(|state| {
            let index = state.contents.len();
            state.add(path, Node::File(index))?;
            state.contents.push(Content::default());
            Ok(index)
        })
    }

    fn write_at(&self, file: &usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.operate(|state| {
            let content = &mut state.contents[*file].seen;
            let start = usize::try_from(offset).unwrap();
            content.resize(content.len().max(start + bytes.len()), 0);
            content[start..start + bytes.len()].copy_from_slice(bytes);
            Ok(())
        })
    }

    fn sync_file(&self, file: &usize) -> io::Result<()> {
        self.operate(|state| {
            if self.ignores != Ignores::FileSyncs {
                let content = &mut state.contents[*file];
                content.on_medium = content.seen.clone();
            }
            Ok(())
        })
    }

    fn sync_path(&self, path: &Path) -> io::Result<()> {
        let node = self.state.lock().unwrap().node(path)?;
        match node {
            Node::File(index) => self.sync_file(&index),
            Node::Directory => self.sync_directory(path),
        }
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.operate(|state| {
            if self.ignores != Ignores::DirectorySyncs {
                let is_entry = |path: &PathBuf| path.parent() == Some(directory);
                state.on_medium.retain(|path, _| !is_entry(path));
                let entries = state.seen.iter().filter(|(path, _)| is_entry(path));
                let entries: Vec<_> = entries.map(|(path, node)| (path.clone(), *node)).collect();
                state.on_medium.extend(entries);
            }
            Ok(())
        })
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.operate(|state| state.add(path, Node::Directory))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(|state| {
            if !self.hard_links {
                return Err(ErrorKind::PermissionDenied.into());
            }
            let node = state.node(from)?;
            state.add(to, node)
        })
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(|state| {
            let node = state.node(from)?;
            state.add(to, node)?;
            state.seen.remove(from);
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(|state| {
            let node = state.node(from)?;
            state.seen.remove(to);
            state.add(to, node)?;
            state.seen.remove(from);
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.operate(|state| {
            state.node(path)?;
            state.seen.remove(path);
            Ok(())
        })
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.operate(|state| {
            state.node(path)?;
            if state.seen.keys().any(|other| other.parent() == Some(path)) {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            state.seen.remove(path);
            Ok(())
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.operate(|state| Ok(state.seen.contains_key(path)))
    }
}

/// Decides what arrived on the medium.
struct Chance {
    unsynced: Unsynced,
    state: u64,
}

impl Chance {
    fn new(unsynced: Unsynced) -> Self {
        let state = match unsynced {
            Unsynced::Random(seed) => seed,
            Unsynced::Lost | Unsynced::NamesKept => 0,
        };
        Self { unsynced, state }
    }

    fn name_arrived(&mut self) -> bool {
        match self.unsynced {
            Unsynced::Lost => false,
            Unsynced::NamesKept => true,
            Unsynced::Random(_) => self.next().is_multiple_of(2),
        }
    }

    fn bytes_left(&mut self, content: &Content) -> Vec<u8> {
        match self.unsynced {
            Unsynced::Lost | Unsynced::NamesKept => content.on_medium.clone(),
            Unsynced::Random(_) if content.seen == content.on_medium => content.seen.clone(),
            Unsynced::Random(_) => {
                let length = self.next() % (content.seen.len() as u64 + 1);
                content.seen[..usize::try_from(length).unwrap()].to_vec()
            }
        }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
