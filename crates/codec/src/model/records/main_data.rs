//! The main data of records: leading fields of the structures in access/*xlog.h, then the rest.

use super::record_type::field_widths;
use super::shape::Shape;
use crate::format_version::FormatVersion;
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;
use crate::streams::rows_by_len::RowsByLen;

/// The streams of the main data of one kind.
#[derive(Debug)]
pub struct MainStreams {
    fields: Vec<(u8, LazyStream)>,
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
            rest: RowsByLen::default(),
        }
    }

    /// Codes all of the main data.
    pub fn code<C: Coder>(&mut self, coder: &mut C, main: &mut [u8]) {
        let mut at = 0;
        for (width, field) in &mut self.fields {
            let width = usize::from(*width);
            if at + width > main.len() {
                break;
            }
            let stream = field.open(coder, StreamKind::MainField, width);
            coder.bytes_at(stream, main, at, width);
            at += width;
        }
        self.rest.code(coder, StreamKind::MainRow, &mut main[at..]);
    }
}
