//! Inputs that are read a piece at a time, and records that are taken on trust, make the same files
//! as those in memory that are looked at closely.

use std::cell::Cell;
use std::io;

use walzip_codec::{EncodeError, Encoder, Level};
use walzip_pgformat::{Input, ReadAt};
use walzip_testing::samples;

use crate::inputs::{BEGINNINGS, noise, small_segment};

/// Bytes that can be read so many times; after that reading fails, or gives other bytes.
struct Readings<'b> {
    bytes: &'b [u8],
    left: Cell<usize>,
    fails: bool,
}

impl<'b> Readings<'b> {
    fn without_end(bytes: &'b [u8]) -> Readings<'b> {
        Readings {
            bytes,
            left: Cell::new(usize::MAX),
            fails: true,
        }
    }
}

impl ReadAt for Readings<'_> {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset + buffer.len();
        buffer.copy_from_slice(self.bytes.get(offset..end).expect("within the input"));
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        match left {
            0 if self.fails => Err(io::Error::other("on purpose")),
            0 => {
                buffer.iter_mut().for_each(|byte| *byte ^= 1);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn encode<'i>(input: impl Into<Input<'i>>) -> Result<Vec<u8>, EncodeError> {
    Encoder::new(Level::MIN, true).encode(input)
}

#[test]
fn a_reader_makes_the_same_file() {
    let mut inputs: Vec<Vec<u8>> = BEGINNINGS.iter().map(|(_, b)| small_segment(b)).collect();
    inputs.extend(samples::all().iter().take(3).map(|sample| sample.read()));
    let damaged = |(number, segment): (usize, &Vec<u8>)| {
        let mut damaged = segment.clone();
        let offset = damaged.len() / 2 + number * 8192 + 77;
        damaged[offset..offset + 400].copy_from_slice(&noise(400, 3));
        damaged
    };
    let damaged: Vec<Vec<u8>> = inputs.iter().enumerate().map(damaged).collect();
    inputs.extend(damaged);
    inputs.push(noise(300_000, 4));
    inputs.push(Vec::new());
    for input in &inputs {
        for len in [input.len(), input.len() / 3 * 2 + 5] {
            let input = &input[..len.min(input.len())];
            let expected = encode(input).expect("encodes");
            let read = Readings::without_end(input);
            assert!(encode(Input::Reader(&read)).expect("encodes") == expected);
        }
    }
}

#[test]
fn what_cannot_be_read_is_an_error_and_no_file() {
    let segment = small_segment(BEGINNINGS[0].1);
    for readings in [0, 1, 2, 4, 7, 10] {
        let read = Readings {
            left: Cell::new(readings),
            ..Readings::without_end(&segment)
        };
        let refused = encode(Input::Reader(&read));
        assert!(matches!(refused, Err(EncodeError::Read(_))), "{readings}");
    }
}

#[test]
fn what_changes_while_it_is_read_is_not_proven() {
    let segment = small_segment(BEGINNINGS[0].1);
    for readings in [1, 2, 4, 7, 10] {
        let read = Readings {
            left: Cell::new(readings),
            fails: false,
            ..Readings::without_end(&segment)
        };
        if let Ok(file) = encode(Input::Reader(&read)) {
            // All that was encoded was read after the change.
            let decoded = walzip_codec::decode(&file).expect("decodes");
            let changed: Vec<u8> = segment.iter().map(|byte| byte ^ 1).collect();
            assert!(decoded == changed, "{readings}");
        }
    }
}

/// With a proof to come, checksums are trusted at first: what that makes of a wrong one must not
/// differ from what is made without the trust.
#[test]
fn a_wrong_checksum_changes_nothing_but_the_time() {
    for (major, beginning) in BEGINNINGS {
        let mut segment = small_segment(beginning);
        for offset in [9_000, 70_000, 200_001] {
            segment[offset] ^= 4;
            let trusting = walzip_codec::encode_verified(&segment, Level::MIN).expect("encodes");
            let checking = walzip_codec::encode(&segment, Level::MIN).expect("encodes");
            assert!(trusting == checking, "{major}, {offset}");
        }
    }
}
