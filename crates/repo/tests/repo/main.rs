//! What the repository promises, by property.

mod conformance;
mod copy;
mod encryption;
mod faults;
mod format;
mod kill;
mod limits;
mod local_files;
mod names;
mod objects;
mod packs;
mod places;
mod remote_faults;
mod removal;
mod set_aside;
mod sftp_faults;
mod suite;
mod upgrades;

use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use walzip_repo::{ClusterIdentity, Repository};

const CLUSTER: ClusterIdentity = ClusterIdentity {
    system_id: 7_301_234_567_890_123_456,
    major: 15,
};

/// Clusters that differ from it in one part each.
const OTHER_CLUSTER: [ClusterIdentity; 2] = [
    ClusterIdentity {
        system_id: 7_301_234_567_890_123_457,
        major: 15,
    },
    ClusterIdentity {
        system_id: 7_301_234_567_890_123_456,
        major: 16,
    },
];

const SEGMENT: &str = "000000010000000A000000FE";

async fn new_repository(store: Arc<dyn ObjectStore>) -> Repository {
    Repository::init(store, CLUSTER).await.unwrap().0
}

/// Bytes that only this name has, so that a mix-up shows.
fn patterned(name: &str, size: usize) -> Bytes {
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        bytes.extend_from_slice(&(state ^ (state >> 31)).to_le_bytes());
    }
    bytes.truncate(size);
    bytes.into()
}
