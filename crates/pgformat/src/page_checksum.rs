//! The checksum of a page of a relation (storage/checksum_impl.h).

use crate::PAGE_SIZE;
use crate::bytes::read_u16;

/// `N_SUMS`: sums that are computed side by side, each of every 32nd word of the page.
const SUMS: usize = 32;
/// `FNV_PRIME`.
const PRIME: u32 = 16_777_619;
/// Where `pd_checksum` stands.
const CHECKSUM_AT: usize = 8;
/// `checksumBaseOffsets`.
const BASES: [u32; SUMS] = [
    0x5B1F_36E9,
    0xB852_5960,
    0x02AB_50AA,
    0x1DE6_6D2A,
    0x79FF_467A,
    0x9BB9_F8A3,
    0x217E_7CD2,
    0x83E1_3D2C,
    0xF8D4_474F,
    0xE39E_B970,
    0x42C6_AE16,
    0x9932_16FA,
    0x7B09_3B5D,
    0x98DA_FF3C,
    0xF718_902A,
    0x0B1C_9CDB,
    0xE58F_764B,
    0x1876_36BC,
    0x5D7B_3BB1,
    0xE73D_E7DE,
    0x92BE_C979,
    0xCCA6_C0B2,
    0x304A_0979,
    0x85AA_43D4,
    0x7831_25BB,
    0x6CA8_EAA2,
    0xE407_EAC6,
    0x4B5C_FC3E,
    0x9FBF_8C76,
    0x15CA_20BE,
    0xF2CA_9FD3,
    0x959B_D756,
];

/// `CHECKSUM_COMP`.
#[inline(always)]
fn mix(sum: u32, word: u32) -> u32 {
    let mixed = sum ^ word;
    mixed.wrapping_mul(PRIME) ^ (mixed >> 17)
}

/// `pg_checksum_page`: what PostgreSQL stores in `pd_checksum` of a page with this number in its
/// relation. The field itself counts as 0.
pub fn page_checksum(page: &[u8; PAGE_SIZE], block: u32) -> u16 {
    let mut sums = BASES;
    let (rows, _) = page.as_chunks::<{ 4 * SUMS }>();
    let mut add = |row: &[u8; 4 * SUMS]| {
        let (words, _) = row.as_chunks::<4>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = mix(*sum, u32::from_le_bytes(*word));
        }
    };
    if let Some((first, others)) = rows.split_first() {
        let mut first = *first;
        first[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
        add(&first);
        others.iter().for_each(add);
    }
    for _ in 0..2 {
        sums = sums.map(|sum| mix(sum, 0));
    }
    let folded = sums.iter().fold(0, |folded, sum| folded ^ sum) ^ block;
    (folded % 65_535 + 1) as u16
}

/// `pd_checksum`, as the page has it.
pub fn stored_checksum(page: &[u8; PAGE_SIZE]) -> u16 {
    read_u16(page, CHECKSUM_AT).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of a cluster with checksums, as PostgreSQL 15 wrote them.
    const PAGES: [(u32, &[u8; PAGE_SIZE]); 2] = [
        (0, include_bytes!("../tests/data/pages/pg15_heap_block_0")),
        (
            1300,
            include_bytes!("../tests/data/pages/pg15_gist_block_1300"),
        ),
    ];

    #[test]
    fn is_what_a_server_wrote() {
        for (block, page) in PAGES {
            assert_ne!(stored_checksum(page), 0);
            assert_eq!(page_checksum(page, block), stored_checksum(page), "{block}");
        }
    }

    #[test]
    fn depends_on_every_byte_but_its_own_and_on_the_number() {
        let (block, page) = PAGES[0];
        let expected = stored_checksum(page);
        assert_ne!(page_checksum(page, block + 1), expected);
        let mut other = *page;
        for at in 0..PAGE_SIZE {
            other[at] ^= 1;
            let is_own = (CHECKSUM_AT..CHECKSUM_AT + 2).contains(&at);
            assert_eq!(page_checksum(&other, block) == expected, is_own, "{at}");
            other[at] ^= 1;
        }
    }
}
