//! Any bytes as a page to compress with pglz, and as pglz data.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use walzip_pgformat::pglz::{CharSign, Compressor, decompress};

thread_local! {
    // Used again from input to input, as the codec does.
    static COMPRESSOR: RefCell<Compressor> = RefCell::new(Compressor::new());
}

fuzz_target!(|bytes: &[u8]| {
    let mut packed = Vec::new();
    let mut unpacked = vec![0; bytes.len()];
    for sign in [CharSign::Signed, CharSign::Unsigned] {
        let smaller = COMPRESSOR.with(|it| it.borrow_mut().compress(bytes, &mut packed, sign));
        if smaller {
            assert!(packed.len() < bytes.len());
            decompress(&packed, &mut unpacked).expect("what was compressed");
            assert!(unpacked == bytes, "not the same after compressing");
        }
    }
    if let Some((&len, data)) = bytes.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(len) % 8193);
        let mut page = vec![0; len];
        let _: Result<(), _> = decompress(data, &mut page);
    }
});
