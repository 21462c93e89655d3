//! A file that ends early is an error, wherever it ends.

use walzip_codec::{Header, Level, decode, encode};

use crate::compatibility::golden_files;
use crate::inputs::{BEGINNINGS, small_segment, text};

#[track_caller]
fn refuses_every_prefix(what: &str, file: &[u8]) {
    assert!(decode(file).is_ok(), "{what} is whole");
    for len in 0..file.len() {
        assert!(
            decode(&file[..len]).is_err(),
            "{what} decodes from its first {len} bytes"
        );
    }
}

#[test]
fn every_truncation_of_a_file_is_an_error() {
    for (major, beginning) in BEGINNINGS {
        for level in [Level::default(), Level::MAX] {
            let file = encode(&small_segment(beginning), level).expect("encodes");
            refuses_every_prefix(major, &file);
        }
    }
    let file = encode(&text(100), Level::default()).expect("encodes");
    refuses_every_prefix("text", &file);
}

#[test]
fn every_truncation_of_a_golden_file_is_an_error() {
    for (name, file) in golden_files() {
        // What ends with a member is a file of fewer members.
        let first = Header::read(&file).expect("a header").member_len as usize;
        refuses_every_prefix(&name, &file[..first]);
    }
}

#[test]
fn bytes_behind_the_last_member_are_an_error() {
    let mut file = encode(&text(100), Level::default()).expect("encodes");
    file.push(0);
    assert!(decode(&file).is_err());
}
