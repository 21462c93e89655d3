//! CRC-32C of a file, put together of those of its blocks.

use std::sync::LazyLock;

use walzip_pgformat::PAGE_SIZE;

/// What a block of zeros makes of a CRC, for each of its four bytes: what follows does not depend on
/// the content of the block.
static AFTER_BLOCK: LazyLock<[[u32; 256]; 4]> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        let of_bits: [u32; 8] =
            std::array::from_fn(|bit| crc32c::crc32c_combine(1 << (8 * at + bit), 0, PAGE_SIZE));
        std::array::from_fn(|byte| {
            let bits = of_bits.iter().enumerate();
            let set = bits.filter(|(bit, _)| byte >> bit & 1 == 1);
            set.fold(0, |crc, (_, part)| crc ^ part)
        })
    })
});

/// The CRC of bytes whose CRC is `before` and of `len` bytes after them whose CRC is `crc`.
pub(crate) fn combined(before: u32, crc: u32, len: usize) -> u32 {
    if len != PAGE_SIZE {
        return crc32c::crc32c_combine(before, crc, len);
    }
    let tables = AFTER_BLOCK.iter().zip(before.to_le_bytes());
    let parts = tables.filter_map(|(table, byte)| table.get(usize::from(byte)));
    parts.fold(crc, |crc, part| crc ^ part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_parts_is_that_of_the_whole() {
        let bytes: Vec<u8> = (0..40_000u32).map(|at| ((at * at) >> 5) as u8).collect();
        for len in [PAGE_SIZE, 0, 1, 1000, 31_000] {
            for start in [0, 1, PAGE_SIZE] {
                let (before, after) = (&bytes[..start], &bytes[start..start + len.min(31_000)]);
                let (first, second) = (crc32c::crc32c(before), crc32c::crc32c(after));
                let whole = crc32c::crc32c(&bytes[..start + after.len()]);
                assert_eq!(
                    combined(first, second, after.len()),
                    whole,
                    "{start}, {len}"
                );
            }
        }
    }
}
