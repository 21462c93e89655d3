//! Any bytes as a WAL segment: read, and written back identically.
#![no_main]

#[path = "../../crates/pgformat/tests/postgresql/rewrite.rs"]
mod rewrite;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((written, _)) = rewrite::rewritten(bytes) {
        assert!(written == bytes, "not written back identically");
    }
});
