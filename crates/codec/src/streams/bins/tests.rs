//! Bins: the example of the specification, round trips, and data that lies.

use super::*;
use crate::format_example;
use proptest::prelude::*;

fn decoded(coded: &[u8], width: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = vec![0; claimed_len(coded, width)?];
    decode(coded, width, &mut Scratch::default(), &mut out)?;
    Ok(out)
}

fn encode(rows: &[u8], width: usize) -> Option<Vec<u8>> {
    Prediction::of(rows, width).encode(rows, width)
}

/// Numbers as columns have them: a few frequent ones, small ones, and far ones.
fn rows() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![
        4 => (0u64..4).prop_map(|number| number * 1_000_003),
        4 => 0u64..100,
        2 => any::<u16>().prop_map(u64::from),
        1 => any::<u64>(),
    ];
    (
        0usize..4,
        proptest::collection::vec(number, 1..3000),
        0usize..8,
    )
        .prop_map(|(width, numbers, rest)| {
            let width = WIDTHS[width];
            let bytes = numbers
                .iter()
                .flat_map(|number| number.to_le_bytes()[..width].to_vec());
            bytes.chain(std::iter::repeat_n(7, rest)).collect()
        })
}

proptest! {
    #[test]
    fn decodes_what_it_encoded(rows in rows(), width in 0usize..4) {
        let width = WIDTHS[width];
        if let Some(coded) = encode(&rows, width) {
            prop_assert_eq!(decoded(&coded, width).unwrap(), rows);
        }
    }

    #[test]
    fn survives_any_bytes(coded in proptest::collection::vec(any::<u8>(), 0..300), width in 0usize..4) {
        let width = WIDTHS[width];
        if let Ok(rows) = decoded(&coded, width) {
            prop_assert!(rows.len() / width <= coded.len() * BIN_ROWS_MAX);
        }
    }

    #[test]
    fn survives_damage(rows in rows(), at in any::<prop::sample::Index>(), bit in 0u8..8, width in 0usize..4) {
        let width = WIDTHS[width];
        if let Some(mut coded) = encode(&rows, width) {
            let at = at.index(coded.len());
            coded[at] ^= 1 << bit;
            let _ = decoded(&coded, width);
            coded.pop();
            let _ = decoded(&coded, width);
        }
    }
}

/// The example of the specification, in its parts.
fn example() -> Vec<Vec<u8>> {
    let rows = format_example::rows("streams.md", "bins").into_iter();
    rows.map(|(_, bytes)| bytes).collect()
}

#[test]
fn codes_the_example_of_the_specification() {
    let rows = [&[7; 12][..], &[200, 201, 202, 203]].concat();
    let coded = example().concat();
    assert_eq!(encode(&rows, 1).as_ref(), Some(&coded));
    assert_eq!(decoded(&coded, 1), Ok(rows));
}

#[test]
fn refuses_what_no_encoder_writes() {
    let with = |part: usize, bytes: &[u8]| {
        let mut parts = example();
        parts[part] = bytes.to_vec();
        decoded(&parts.concat(), 1)
    };
    // More rows than the bytes can have.
    assert!(with(0, &[0xFF, 0x7F]).is_err());
    assert!(with(0, &[0x0F]).is_err());
    assert!(with(0, &[0x11]).is_err());
    // Other numbers of bins, and tables that are too short or too long.
    for bins in [[0, 5], [1, 5], [2, 0], [2, 4], [2, 13]] {
        assert!(with(1, &bins).is_err(), "{bins:?}");
    }
    // A gap of 9 bits, an offset of 9 bits, and a weight of 32 that leaves none.
    assert!(with(2, &[0x09, 0x13, 0xA2, 0, 1]).is_err());
    assert!(with(2, &[0x93, 0x13, 0xA2, 0, 1]).is_err());
    assert!(with(2, &[0x03, 0x17, 0xA0, 0, 1]).is_err());
    // Nothing to begin at, something left over, and something missing.
    assert!(with(3, &[0, 0xFA, 0x40, 0xC8]).is_err());
    assert!(with(3, &[0x52, 0xFA, 0x40, 0xC8, 0]).is_err());
    assert!(with(3, &[0x52, 0xFA, 0x40]).is_err());
}

#[test]
fn decodes_into_a_place_of_its_length_alone() {
    let coded = encode(&[1, 2, 3, 4].repeat(1000), 1).expect("bins");
    let decode = |len| decode(&coded, 1, &mut Scratch::default(), &mut vec![0; len]);
    assert!(decode(3999).is_err());
    assert!(decode(4001).is_err());
    assert_eq!(decode(4000), Ok(()));
}

/// Bins are found in a sample: what is in none of them is in the bin for all numbers.
#[test]
fn codes_numbers_that_no_sample_shows() {
    let mut numbers = vec![5u64; 100_000];
    numbers[77_777] = u64::MAX;
    numbers[88_888] = 1 << 40;
    let rows: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let mut with_noise = rows.clone();
    for (place, byte) in with_noise.iter_mut().step_by(8).enumerate() {
        *byte = (place * place / 7) as u8;
    }
    let coded = encode(&with_noise, 8).expect("bins");
    assert!(coded.len() < 110_000, "{}", coded.len());
    assert_eq!(decoded(&coded, 8), Ok(with_noise));
    // Rows that are all but alike are left to zstd, which has a byte for many of them.
    assert_eq!(encode(&rows, 8), None);
}
