//! tsvector (tsearch/ts_type.h): its words are sorted already.
//!
//! ```text
//! number of words u32, for each word: has positions 1 bit, length 11 bits, offset 20 bits;
//! the words
//! ```

use super::Keys;
use crate::streams::coder::get_u32;

const HEAD_LEN: usize = 4;

/// Whether the content has room for the entries of its words, and the first word's offset is 0.
pub fn is_likely(content: &[u8]) -> bool {
    let words = get_u32(content, 0) as usize;
    words > 0 && words < content.len() / 4 && get_u32(content, HEAD_LEN) >> 12 == 0
}

/// Extracts the words.
pub fn extract(content: &[u8], keys: &mut Keys) -> Option<()> {
    keys.is_varlena = true;
    let words = get_u32(content, 0) as usize;
    let texts = content.get(HEAD_LEN + 4 * words..)?;
    let mut end = 0;
    for word in 0..words {
        let entry = get_u32(content, HEAD_LEN + 4 * word);
        let start = (entry >> 12) as usize;
        if start < end {
            return None;
        }
        end = start + (entry >> 1 & 0x7FF) as usize;
        keys.push(&[texts.get(start..end)?]);
    }
    Some(())
}
