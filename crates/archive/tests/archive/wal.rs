//! Segments for tests: a valid first page, and content that differs where it is asked to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use tempfile::TempDir;
use walzip_archive::ArchiveError;
use walzip_archive::push::{PushOptions, Pushed, push};
use walzip_repo::testing::memory_store;
use walzip_repo::{ClusterIdentity, Repository};

pub const SEGMENT_SIZE: usize = 1 << 20;
pub const CLUSTER: ClusterIdentity = ClusterIdentity {
    system_id: 7_710_755_210_953_377_699,
    major: 15,
};
pub const PAGE_MAGIC_15: u16 = 0xD110;
const LONG_HEADER: u16 = 2;

/// A segment of 1 MiB: a first page that says where it belongs, then bytes that follow from the
/// seed.
pub fn segment(
    cluster: ClusterIdentity,
    magic: u16,
    timeline: u32,
    start: u64,
    seed: u8,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SEGMENT_SIZE);
    bytes.extend_from_slice(&magic.to_le_bytes());
    bytes.extend_from_slice(&LONG_HEADER.to_le_bytes());
    bytes.extend_from_slice(&timeline.to_le_bytes());
    bytes.extend_from_slice(&start.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&cluster.system_id.to_le_bytes());
    bytes.extend_from_slice(&(SEGMENT_SIZE as u32).to_le_bytes());
    bytes.extend_from_slice(&8192_u32.to_le_bytes());
    bytes.resize(SEGMENT_SIZE, 0);
    for (at, byte) in bytes.iter_mut().enumerate().skip(8192).step_by(97) {
        *byte = seed.wrapping_add((at / 97) as u8);
    }
    bytes
}

/// The segment with this number on timeline 1 of the tests' cluster.
pub fn valid_segment(number: u64, seed: u8) -> Vec<u8> {
    segment(
        CLUSTER,
        PAGE_MAGIC_15,
        1,
        number * SEGMENT_SIZE as u64,
        seed,
    )
}

pub fn segment_name(number: u64) -> String {
    format!("00000001{:08X}{:08X}", number >> 12, number & 0xFFF)
}

/// A directory that stands for `pg_wal`.
pub struct PgWal(TempDir);

impl PgWal {
    pub fn new() -> PgWal {
        PgWal(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).expect("a file in a temporary directory");
        path
    }

    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).expect("a readable directory");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }
}

pub async fn repository() -> Repository {
    repository_on(memory_store()).await
}

pub async fn repository_on(store: Arc<dyn ObjectStore>) -> Repository {
    Repository::init(store, CLUSTER)
        .await
        .expect("a new repository")
        .0
}

/// Pushes content under a name.
pub async fn push_content(
    repository: &Repository,
    name: &str,
    content: &[u8],
) -> Result<Pushed, ArchiveError> {
    let pg_wal = PgWal::new();
    push(
        repository,
        &pg_wal.write(name, content),
        &PushOptions::default(),
    )
    .await
}
