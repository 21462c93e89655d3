//! Any bytes as a `.wz` file: an error or the content, in bounded memory, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{Header, decode};

fuzz_target!(|bytes: &[u8]| {
    let header = Header::read(bytes);
    if decode(bytes).is_ok() && !bytes.is_empty() {
        assert!(header.is_ok(), "decodes and has no header");
    }
});
