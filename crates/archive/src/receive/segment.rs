//! The segment that is being received: `NAME.partial` until it is whole.
//!
//! The file has a segment's length from its beginning on, so that room is there before WAL is
//! taken, and it can serve as the segment as it is. After a restart a segment is received again
//! from its beginning. What is there was reported to the server as synced, so it is compared, and no
//! other byte replaces it: only zeros are replaced, which is what a crash of the machine leaves of
//! what was not synced. The same bytes are written again: after a sync that failed, the system
//! takes them for written, and would not write them by itself.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::ClusterIdentity;

use super::directory::Directory;
use super::files::HEADER_LEN;
use super::spare;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::files::durable;
use crate::server::replication::ServerError;

/// An open segment.
#[derive(Debug)]
pub(super) struct OpenSegment {
    name: SegmentName,
    start: Lsn,
    size: u32,
    path: PathBuf,
    file: Arc<File>,
    /// The file was there before: what is in it counts.
    is_resumed: bool,
    /// The first bytes, until the header is whole and checked.
    header: Vec<u8>,
}

/// What every segment of the stream has to say of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) cluster: ClusterIdentity,
    pub(super) segment_size: u32,
}

impl OpenSegment {
    /// Opens the segment with this position, or makes it.
    pub(super) async fn open(
        directory: &Directory,
        timeline: TimelineId,
        position: Lsn,
        size: u32,
    ) -> Result<OpenSegment, ArchiveError> {
        let name = SegmentName::from_lsn(timeline, position, size)?;
        let path = directory.file(WalFileName::Partial(name));
        let start = name.start(size)?;
        let (made, spare) = (path.clone(), directory.spare());
        let opened = off_the_runtime(move || open_or_make(&made, &spare, size));
        let (file, is_resumed) = opened.await?;
        Ok(OpenSegment {
            name,
            start,
            size,
            path,
            file: Arc::new(file),
            is_resumed,
            header: Vec::with_capacity(HEADER_LEN),
        })
    }

    pub(super) fn name(&self) -> SegmentName {
        self.name
    }

    /// The position after its last byte.
    pub(super) fn end(&self) -> Lsn {
        Lsn(self.start.0 + u64::from(self.size))
    }

    /// Writes what follows what was written before. It does not go beyond the end.
    pub(super) fn write(
        &mut self,
        position: Lsn,
        bytes: &[u8],
        expected: &Expected,
    ) -> Result<(), ArchiveError> {
        if self.header.len() < HEADER_LEN {
            let missing = HEADER_LEN - self.header.len();
            self.header.extend(bytes.iter().take(missing));
            if self.header.len() == HEADER_LEN {
                self.check_header(expected)?;
            }
        }
        let offset = position.0 - self.start.0;
        let failed = |error| ArchiveError::file("write", &self.path, error);
        if self.is_resumed {
            let mut there = vec![0; bytes.len()];
            self.file
                .read_exact_at(&mut there, offset)
                .map_err(failed)?;
            let mut pairs = there.iter().zip(bytes);
            if let Some(at) = pairs.position(|(old, new)| old != new && *old != 0) {
                return Err(self.differs(Lsn(position.0 + at as u64)));
            }
        }
        self.file.write_all_at(bytes, offset).map_err(failed)
    }

    /// Makes what was written durable.
    pub(super) async fn sync(&self) -> Result<(), ArchiveError> {
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        off_the_runtime(move || {
            file.sync_data()
                .map_err(|error| ArchiveError::file("sync", &path, error))
        })
        .await
    }

    /// Gives the whole segment its name, durably.
    pub(super) async fn complete(self, directory: &Directory) -> Result<(), ArchiveError> {
        self.sync().await?;
        let whole = directory.file(WalFileName::Segment(self.name));
        let (from, above) = (self.path, directory.path().to_owned());
        off_the_runtime(move || {
            fs::rename(&from, &whole)
                .map_err(|error| ArchiveError::file("rename to", &whole, error))?;
            durable::sync_directory(&above)
        })
        .await
    }

    fn check_header(&self, expected: &Expected) -> Result<(), ArchiveError> {
        let wrong = |what: String| {
            let reason = format!("the WAL of {} {what}", self.name);
            Err(ServerError::Protocol(reason).into())
        };
        let header = match SegmentHeader::read(&self.header) {
            Ok(header) => header,
            Err(error) => return wrong(format!("does not begin as a segment: {error}")),
        };
        let found = ClusterIdentity {
            system_id: header.system_id.0,
            major: header.version.major,
        };
        if found != expected.cluster {
            return wrong(format!(
                "is of {found}, and the server of {}",
                expected.cluster
            ));
        }
        if header.segment_size != expected.segment_size || header.start != self.start {
            return wrong(format!(
                "begins as one of {} bytes at {}",
                header.segment_size, header.start
            ));
        }
        // It may begin with a copy of what its parent wrote.
        match header.timeline > self.name.timeline {
            true => wrong(format!("is of timeline {}", header.timeline)),
            false => Ok(()),
        }
    }

    fn differs(&self, at: Lsn) -> ArchiveError {
        ArchiveError::Diverged(format!(
            "the server's WAL at {at} on timeline {} is not what {} has",
            self.name.timeline,
            self.path.display()
        ))
    }
}

/// Makes an empty segment durable, unless there is one. The switch to another timeline does so
/// before it leaves the old one's, so that the directory always says where to go on.
pub(super) async fn make(
    directory: &Directory,
    timeline: TimelineId,
    position: Lsn,
    size: u32,
) -> Result<(), ArchiveError> {
    let made = OpenSegment::open(directory, timeline, position, size).await?;
    drop(made);
    Ok(())
}

/// Opens a file of a segment's length, and says whether it was there.
fn open_or_make(path: &Path, spare: &Path, size: u32) -> Result<(File, bool), ArchiveError> {
    let open = || OpenOptions::new().read(true).write(true).open(path);
    let failed = |error| ArchiveError::file("open", path, error);
    let file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if !spare::take(spare, path, size)? {
                durable::write_zeros(path, u64::from(size))?;
            }
            return Ok((open().map_err(failed)?, false));
        }
        file => file.map_err(failed)?,
    };
    let len = file.metadata().map_err(failed)?.len();
    match len == u64::from(size) {
        true => Ok((file, true)),
        false => Err(ArchiveError::Invalid {
            path: path.to_owned(),
            reason: format!("it has {len} bytes, and segments of the server have {size}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 1 << 20;

    fn expected() -> Expected {
        Expected {
            cluster: ClusterIdentity {
                system_id: super::super::tests::SYSTEM_ID,
                major: 15,
            },
            segment_size: SIZE,
        }
    }

    async fn open(directory: &Directory) -> OpenSegment {
        let position = Lsn(5 * u64::from(SIZE));
        let opened = OpenSegment::open(directory, TimelineId(1), position, SIZE).await;
        opened.expect("opened")
    }

    fn directory() -> (tempfile::TempDir, Directory) {
        let temporary = tempfile::tempdir().expect("a directory");
        let directory = Directory::open(temporary.path()).expect("free");
        (temporary, directory)
    }

    fn wal() -> Vec<u8> {
        super::super::tests::segment(1, 5)
    }

    #[tokio::test]
    async fn a_segment_has_its_length_from_the_beginning_and_its_name_at_the_end() {
        let (temporary, directory) = directory();
        let mut segment = open(&directory).await;
        let name = "000000010000000000000005";
        let partial = temporary.path().join(format!("{name}.partial"));
        assert_eq!(
            fs::metadata(&partial).expect("there").len(),
            u64::from(SIZE)
        );
        let start = Lsn(5 * u64::from(SIZE));
        segment.write(start, &wal(), &expected()).expect("written");
        segment.complete(&directory).await.expect("complete");
        assert!(!partial.exists());
        assert_eq!(fs::read(temporary.path().join(name)).expect("there"), wal());
    }

    #[tokio::test]
    async fn what_is_received_again_is_compared_and_only_zeros_are_replaced() {
        let (temporary, directory) = directory();
        let start = Lsn(5 * u64::from(SIZE));
        let wal = wal();
        let mut segment = open(&directory).await;
        segment
            .write(start, &wal[..9000], &expected())
            .expect("written");
        drop(segment);

        let mut again = open(&directory).await;
        again
            .write(start, &wal[..8500], &expected())
            .expect("the same");
        let at = Lsn(start.0 + 8500);
        again
            .write(at, &wal[8500..20_000], &expected())
            .expect("more");
        drop(again);
        let partial = temporary.path().join("000000010000000000000005.partial");
        let content = fs::read(&partial).expect("there");
        assert!(content[..20_000] == wal[..20_000]);

        let mut other = wal.clone();
        other[15_000] ^= 1;
        let mut again = open(&directory).await;
        let error = again
            .write(start, &other, &expected())
            .expect_err("another");
        assert!(matches!(error, ArchiveError::Diverged(_)), "{error}");
        assert!(error.to_string().contains("0/503A98"), "{error}");
        assert!(fs::read(&partial).expect("there") == content);
    }

    #[tokio::test]
    async fn what_is_not_the_clusters_segment_is_refused_in_pieces_of_any_size() {
        for (at, what) in [
            (0, "magic"),
            (8, "position"),
            (4, "timeline"),
            (24, "system"),
            (32, "size"),
        ] {
            for piece in [1, 7, 39, 40, 8192] {
                let (_temporary, directory) = directory();
                let mut segment = open(&directory).await;
                let mut wal = wal();
                wal[at] = wal[at].wrapping_add(3);
                let mut position = Lsn(5 * u64::from(SIZE));
                let mut written = Ok(());
                for bytes in wal[..8192].chunks(piece) {
                    written = segment.write(position, bytes, &expected());
                    if written.is_err() {
                        break;
                    }
                    position.0 += bytes.len() as u64;
                }
                let error = written.expect_err(what);
                assert!(matches!(error, ArchiveError::Server(_)), "{what}: {error}");
            }
        }
    }

    #[tokio::test]
    async fn a_file_of_another_length_is_refused() {
        let (temporary, directory) = directory();
        fs::write(
            temporary.path().join("000000010000000000000005.partial"),
            "short",
        )
        .expect("written");
        let position = Lsn(5 * u64::from(SIZE));
        let opened = OpenSegment::open(&directory, TimelineId(1), position, SIZE).await;
        let error = opened.expect_err("refused");
        assert!(matches!(error, ArchiveError::Invalid { .. }), "{error}");
    }
}
