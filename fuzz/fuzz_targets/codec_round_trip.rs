//! Any bytes, encoded at any level and decoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{Level, decode, encode};

fuzz_target!(|input: &[u8]| {
    let Some((level, bytes)) = input.split_first() else {
        return;
    };
    let level = Level::new(level % 9 + 1).expect("1 to 9");
    let file = encode(bytes, level).expect("any bytes can be encoded");
    let decoded = decode(&file).expect("what was encoded");
    assert!(decoded == bytes, "not the same after encoding");
});
