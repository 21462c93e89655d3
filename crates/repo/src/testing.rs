//! Stores for tests: one in memory, and one that fails on purpose.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;

/// An empty store in memory.
pub fn memory_store() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}
