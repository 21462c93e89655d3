use super::*;
use proptest::prelude::*;

fn decoded(coded: &[u8], width: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::new();
    decode(coded, width, 1 << 20, &mut Scratch::default(), &mut out)?;
    Ok(out)
}

fn encode(rows: &[u8], width: usize) -> Option<Vec<u8>> {
    Prediction::of(&rows[..rows.len() / 2], width).encode(rows, width)
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
