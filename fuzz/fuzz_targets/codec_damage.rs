//! What any bytes are encoded to, with bytes of it changed: an error or the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{Level, decode, encode};

/// Each change has three bytes of position and one of value.
const CHANGES: usize = 3;

fuzz_target!(|input: &[u8]| {
    let Some((changes, bytes)) = input.split_at_checked(CHANGES * 4) else {
        return;
    };
    let mut file = encode(bytes, Level::MIN).expect("any bytes can be encoded");
    for change in changes.chunks_exact(4) {
        let at = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize % file.len();
        file[at] ^= change[3];
    }
    if let Ok(decoded) = decode(&file) {
        assert!(decoded == bytes, "other bytes without an error");
    }
});
