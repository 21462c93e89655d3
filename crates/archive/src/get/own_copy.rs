//! A segment that lies in `pg_wal` already, where PostgreSQL asks for it.
//!
//! PostgreSQL puts what `restore_command` delivers in the place of its own file (KeepFileRestoredFromArchive in
//! access/transam/xlogarchive.c, 13 to 18): when a stream breaks, when it is promoted, when it starts. Of the segment in which a
//! timeline was left, the archive may have the copy of a server that was sent less of it, so that the own file has commits
//! that are nowhere else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::SegmentName;

use crate::error::ArchiveError;
use crate::wal::replayed;

/// The server's own file.
pub(crate) struct OwnCopy {
    path: PathBuf,
    content: Vec<u8>,
}

impl OwnCopy {
    /// The file beside the destination that has a segment's name, if it was written as that segment.
    pub(crate) fn beside(
        destination: &Path,
        segment: SegmentName,
    ) -> Result<Option<OwnCopy>, ArchiveError> {
        let path = destination.with_file_name(segment.to_string());
        if path == destination {
            return Ok(None);
        }
        let content = match fs::read(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ArchiveError::file("read", &path, error)),
        };
        let is_begun = SegmentHeader::read(&content)
            .is_ok_and(|header| segment.start(header.segment_size).ok() == Some(header.start));
        Ok(is_begun.then_some(OwnCopy { path, content }))
    }

    /// Refuses the archived copy if it is the beginning of this one, which has records after it. Where each has its own, the
    /// archive's counts, as to PostgreSQL.
    pub(crate) fn refuse_beginning(&self, archived: &[u8]) -> Result<(), ArchiveError> {
        let mut pairs = self.content.iter().zip(archived);
        let Some(at) = pairs.position(|(own, archived)| own != archived) else {
            return Ok(());
        };
        let ends_after =
            |segment: &[u8]| replayed::end_of_records(segment).is_some_and(|end| end.offset > at);
        match ends_after(&self.content) && !ends_after(archived) {
            true => Err(ArchiveError::OwnCopyHasMore {
                path: self.path.clone(),
            }),
            false => Ok(()),
        }
    }
}

/// Whether the server has a file of its own beside the destination, which an archived one has to be compared with.
pub fn is_beside(destination: &Path, segment: SegmentName) -> bool {
    let path = destination.with_file_name(segment.to_string());
    path != destination && path.exists()
}

#[cfg(test)]
mod tests {
    use walzip_repo::Repository;
    use walzip_repo::testing::memory_store;

    use crate::get::{GetOptions, Got, get};
    use crate::wal::testing::{CLUSTER, Record, segment};

    const NAME: &str = "000000010000000000000003";

    fn rows(lengths: &[usize], fill: u8) -> Vec<u8> {
        let rows: Vec<Record> = lengths.iter().map(|&len| Record::row(len, fill)).collect();
        segment(3, &rows)
    }

    /// Whether a server that has this file gets the archived one.
    async fn gets(archived: &[u8], own: &[u8]) -> bool {
        let repository = Repository::init(memory_store(), CLUSTER).await;
        let (repository, _) = repository.expect("a repository");
        let object = walzip_codec::encode(archived, walzip_codec::Level::default());
        let put = repository
            .put_wal(NAME, object.expect("encoded").into())
            .await;
        put.expect("archived");
        let pg_wal = tempfile::tempdir().expect("a directory");
        std::fs::write(pg_wal.path().join(NAME), own).expect("written");
        let destination = pg_wal.path().join("RECOVERYXLOG");
        let got = get(&repository, NAME, &destination, &GetOptions::default()).await;
        let is_found = matches!(got.expect("an answer"), Got::Found { .. });
        assert_eq!(destination.exists(), is_found);
        // What remains is the server's own file, and nothing half written.
        assert_eq!(std::fs::read(pg_wal.path().join(NAME)).expect("there"), own);
        let files = std::fs::read_dir(pg_wal.path()).expect("readable").count();
        assert_eq!(files, 1 + usize::from(is_found));
        is_found
    }

    #[tokio::test]
    async fn a_server_keeps_what_the_archive_has_the_beginning_of() {
        let (short, long) = (rows(&[100, 60], 1), rows(&[100, 60, 80], 1));
        assert!(!gets(&short, &long).await);
        assert!(gets(&long, &short).await);
        assert!(gets(&long, &long).await);
        // Each has its own.
        assert!(gets(&rows(&[100, 90], 2), &long).await);
    }

    #[tokio::test]
    async fn remains_are_not_kept() {
        let (short, long) = (rows(&[100, 60], 1), rows(&[100, 60, 80], 1));
        let remains = segment(1, &[60, 60, 40, 60].map(|len| Record::row(len, 3)));
        let end = 40 + 104 + 64;
        let own = [&short[..end], &remains[end..]].concat();
        assert!(gets(&short, &own).await);
        // Those of the archive's copy do not count either.
        assert!(!gets(&own, &long).await);
        assert!(gets(&short, &segment(1, &[Record::row(100, 1)])).await);
    }
}
