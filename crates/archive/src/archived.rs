//! The WAL in a repository: which of it is there, what it leads to, and whether it is right.

pub(crate) mod archived_wal;
pub(crate) mod branches;
pub(crate) mod comparing;
pub(crate) mod competing;
pub(crate) mod difference;
pub(crate) mod later_beside;
pub(crate) mod neighbours;
pub(crate) mod own_history;
pub(crate) mod own_wal;
pub(crate) mod packed_times;
pub(crate) mod remembered_times;
pub(crate) mod settling;
pub(crate) mod shared_segment;
pub(crate) mod stable_file;
pub(crate) mod stored_times;
pub(crate) mod stored_wal;
pub(crate) mod timelines;
pub(crate) mod wal_index;
pub(crate) mod wal_object;
pub(crate) mod wal_times;
