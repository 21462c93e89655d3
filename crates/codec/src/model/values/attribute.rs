//! How values of attributes are stored in heap tuples: their lengths and alignment
//! (access/common/heaptuple.c, varatt.h).

use crate::streams::coder::get_u32;

/// How values of an attribute are stored. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// Variable length. The form of the header follows from the first byte.
    Varlena = 0,
    /// One byte.
    Fixed1 = 1,
    /// Two bytes, aligned to 2.
    Fixed2 = 2,
    /// Four bytes, aligned to 4.
    Fixed4 = 3,
    /// Eight bytes, aligned to 8.
    Fixed8 = 4,
    /// 16 bytes without alignment: uuid.
    Uuid = 5,
    /// 16 bytes, aligned to 8: interval, point.
    Fixed16 = 6,
    /// 64 bytes without alignment: name.
    Name = 7,
}

/// Length of a TOAST pointer in bytes, header included (`VARHDRSZ_EXTERNAL`, `VARTAG_ONDISK`).
const TOAST_POINTER_LEN: usize = 18;
/// The header byte of a TOAST pointer.
const EXTERNAL: u8 = 0x01;

impl Attribute {
    /// All attributes, by number.
    pub const ALL: [Attribute; 8] = [
        Attribute::Varlena,
        Attribute::Fixed1,
        Attribute::Fixed2,
        Attribute::Fixed4,
        Attribute::Fixed8,
        Attribute::Uuid,
        Attribute::Fixed16,
        Attribute::Name,
    ];

    /// Length and alignment of the values, in bytes. `None` for varlenas.
    pub fn fixed(self) -> Option<(usize, usize)> {
        match self {
            Attribute::Varlena => None,
            Attribute::Fixed1 => Some((1, 1)),
            Attribute::Fixed2 => Some((2, 2)),
            Attribute::Fixed4 => Some((4, 4)),
            Attribute::Fixed8 => Some((8, 8)),
            Attribute::Uuid => Some((16, 1)),
            Attribute::Fixed16 => Some((16, 8)),
            Attribute::Name => Some((64, 1)),
        }
    }

    /// Start and end of the value after `at`. `None` if there is not enough data, the header is
    /// invalid, or the padding before the value is not zero.
    #[inline]
    pub fn find(self, data: &[u8], at: usize) -> Option<(usize, usize)> {
        let (start, len) = match self {
            Attribute::Varlena => {
                let start = varlena_start(*data.get(at)?, at);
                let value = data.get(start..)?;
                // Only values with a long header have padding before them.
                if varlena_start(*value.first()?, at) != start {
                    return None;
                }
                (start, varlena_len(value)?)
            }
            Attribute::Fixed1 => (at, 1),
            Attribute::Fixed2 => (at.next_multiple_of(2), 2),
            Attribute::Fixed4 => (at.next_multiple_of(4), 4),
            Attribute::Fixed8 => (at.next_multiple_of(8), 8),
            Attribute::Uuid => (at, 16),
            Attribute::Fixed16 => (at.next_multiple_of(8), 16),
            Attribute::Name => (at, 64),
        };
        let end = start + len;
        let is_padded = start == at || data.get(at..start)?.iter().all(|&byte| byte == 0);
        (end <= data.len() && is_padded).then_some((start, end))
    }
}

/// The start of the varlena after `at`, by its first byte `header`: one with a long header is
/// aligned to 4.
#[inline]
pub fn varlena_start(header: u8, at: usize) -> usize {
    if header & 1 != 0 {
        at
    } else {
        at.next_multiple_of(4)
    }
}

/// The length of the varlena at the front of `bytes`, header included.
#[inline]
pub fn varlena_len(bytes: &[u8]) -> Option<usize> {
    let header = *bytes.first()?;
    match header {
        EXTERNAL => (bytes.get(1) == Some(&(TOAST_POINTER_LEN as u8))).then_some(TOAST_POINTER_LEN),
        short if short & 1 != 0 => Some(usize::from(short >> 1)),
        _ if bytes.len() < 4 => None,
        _ => {
            let len = (get_u32(bytes, 0) >> 2) as usize;
            (len >= 4).then_some(len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_values_behind_padding() {
        let data = [
            7, 0, 0, 0, 1, 2, 3, 4, 0x07, b'a', b'b', 0, 0x1C, 0, 0, 0, 9, 9, 9,
        ];
        assert_eq!(Attribute::Fixed1.find(&data, 0), Some((0, 1)));
        assert_eq!(Attribute::Fixed4.find(&data, 1), Some((4, 8)));
        assert_eq!(Attribute::Varlena.find(&data, 8), Some((8, 11)));
        assert_eq!(Attribute::Varlena.find(&data, 11), Some((12, 19)));
        assert_eq!(Attribute::Fixed8.find(&data, 13), None);
        assert_eq!(Attribute::Fixed4.find(&data, 9), None);
        // A value with a short header after padding.
        assert_eq!(Attribute::Varlena.find(&[9, 0, 0, 0, 5, b'a'], 1), None);
    }
}
