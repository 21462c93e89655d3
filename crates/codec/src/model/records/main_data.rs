//! The main data of records: leading fields of the structures in access/*xlog.h, then the rest.

use super::record_type::field_widths;
use super::shape::Shape;
use crate::format_version::FormatVersion;
use crate::streams::coder::{Coder, LazyStream, get_u16};
use crate::streams::kind::StreamKind;
use crate::streams::rows_by_len::RowsByLen;

/// The streams of the main data of one kind.
#[derive(Debug)]
pub struct MainStreams {
    fields: Vec<(u8, LazyStream)>,
    /// The field that was expected, as the difference from that.
    expected: LazyStream,
    rest: RowsByLen,
}

impl MainStreams {
    /// For records of a shape, in this version of the format.
    pub fn new(shape: &Shape, format: FormatVersion) -> MainStreams {
        let widths = field_widths(shape.rmid, shape.info, format);
        MainStreams {
            fields: widths
                .iter()
                .map(|&width| (width, LazyStream::default()))
                .collect(),
            expected: LazyStream::default(),
            rest: RowsByLen::default(),
        }
    }

    /// Codes all of the main data. A field of two bytes may be expected to have a value.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        main: &mut [u8],
        expected: Option<(usize, u16)>,
    ) {
        let mut at = 0;
        for (width, field) in &mut self.fields {
            let width = usize::from(*width);
            if at + width > main.len() {
                break;
            }
            match expected.filter(|(place, _)| *place == at && width == 2) {
                Some((_, value)) => {
                    let stream = self.expected.open(coder, StreamKind::MainField, width);
                    let difference = get_u16(main, at).wrapping_sub(value);
                    let difference = coder.u16(stream, difference);
                    coder.put(main, at, difference.wrapping_add(value).to_le_bytes());
                }
                None => {
                    let stream = field.open(coder, StreamKind::MainField, width);
                    coder.bytes_at(stream, main, at, width);
                }
            }
            at += width;
        }
        self.rest.code(coder, StreamKind::MainRow, &mut main[at..]);
    }
}
