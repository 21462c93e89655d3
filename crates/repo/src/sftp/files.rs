//! Objects as files on an SSH server: complete under their name, and given it once.
//!
//! The order is that of the local store: the bytes go into a file of a unique name in `.incoming`,
//! which is synced and then named in one step that fails when the name is taken, by a hard link
//! or, where the server has none, by a plain rename. A rename as POSIX has it would replace what
//! has the name, and is never asked for. Then the directory is synced, and once over each connection the entries of
//! those that lead to it: who made them may have been killed before it was.
//!
//! Not every server syncs (`fsync@openssh.com`), and few sync directories. What a server cannot be
//! asked for is its own to promise.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::future::{join, join_all};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use russh_sftp::client::error::Error as ProtocolError;
use russh_sftp::protocol::{FileAttributes, OpenFlags, StatusCode};

use super::connection::Connection;
use super::error::SftpError;

/// Where objects lie before they have their final name. No key can reach into it.
pub(super) const STAGING: &str = ".incoming";

/// Readable by the owner and the group: the files hold the database's content.
const FILE_MODE: u32 = 0o640;
const DIRECTORY_MODE: u32 = 0o750;
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

/// How many requests are on their way at once.
const IN_FLIGHT: usize = 16;
/// How old a temporary file is when nobody will complete it.
const ABANDONED_AFTER: Duration = Duration::from_secs(2 * 24 * 60 * 60);

type Result<T> = std::result::Result<T, SftpError>;

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Other(&'static str),
}

impl Kind {
    pub(super) fn of(attributes: &FileAttributes) -> Kind {
        match attributes.permissions.map(|mode| mode & KIND) {
            Some(REGULAR) => Kind::File,
            Some(DIRECTORY) => Kind::Directory,
            Some(LINK) => Kind::Other("a link"),
            Some(_) => Kind::Other("neither a file nor a directory"),
            None => Kind::Other("of a kind that the server does not tell"),
        }
    }
}

/// An object's size and time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub(super) size: u64,
    pub(super) modified: SystemTime,
}

impl Stat {
    pub(super) fn of(attributes: &FileAttributes) -> Stat {
        let seconds = attributes.mtime.unwrap_or_default();
        Stat {
            size: attributes.size.unwrap_or_default(),
            modified: UNIX_EPOCH + Duration::from_secs(seconds.into()),
        }
    }
}

/// What a put found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Created,
    Exists,
}

/// A name in `.incoming` that nobody else has.
pub(super) fn unique_name() -> String {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = now.map_or(0, |age| age.as_nanos());
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    format!("{}-{nanoseconds}-{serial}", std::process::id())
}

/// What is above a path.
pub(super) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// The directories on the way to one, from below the root down. To the root itself it is all that are above, too: what
/// lies in it makes the repository.
fn way_to<'d>(root: &str, directory: &'d str) -> Vec<&'d str> {
    let mut levels = Vec::new();
    let mut level = directory;
    while level != "/" && (directory == root || level.len() > root.len()) {
        levels.push(level);
        level = parent(level);
    }
    levels.reverse();
    levels
}

impl Connection {
    /// What is at a path, without following a link; `None` when there is nothing.
    pub(super) async fn look(&self, path: &str) -> Result<Option<FileAttributes>> {
        match self
            .sftp
            .lstat(path)
            .await
            .map_err(SftpError::at("look at", path))
        {
            Ok(found) => Ok(Some(found.attrs)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks that nothing on the way from the root to a path leads elsewhere; returns what is at
    /// each level. The questions are asked together.
    pub(super) async fn look_along(
        &self,
        root: &str,
        path: &str,
    ) -> Result<Vec<(String, Option<FileAttributes>)>> {
        let below = path.strip_prefix(root).unwrap_or_default();
        let mut level = root.to_owned();
        let mut levels = Vec::new();
        for part in below.split('/').filter(|part| !part.is_empty()) {
            level.push('/');
            level.push_str(part);
            levels.push(level.clone());
        }
        let looks = levels.iter().map(|level| self.look(level));
        let mut found = Vec::new();
        for (level, look) in levels.iter().zip(join_all(looks).await) {
            let look = look?;
            if let Some(Kind::Other(found)) = look.as_ref().map(Kind::of) {
                let path = level.clone();
                return Err(SftpError::Misplaced {
                    path,
                    found,
                    is_object: false,
                });
            }
            found.push((level.clone(), look));
        }
        for (path, look) in found.iter().rev().skip(1) {
            if look
                .as_ref()
                .is_some_and(|look| Kind::of(look) == Kind::File)
            {
                let (path, found) = (path.clone(), "a file, not a directory");
                return Err(SftpError::Misplaced {
                    path,
                    found,
                    is_object: false,
                });
            }
        }
        Ok(found)
    }

    /// Creates a file of this name, which must not exist, with a content.
    pub(super) async fn write_new(&self, path: &str, content: &[Bytes]) -> Result<()> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUDE;
        self.write_opened(path, flags, 0, content).await
    }

    /// Writes into a file from an offset on.
    pub(super) async fn write_at(&self, path: &str, offset: u64, content: &[Bytes]) -> Result<()> {
        self.write_opened(path, OpenFlags::WRITE, offset, content)
            .await
    }

    async fn write_opened(
        &self,
        path: &str,
        flags: OpenFlags,
        mut offset: u64,
        content: &[Bytes],
    ) -> Result<()> {
        let attributes = FileAttributes {
            permissions: flags.contains(OpenFlags::CREATE).then_some(FILE_MODE),
            ..FileAttributes::empty()
        };
        let opened = self.sftp.open(path, flags, attributes).await;
        let handle = opened.map_err(SftpError::at("open", path))?.handle;
        let mut pieces = Vec::new();
        for bytes in content {
            for piece in bytes.chunks(self.piece_bytes) {
                pieces.push((offset, bytes.slice_ref(piece)));
                offset += piece.len() as u64;
            }
        }
        let writes = pieces
            .into_iter()
            .map(|(offset, piece)| self.sftp.write(handle.as_str(), offset, piece.to_vec()));
        let written = futures::stream::iter(writes)
            .buffer_unordered(IN_FLIGHT)
            .try_for_each(|_| std::future::ready(Ok(())))
            .await
            .map_err(SftpError::at("write", path));
        let written = match written {
            Ok(()) if self.has_fsync => {
                let synced = self.sftp.fsync(handle.as_str()).await;
                synced.map(|_| ()).map_err(SftpError::at("sync", path))
            }
            written => written,
        };
        let closed = self.sftp.close(handle.as_str()).await;
        written?;
        closed.map_err(SftpError::at("close", path))?;
        Ok(())
    }

    /// Makes a file durable, as far as the server can be asked for it.
    async fn sync_file(&self, path: &str) -> Result<()> {
        if !self.has_fsync {
            return Ok(());
        }
        let opened = self.open_to_read(path).await;
        self.sync(opened.map_err(SftpError::at("open", path))?, path)
            .await
    }

    /// Makes the names in a directory durable. Few servers open directories.
    async fn sync_directory(&self, path: &str) -> Result<()> {
        if !self.has_fsync {
            return Ok(());
        }
        match self.open_to_read(path).await {
            Ok(handle) => self.sync(handle, path).await,
            Err(ProtocolError::Status(status))
                if matches!(
                    status.status_code,
                    StatusCode::Failure | StatusCode::OpUnsupported
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(SftpError::at("open", path)(error)),
        }
    }

    /// Makes the name of an object durable, and the entries of the directories on the way to it that are not known to
    /// be. The requests are made together.
    async fn sync_names_to(&self, object: &str) -> Result<()> {
        if !self.has_fsync {
            return Ok(());
        }
        let directory = parent(object);
        let unknown: Vec<&str> = {
            let known = self.durable_directories();
            let way = way_to(&self.root, directory).into_iter();
            way.filter(|level| !known.contains(*level)).collect()
        };
        let entries = join_all(unknown.into_iter().map(|level| self.sync_entry_of(level)));
        let (names, entries) = join(self.sync_directory(directory), entries).await;
        names.and(entries.into_iter().collect())
    }

    /// Makes the entry of a directory durable. What is above the repository may be another owner's.
    async fn sync_entry_of(&self, directory: &str) -> Result<()> {
        match self.sync_directory(parent(directory)).await {
            Err(error) if error.is_denied() && self.root.starts_with(directory) => {}
            synced => synced?,
        }
        self.durable_directories().insert(directory.to_owned());
        Ok(())
    }

    fn durable_directories(&self) -> MutexGuard<'_, HashSet<String>> {
        let known = self.durable_directories.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }

    async fn open_to_read(&self, path: &str) -> std::result::Result<String, ProtocolError> {
        let attributes = FileAttributes::empty();
        let opened = self.sftp.open(path, OpenFlags::READ, attributes).await?;
        Ok(opened.handle)
    }

    async fn sync(&self, handle: String, path: &str) -> Result<()> {
        let synced = self.sftp.fsync(handle.as_str()).await;
        let closed = self.sftp.close(handle.as_str()).await;
        synced.map_err(SftpError::at("sync", path))?;
        closed.map_err(SftpError::at("close", path))?;
        Ok(())
    }

    /// Creates a directory and what is missing above it.
    pub(super) async fn create_directories(&self, path: &str) -> Result<()> {
        let mut missing = Vec::new();
        let mut level = path;
        while self.look(level).await?.is_none() {
            missing.push(level);
            if level == "/" {
                break;
            }
            level = parent(level);
        }
        for level in missing.into_iter().rev() {
            let attributes = FileAttributes {
                permissions: Some(DIRECTORY_MODE),
                ..FileAttributes::empty()
            };
            let made = self.sftp.mkdir(level, attributes).await;
            match made.map_err(SftpError::at("create", level)) {
                Ok(_) => self.sync_entry_of(level).await?,
                // Somebody else was faster.
                Err(error) if error.is_failure() && self.look(level).await?.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives a synced file its name, unless that is taken, and removes its temporary one.
    pub(super) async fn publish(&self, staged: &str, object: &str) -> Result<Named> {
        if self.has_hardlink {
            let linked = self.sftp.hardlink(staged, object).await;
            match linked.map_err(SftpError::at("name", object)) {
                Ok(_) => return self.created(object).await,
                Err(error) if error.is_transient() => return Err(error),
                Err(_) if self.look(object).await?.is_some() => return self.confirm(object).await,
                // A file system without hard links.
                Err(_) => {}
            }
        }
        let renamed = self.sftp.rename(staged, object).await;
        match renamed.map_err(SftpError::at("name", object)) {
            Ok(_) => self.created(object).await,
            Err(error) if !error.is_transient() && self.look(object).await?.is_some() => {
                self.confirm(object).await
            }
            Err(error) => Err(error),
        }
    }

    async fn created(&self, object: &str) -> Result<Named> {
        self.sync_names_to(object).await?;
        Ok(Named::Created)
    }

    /// What is there is made durable before its existence counts.
    pub(super) async fn confirm(&self, object: &str) -> Result<Named> {
        self.sync_file(object).await?;
        self.sync_names_to(object).await?;
        Ok(Named::Exists)
    }

    pub(super) async fn remove(&self, path: &str) -> Result<()> {
        let removed = self.sftp.remove(path).await;
        removed.map_err(SftpError::at("remove", path))?;
        Ok(())
    }

    /// Removes a file, or a directory with nothing in it but room for uploads; success as well when
    /// something is in a directory.
    pub(super) async fn remove_object(&self, path: &str) -> Result<()> {
        match self.remove(path).await {
            Ok(()) => {}
            Err(error) if error.is_missing() => return Err(error),
            Err(error) => {
                let _none = self.sftp.rmdir(format!("{path}/{STAGING}")).await;
                self.durable_directories().remove(path);
                let removed = self.sftp.rmdir(path).await;
                if removed.is_err() {
                    let left = self.look(path).await?;
                    let is_directory = left.is_some_and(|left| left.is_dir());
                    return is_directory.then_some(()).ok_or(error);
                }
            }
        }
        self.sync_directory(parent(path)).await
    }

    /// The names in a directory, and what they are; nothing where there is none.
    pub(super) async fn names(&self, path: &str) -> Result<Vec<(String, FileAttributes)>> {
        let opened = self.sftp.opendir(path).await;
        let handle = match opened.map_err(SftpError::at("list", path)) {
            Ok(opened) => opened.handle,
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        let end = loop {
            match self.sftp.readdir(handle.as_str()).await {
                Ok(some) => {
                    names.extend(
                        some.files
                            .into_iter()
                            .map(|file| (file.filename, file.attrs)),
                    );
                }
                Err(ProtocolError::Status(status)) if status.status_code == StatusCode::Eof => {
                    break Ok(());
                }
                Err(error) => break Err(SftpError::at("list", path)(error)),
            }
        };
        let closed = self.sftp.close(handle).await;
        end?;
        closed.map_err(SftpError::at("close", path))?;
        Ok(names)
    }

    /// Removes the temporary files of processes that were killed. By the server's own clock, a
    /// file counts as abandoned that is much older than one that is made now.
    pub(super) async fn sweep(&self, staging: &str) -> Result<()> {
        if self.names(staging).await?.is_empty() {
            return Ok(());
        }
        let own = unique_name();
        let now = format!("{staging}/{own}");
        self.write_new(&now, &[]).await?;
        let files = self.names(staging).await;
        self.remove(&now).await?;
        let files = files?;
        let files = files
            .iter()
            .filter(|(_, found)| Kind::of(found) == Kind::File && found.mtime.is_some());
        let files: Vec<(&str, SystemTime)> = files
            .map(|(name, found)| (name.as_str(), Stat::of(found).modified))
            .collect();
        let now = files.iter().find(|(name, _)| *name == own);
        let now = now.map(|(_, modified)| *modified);
        for (name, modified) in &files {
            let age = now.and_then(|now| now.duration_since(*modified).ok());
            if age.is_some_and(|age| age > ABANDONED_AFTER) {
                // Somebody else may sweep as well.
                let _ = self.remove(&format!("{staging}/{name}")).await;
            }
        }
        Ok(())
    }
}

/// A file that is open for reading, which is closed when this is dropped.
pub(super) struct Reader {
    connection: Arc<Connection>,
    path: String,
    handle: String,
    pub(super) attributes: FileAttributes,
}

impl Reader {
    pub(super) async fn open(connection: Arc<Connection>, path: String) -> Result<Reader> {
        let sftp = &connection.sftp;
        let opened = sftp
            .open(path.as_str(), OpenFlags::READ, FileAttributes::empty())
            .await;
        let handle = opened.map_err(SftpError::at("open", &path))?.handle;
        let mut reader = Reader {
            connection: Arc::clone(&connection),
            path,
            handle,
            attributes: FileAttributes::empty(),
        };
        let found = sftp.fstat(reader.handle.as_str()).await;
        reader.attributes = found.map_err(SftpError::at("look at", &reader.path))?.attrs;
        Ok(reader)
    }

    /// The bytes of a range, which ends early where the file does.
    pub(super) fn read(self, range: std::ops::Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let piece_bytes = self.connection.piece_bytes as u64;
        let reader = Arc::new(self);
        let starts = (0..)
            .map(move |number: u64| range.start.saturating_add(number * piece_bytes))
            .take_while(move |start| *start < range.end);
        futures::stream::iter(starts)
            .map(move |start| {
                let reader = Arc::clone(&reader);
                let end = range.end.min(start.saturating_add(piece_bytes));
                async move { reader.piece(start, end).await }
            })
            .buffered(IN_FLIGHT)
            .boxed()
    }

    async fn piece(&self, start: u64, end: u64) -> Result<Bytes> {
        let mut piece = Vec::new();
        loop {
            let at = start + piece.len() as u64;
            let missing = u32::try_from(end.saturating_sub(at)).unwrap_or(u32::MAX);
            if missing == 0 {
                return Ok(piece.into());
            }
            let read = self.connection.sftp.read(self.handle.as_str(), at, missing);
            let read = async { Ok(read.await) };
            match self.connection.unless_closed(read).await? {
                Ok(data) if !data.data.is_empty() && data.data.len() <= missing as usize => {
                    piece.extend_from_slice(&data.data);
                }
                Err(ProtocolError::Status(status)) if status.status_code == StatusCode::Eof => {
                    return Ok(piece.into());
                }
                Ok(_) => {
                    let strange = ProtocolError::UnexpectedBehavior("a strange length".to_owned());
                    return Err(SftpError::at("read", &self.path)(strange));
                }
                Err(error) => return Err(SftpError::at("read", &self.path)(error)),
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let (connection, handle) = (
            Arc::clone(&self.connection),
            std::mem::take(&mut self.handle),
        );
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // The server closes it with the connection otherwise.
                let _ = connection.sftp.close(handle).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_directory_begins_below_the_root() {
        let way = |directory| way_to("/srv/walzip", directory);
        assert_eq!(
            way("/srv/walzip/wal/15-1"),
            ["/srv/walzip/wal", "/srv/walzip/wal/15-1"]
        );
        assert_eq!(way("/srv/walzip"), ["/srv", "/srv/walzip"]);
        assert_eq!(way_to("/", "/"), [""; 0]);
    }
}
