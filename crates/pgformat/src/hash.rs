//! PostgreSQL's hash of a byte string, as indexes and hash joins use it (`hash_bytes` in
//! common/hashfn.c, PostgreSQL 13 to 18): Bob Jenkins's lookup3 of 2006 with another beginning.

/// What `a`, `b` and `c` begin with, beside the length.
const START: u32 = 0x9e37_79b9_u32.wrapping_add(3_923_095);

/// `hash_bytes`, on a little-endian machine.
pub fn hash_bytes(bytes: &[u8]) -> u32 {
    let start = START.wrapping_add(bytes.len() as u32);
    let mut state = [start; 3];
    let (blocks, rest) = bytes.as_chunks::<12>();
    for block in blocks {
        add(&mut state, block);
        mix(&mut state);
    }
    let last = [0, 4, 8].map(|start| first_word(rest.get(start..).unwrap_or_default()));
    state[0] = state[0].wrapping_add(last[0]);
    state[1] = state[1].wrapping_add(last[1]);
    // The lowest byte of the last word is reserved for the length, which is added at the start.
    state[2] = state[2].wrapping_add(last[2] << 8);
    finish(&mut state)
}

/// The first four bytes as a number, zeros where there are fewer.
#[inline]
fn first_word(bytes: &[u8]) -> u32 {
    match *bytes {
        [] => 0,
        [a] => u32::from(a),
        [a, b] => u32::from_le_bytes([a, b, 0, 0]),
        [a, b, c] => u32::from_le_bytes([a, b, c, 0]),
        [a, b, c, d, ..] => u32::from_le_bytes([a, b, c, d]),
    }
}

fn add(state: &mut [u32; 3], block: &[u8; 12]) {
    for (word, bytes) in state.iter_mut().zip(block.as_chunks().0) {
        *word = word.wrapping_add(u32::from_le_bytes(*bytes));
    }
}

fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    *state = [a, b, c];
}

fn finish(state: &mut [u32; 3]) -> u32 {
    let [mut a, mut b, mut c] = *state;
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `SELECT hashtext(...)` says in PostgreSQL 15, with the database's own collation.
    #[test]
    fn hashes_as_postgresql_does() {
        let known: [(&str, i32); 7] = [
            ("", -1_477_818_771),
            ("a", 1_075_015_857),
            ("walzip12", 44_863_287),
            ("walzip123", -921_275_325),
            ("walzip12345", -1_826_562_671),
            ("walzip123456", 29_506_650),
            (
                "PostgreSQL writes every change to its write-ahead log",
                1_501_061_106,
            ),
        ];
        for (text, hash) in known {
            assert_eq!(hash_bytes(text.as_bytes()), hash as u32, "{text}");
        }
    }
}
