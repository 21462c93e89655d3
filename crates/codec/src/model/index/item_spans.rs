//! Where index tuples are on a page.

use walzip_pgformat::wal::max_align;

use crate::model::table::index_tuple::{INDEX_TUPLE_HEADER_LEN, SIZE_MASK};

/// Where the items of a page are, in the order in which they are coded.
#[derive(Debug, Default)]
pub struct ItemSpans {
    /// The offset of each. The decoder's follow from the lengths.
    pub starts: Vec<usize>,
    /// The length of each.
    pub lens: Vec<usize>,
}

impl ItemSpans {
    /// Gives the decoder's tuples their places, each at a multiple of 8. `None` if one is too
    /// short, or if all together are too long.
    pub fn place(&mut self, infos: &[u16], len_max: usize) -> Option<()> {
        let mut at = 0;
        let spans = self.starts.iter_mut().zip(&mut self.lens);
        for ((start, len), info) in spans.zip(infos) {
            (*start, *len) = (at, len_of(*info));
            if *len < INDEX_TUPLE_HEADER_LEN || at + *len > len_max {
                return None;
            }
            at = max_align(at + *len);
        }
        Some(())
    }
}

/// The length of a tuple with this `t_info`.
pub fn len_of(info: u16) -> usize {
    usize::from(info & SIZE_MASK)
}
