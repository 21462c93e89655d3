//! Unsigned integers in as few bytes as they need: seven bits each, the low ones first.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

/// Appends `value`.
pub fn write(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads one value from the front of `bytes`, which then begin behind it. `None` where the
/// bytes end early, the value has more than 64 bits, or a shorter form exists.
pub fn read(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7F);
        if part << shift >> shift != part || (byte == 0 && shift > 0) {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_wrote() {
        for value in [0, 1, 127, 128, 300, 1 << 32, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            write(&mut bytes, value);
            let mut rest = &bytes[..];
            assert_eq!(read(&mut rest), Some(value));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn refuses_what_is_cut_or_too_long() {
        assert_eq!(read(&mut &[0x80][..]), None);
        assert_eq!(read(&mut &[0x80, 0][..]), None);
        assert_eq!(read(&mut &[0xFF; 11][..]), None);
    }
}
