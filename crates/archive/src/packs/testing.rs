//! Packs of small segments, for tests.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::ObjectStore;
use walzip_codec::Level;
use walzip_repo::testing::memory_store;
use walzip_repo::{ClusterIdentity, Repository};

use crate::pack::PackOptions;
use crate::packs::format::EncodedMember;
use crate::progress::Progress;
use crate::push::{PushOptions, push};

const CLUSTER: ClusterIdentity = ClusterIdentity {
    system_id: 7_600_000_000_000_000_001,
    major: 15,
};
const SIZE: u32 = 1 << 20;

/// A segment that has nothing but its first page's header, and a byte.
pub(crate) fn segment(number: u32, byte: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0xD110_u16.to_le_bytes());
    bytes.extend(2_u16.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(u64::from(number * SIZE).to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(CLUSTER.system_id.to_le_bytes());
    bytes.extend(SIZE.to_le_bytes());
    bytes.extend(8192_u32.to_le_bytes());
    bytes.resize(SIZE as usize - 1, 0);
    bytes.push(byte);
    bytes
}

/// A repository in memory to which these segments were pushed from a directory.
pub(crate) async fn archive(directory: &Path, numbers: std::ops::Range<u32>) -> Repository {
    archive_in(memory_store(), directory, numbers).await
}

/// The same in a store.
pub(crate) async fn archive_in(
    store: Arc<dyn ObjectStore>,
    directory: &Path,
    numbers: std::ops::Range<u32>,
) -> Repository {
    let repository = Repository::init(store, CLUSTER).await;
    let (repository, _) = repository.expect("a repository");
    for number in numbers {
        let path = directory.join(name(number));
        std::fs::write(&path, segment(number, 0)).expect("a file");
        let pushed = push(&repository, &path, &PushOptions::default()).await;
        pushed.expect("pushed");
    }
    repository
}

pub(crate) fn name(number: u32) -> String {
    format!("0000000100000000{number:08X}")
}

pub(crate) fn options() -> PackOptions {
    PackOptions {
        level: Level::MIN,
        newest: 0,
        segments: 256,
        all: true,
        dry_run: false,
        // There is none: all stays in memory.
        scratch: "/nowhere".into(),
        progress: Progress::default(),
    }
}

/// What passing a segment spoils, in all packs of the process.
#[derive(Clone, Copy)]
pub(crate) enum Spoiling {
    Nothing,
    /// What follows it.
    Next,
    Itself,
}

static SPOILING: Mutex<Spoiling> = Mutex::new(Spoiling::Nothing);

impl Spoiling {
    pub(crate) fn get() -> Spoiling {
        *SPOILING.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(self) {
        *SPOILING.lock().unwrap_or_else(PoisonError::into_inner) = self;
    }
}

/// A segment that is damaged when it is encoded after others.
pub(crate) const DAMAGED: u32 = 0x77;
/// One that is damaged when it is encoded.
pub(crate) const STUBBORN: u32 = 0x99;

/// What is packed of a segment.
pub(crate) fn encoded(segment: &str, mut encoded: EncodedMember) -> EncodedMember {
    let is_damaged = segment == name(DAMAGED) && !encoded.begins_anew;
    if is_damaged || segment == name(STUBBORN) {
        let last = encoded.bytes.last_mut().expect("bytes");
        *last ^= 1;
    }
    encoded
}
