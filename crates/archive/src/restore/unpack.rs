//! A backup's files into directories, every file proven against PostgreSQL's manifest: or proven
//! alone, with nothing written, which shows that a backup can be restored.
//!
//! An archive decides nothing but content: files that the manifest does not list are refused, and
//! no file is written twice. The links of known tablespaces are made last, so that nothing is ever
//! written through one. Those of others are left out: such a tablespace was created while the backup ran,
//! and the replay of its creation makes the link, whether there is one or not.

use std::collections::HashSet;
use std::io::Read;
use std::path::PathBuf;

use super::destination::{Destination, Output, make_directory, set_mode};
use super::directories::UNFINISHED;
use super::selection::Selection;
use crate::backups::backup_files::{BACKUP_LABEL, CONTROL_FILE, Entry, FileSink, LEFT_OUT};
use crate::backups::pg_manifest::{ManifestFile, PgManifest};
use crate::backups::proven_copy;
use crate::backups::tar_files;
use crate::error::ArchiveError;
use crate::progress::Progress;
use crate::server::tablespace_record::TablespaceRecord;

/// The control file's name until everything else is in place.
pub(super) const CONTROL_FILE_UNFINISHED: &str = "global/pg_control.walzip.tmp";

/// What a restore writes itself.
const WRITTEN: [&str; 5] = [
    CONTROL_FILE_UNFINISHED,
    UNFINISHED,
    "postgresql.auto.conf",
    "recovery.signal",
    "standby.signal",
];
/// No control file and no label is longer.
const KEPT_BYTES_MAX: u64 = 64 << 10;

/// A directory of every cluster, with the permissions that all of its directories were made with.
const CATALOGS: &[u8] = b"global";
/// Its group may read (`PG_DIR_MODE_GROUP`), or it may not.
const GROUP_MAY_READ: u32 = 0o750;
const GROUP_MAY_NOT_READ: u32 = 0o700;

/// Unpacks the archives of one backup.
pub(super) struct Unpacker {
    backup: String,
    destination: Destination,
    manifest: PgManifest,
    selection: Selection,
    seen: HashSet<Vec<u8>>,
    /// Directories of databases that are left out.
    marked: HashSet<PathBuf>,
    unpacked: Unpacked,
    progress: Progress,
}

/// What a backup turned out to be.
#[derive(Clone, Debug, Default)]
pub(super) struct Unpacked {
    pub(super) counts: Counts,
    /// The directories of the backup, by their names in the manifest.
    pub(super) directories: HashSet<Vec<u8>>,
    /// Whether the cluster's group may read its files.
    pub(super) group_may_read: bool,
    /// The content of `backup_label`.
    pub(super) backup_label: Vec<u8>,
    /// The content of `global/pg_control`.
    pub(super) control_file: Vec<u8>,
}

/// What was unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) files_without_checksum: u64,
    /// Files that are new or were changed, and the bytes written to them.
    pub(super) files_written: u64,
    pub(super) bytes_written: u64,
    /// Files of databases that are left out, and their length: they have no content.
    pub(super) files_left_out: u64,
    pub(super) bytes_left_out: u64,
}

impl Unpacker {
    /// An unpacker that writes what is selected.
    pub(super) fn new(
        backup: &str,
        destination: Destination,
        manifest: PgManifest,
        selection: Selection,
        progress: &Progress,
    ) -> Unpacker {
        let unpacker = Unpacker::with(backup, destination, manifest, progress);
        Unpacker {
            selection,
            ..unpacker
        }
    }

    /// An unpacker that only proves.
    pub(super) fn proving(
        backup: &str,
        tablespaces: &[TablespaceRecord],
        manifest: PgManifest,
        progress: &Progress,
    ) -> Unpacker {
        let oids = tablespaces.iter().map(|tablespace| tablespace.oid);
        let destination = Destination::Nowhere(oids.collect());
        Unpacker::with(backup, destination, manifest, progress)
    }

    fn with(
        backup: &str,
        destination: Destination,
        manifest: PgManifest,
        progress: &Progress,
    ) -> Unpacker {
        Unpacker {
            backup: format!("backup {backup}"),
            destination,
            manifest,
            selection: Selection::all(),
            seen: HashSet::new(),
            marked: HashSet::new(),
            unpacked: Unpacked::default(),
            progress: progress.clone(),
        }
    }

    /// Unpacks the archive of a tablespace, or of the data directory.
    pub(super) fn unpack(
        &mut self,
        tablespace: Option<u32>,
        archive: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        self.root(tablespace)?;
        let backup = self.backup.clone();
        tar_files::read(&backup, tablespace, archive, self)
    }

    fn root(&self, tablespace: Option<u32>) -> Result<PathBuf, ArchiveError> {
        self.destination.root(tablespace).ok_or_else(|| {
            let oid = tablespace.unwrap_or_default();
            self.damaged(format!("tablespace {oid} was not announced"))
        })
    }

    /// Makes sure that nothing is missing, and makes the tablespaces' links.
    pub(super) fn finish(mut self) -> Result<Unpacked, ArchiveError> {
        let missing = self
            .manifest
            .files
            .keys()
            .find(|name| !self.seen.contains(*name));
        if let Some(name) = missing {
            let name = String::from_utf8_lossy(name).into_owned();
            return Err(self.damaged(format!("{name} is in the manifest and in no archive")));
        }
        if let Some(directories) = self.destination.directories() {
            let links = directories.data.join("pg_tblspc");
            make_directory(&links)?;
            self.unpacked.directories.insert(b"pg_tblspc".to_vec());
            for (oid, path) in &directories.tablespaces {
                let link = links.join(oid.to_string());
                std::os::unix::fs::symlink(path, &link)
                    .map_err(|error| ArchiveError::file("link", &link, error))?;
            }
            let mode = match self.unpacked.group_may_read {
                true => GROUP_MAY_READ,
                false => GROUP_MAY_NOT_READ,
            };
            for root in std::iter::once(&directories.data).chain(directories.tablespaces.values()) {
                set_mode(root, mode)?;
            }
        }
        Ok(self.unpacked)
    }

    /// Whether a file is one of a database that is left out.
    pub(super) fn leaves_out(&self, entry: &Entry) -> bool {
        self.selection.leaves_out(&entry.name())
    }

    /// Makes a file of a database that is left out: its length, and no content.
    pub(super) fn leave_out(&mut self, entry: &Entry, size_bytes: u64) -> Result<(), ArchiveError> {
        self.admit(entry, size_bytes)?;
        let path = self.root(entry.tablespace)?.join(&entry.path);
        self.destination
            .create_zeros(&path, entry.mode, size_bytes)?;
        if let Some(directory) = path.parent()
            && self.marked.insert(directory.to_owned())
        {
            let mark = directory.join(LEFT_OUT);
            self.destination.create_zeros(&mark, entry.mode, 0)?;
        }
        self.progress.add(size_bytes);
        self.unpacked.counts.files_left_out += 1;
        self.unpacked.counts.bytes_left_out += size_bytes;
        Ok(())
    }

    /// Refuses a file that is not the manifest's, or that was there before.
    fn admit(&mut self, entry: &Entry, size_bytes: u64) -> Result<ManifestFile, ArchiveError> {
        let shown = entry.path.display();
        let name = entry.name();
        let Some(listed) = self.manifest.files.get(&name).cloned() else {
            return Err(self.damaged(format!("{shown} is not in the manifest")));
        };
        if size_bytes != listed.size_bytes {
            let size = listed.size_bytes;
            let reason = format!("{shown} has {size_bytes} bytes, {size} in the manifest");
            return Err(self.damaged(reason));
        }
        for (at, _) in name.iter().enumerate().filter(|&(_, &byte)| byte == b'/') {
            let directory = name.get(..at).unwrap_or_default();
            if !self.unpacked.directories.contains(directory) {
                self.unpacked.directories.insert(directory.to_vec());
            }
        }
        match self.seen.insert(name) {
            true => Ok(listed),
            false => Err(self.damaged(format!("{shown} comes twice"))),
        }
    }

    fn damaged(&self, reason: String) -> ArchiveError {
        ArchiveError::Damaged {
            object: self.backup.clone(),
            reason,
        }
    }
}

impl FileSink for Unpacker {
    fn directory(&mut self, entry: Entry) -> Result<(), ArchiveError> {
        let name = entry.name();
        let is_reserved = WRITTEN.iter().any(|written| written.as_bytes() == name);
        if is_reserved || self.manifest.files.contains_key(&name) {
            let shown = entry.path.display();
            return Err(self.damaged(format!("{shown} is a directory")));
        }
        let path = self.root(entry.tablespace)?.join(entry.path);
        if name == CATALOGS {
            self.unpacked.group_may_read = entry.mode & GROUP_MAY_READ == GROUP_MAY_READ;
        }
        self.unpacked.directories.insert(name);
        self.destination.create_directory(&path, entry.mode)
    }

    /// The links of known tablespaces are made at the end.
    fn link(&mut self, _: u32, _: String) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn file(
        &mut self,
        entry: Entry,
        size_bytes: u64,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        let root = self.root(entry.tablespace)?;
        if self.leaves_out(&entry) {
            return self.leave_out(&entry, size_bytes);
        }
        let listed = self.admit(&entry, size_bytes)?;
        let listed_as = entry.name();
        let is_control_file = listed_as == CONTROL_FILE.as_bytes();
        // What an interrupted restore has left there is proven, and not restored, as what is in the server's way.
        let is_leftover = [CONTROL_FILE_UNFINISHED, UNFINISHED]
            .map(str::as_bytes)
            .contains(&listed_as.as_slice());
        let is_omitted = is_leftover || self.selection.omits(&listed_as);
        let path = match is_control_file {
            true => root.join(CONTROL_FILE_UNFINISHED),
            false => root.join(&entry.path),
        };
        let is_label = listed_as == BACKUP_LABEL.as_bytes();
        let is_kept = (is_control_file || is_label) && listed.size_bytes <= KEPT_BYTES_MAX;
        let mut output = match is_omitted {
            true => Output::nowhere(),
            false => self.destination.create_file(&path, entry.mode)?,
        };
        let mut kept = Vec::new();
        let shown = entry.path.to_string_lossy();
        proven_copy::copy(&self.backup, &shown, &listed, content, |piece| {
            self.progress.add(piece.len() as u64);
            if is_kept {
                kept.extend_from_slice(piece);
            }
            output.write(piece)
        })?;
        let written = output.finish()?;
        if is_control_file {
            self.unpacked.control_file = kept;
        } else if is_label {
            self.unpacked.backup_label = kept;
        }
        let counts = &mut self.unpacked.counts;
        counts.files += 1;
        counts.bytes += listed.size_bytes;
        counts.files_without_checksum += u64::from(listed.checksum.is_none());
        counts.files_written += u64::from(written.is_changed);
        counts.bytes_written += written.bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore::directories::Directories;
    use std::collections::{BTreeMap, HashMap};
    use std::path::Path;
    use tar::{Builder, EntryType, Header};
    use tempfile::TempDir;

    /// An unpacker for a data directory and one tablespace, 16384, of which the manifest lists
    /// one file each, of three bytes and without a checksum.
    fn unpacker(directory: &TempDir) -> Unpacker {
        let listed = || ManifestFile {
            size_bytes: 3,
            checksum: None,
        };
        let files = [
            b"base/1/2".to_vec(),
            b"pg_tblspc/16384/PG_15/5".to_vec(),
            CONTROL_FILE.as_bytes().to_vec(),
        ];
        let manifest = PgManifest {
            files: HashMap::from_iter(files.map(|name| (name, listed()))),
            wal_ranges: Vec::new(),
        };
        let directories = Directories::of(
            directory.path().join("data"),
            BTreeMap::from([(16384, directory.path().join("tablespace"))]),
        );
        directories.prepare().expect("new directories");
        let destination = Destination::Empty(directories);
        let progress = Progress::default();
        Unpacker::new("test", destination, manifest, Selection::all(), &progress)
    }

    /// An archive of one entry. The name is put in as it is: the crate's own setter refuses what
    /// a forged archive would have.
    fn archive(name: &[u8], kind: EntryType, content: &[u8]) -> Vec<u8> {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_mode(0o600);
        header.set_size(content.len() as u64);
        if kind == EntryType::Symlink {
            header.set_link_name("/etc").expect("a link name");
        }
        header.set_cksum();
        let mut builder = Builder::new(Vec::new());
        builder.append(&header, content).expect("appended");
        builder.into_inner().expect("finished")
    }

    fn files_below(path: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).expect("readable") {
            let path = entry.expect("an entry").path();
            match path.symlink_metadata().expect("there").is_dir() {
                true => found.extend(files_below(&path)),
                false => found.push(path),
            }
        }
        found
    }

    #[test]
    fn refuses_whatever_a_server_would_not_send() {
        let cases: [(&str, Option<u32>, Vec<u8>); 10] = [
            (
                "upwards",
                None,
                archive(b"../x", EntryType::Regular, b"abc"),
            ),
            (
                "inside, upwards",
                None,
                archive(b"base/../../x", EntryType::Regular, b"abc"),
            ),
            (
                "absolute",
                None,
                archive(b"/tmp/x", EntryType::Regular, b"abc"),
            ),
            (
                "unlisted",
                None,
                archive(b"base/1/3", EntryType::Regular, b"abc"),
            ),
            (
                "too long",
                None,
                archive(b"base/1/2", EntryType::Regular, b"abcd"),
            ),
            (
                "too short",
                None,
                archive(b"base/1/2", EntryType::Regular, b"ab"),
            ),
            (
                "a link",
                None,
                archive(b"base/1/2", EntryType::Symlink, b""),
            ),
            (
                "a hard link",
                None,
                archive(b"base/1/2", EntryType::Link, b""),
            ),
            (
                "a link there",
                Some(16384),
                archive(b"PG_15", EntryType::Symlink, b""),
            ),
            (
                "unannounced",
                Some(1),
                archive(b"base/1/2", EntryType::Regular, b"abc"),
            ),
        ];
        for (what, tablespace, archive) in cases {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let unpacked = unpacker(&directory).unpack(tablespace, &mut archive.as_slice());
            assert!(
                matches!(unpacked, Err(ArchiveError::Damaged { .. })),
                "{what}: {unpacked:?}"
            );
            assert_eq!(
                files_below(directory.path()),
                Vec::<PathBuf>::new(),
                "{what}"
            );
        }
    }

    #[test]
    fn leaves_out_the_link_of_a_tablespace_that_a_replay_will_create() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut unpacker = unpacker(&directory);
        let link = archive(b"pg_tblspc/16400", EntryType::Symlink, b"");
        unpacker
            .unpack(None, &mut link.as_slice())
            .expect("no damage");
        assert_eq!(files_below(directory.path()), Vec::<PathBuf>::new());
    }

    #[test]
    fn refuses_a_file_that_comes_twice() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut unpacker = unpacker(&directory);
        let archive = archive(b"base/1/2", EntryType::Regular, b"abc");
        unpacker
            .unpack(None, &mut archive.as_slice())
            .expect("once");
        assert!(unpacker.unpack(None, &mut archive.as_slice()).is_err());
    }

    #[test]
    fn refuses_a_backup_with_a_file_missing_or_cut_short() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut unpacker = unpacker(&directory);
        let archive = archive(b"base/1/2", EntryType::Regular, b"abc");
        let cut = &archive[..512 + 1];
        assert!(unpacker.unpack(None, &mut &cut[..]).is_err());
        assert!(matches!(
            unpacker.finish(),
            Err(ArchiveError::Damaged { .. })
        ));
    }

    #[test]
    fn what_an_interrupted_restore_left_in_the_original_is_not_in_the_way() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut unpacker = unpacker(&directory);
        let left = CONTROL_FILE_UNFINISHED.as_bytes();
        let listed = unpacker.manifest.files[CONTROL_FILE.as_bytes()].clone();
        unpacker.manifest.files.insert(left.to_vec(), listed);
        for name in [left, CONTROL_FILE.as_bytes()] {
            let archive = archive(name, EntryType::Regular, b"abc");
            let unpacked = unpacker.unpack(None, &mut archive.as_slice());
            unpacked.expect("the data directory");
        }
        assert_eq!(unpacker.unpacked.control_file, b"abc");
    }

    #[test]
    fn refuses_a_directory_where_a_file_has_to_be() {
        for name in ["base/1/2", CONTROL_FILE_UNFINISHED, "recovery.signal"] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let archive = archive(name.as_bytes(), EntryType::Directory, b"");
            let unpacked = unpacker(&directory).unpack(None, &mut archive.as_slice());
            assert!(unpacked.is_err(), "{name}");
        }
    }

    #[test]
    fn puts_everything_in_its_place_but_the_control_file() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut unpacker = unpacker(&directory);
        let file = |name| archive(name, EntryType::Regular, b"abc");
        let link = archive(b"pg_tblspc/16384", EntryType::Symlink, b"");
        unpacker
            .unpack(Some(16384), &mut file(b"PG_15/5").as_slice())
            .expect("a tablespace");
        for archive in [file(b"base/1/2"), file(CONTROL_FILE.as_bytes()), link] {
            unpacker
                .unpack(None, &mut archive.as_slice())
                .expect("the data directory");
        }
        let unpacked = unpacker.finish().expect("complete");
        assert_eq!(unpacked.control_file, b"abc");
        let counts = unpacked.counts;
        assert_eq!(
            (counts.files, counts.bytes, counts.files_without_checksum),
            (3, 9, 3)
        );
        let data = directory.path().join("data");
        assert!(data.join("base/1/2").exists());
        assert!(
            data.join("pg_tblspc/16384/PG_15/5").exists(),
            "through the new link"
        );
        assert!(!data.join(CONTROL_FILE).exists());
        assert!(data.join(CONTROL_FILE_UNFINISHED).exists());
    }
}
