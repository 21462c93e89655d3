//! Varlenas (varatt.h): a header of one or four bytes, which has the length, and the content.

use super::attribute::{Attribute, varlena_len, varlena_start};
use crate::streams::StreamWriter;
use crate::streams::coder::{Coder, StreamId};
use crate::streams::kind::StreamKind;

/// The streams of varlenas.
#[derive(Debug)]
pub struct VarlenaStreams {
    header: StreamId,
    long_len: StreamId,
    by_header: Vec<(u8, StreamId)>,
    content: StreamId,
}

/// Whether the header of a varlena has four bytes, and its content. `None` if the varlena is
/// compressed or stored elsewhere (TOAST).
pub fn plain_content(value: &[u8]) -> Option<(bool, &[u8])> {
    match value.first()? {
        1 => None,
        header if header & 1 != 0 => Some((false, value.get(1..)?)),
        header if header & 3 == 0 => Some((true, value.get(4..)?)),
        _ => None,
    }
}

impl VarlenaStreams {
    /// Codes which first bytes have streams of their own, and opens the streams.
    pub fn open<C: Coder>(
        coder: &mut C,
        choices: StreamId,
        mut headers: Vec<u8>,
    ) -> VarlenaStreams {
        let count = usize::from(coder.u8(choices, headers.len() as u8));
        headers.resize(count, 0);
        for header in &mut headers {
            *header = coder.u8(choices, *header);
        }
        let open = |header: u8| {
            (
                header,
                coder.open(
                    StreamKind::Value,
                    usize::from(header >> 1).saturating_sub(1),
                ),
            )
        };
        let by_header = headers.into_iter().map(open).collect();
        VarlenaStreams {
            header: coder.open(StreamKind::ValueHeader, 1),
            long_len: coder.open(StreamKind::ValueHeader, 3),
            by_header,
            content: coder.open(StreamKind::Text, 1),
        }
    }

    /// Codes the varlena after offset `at` and returns the offset of its end.
    pub fn code<C: Coder>(&self, coder: &mut C, data: &mut [u8], at: usize) -> usize {
        let mut header = 0;
        if C::ENCODING {
            let found = Attribute::Varlena.find(data, at);
            header = found
                .and_then(|(start, _)| data.get(start))
                .copied()
                .unwrap_or_default();
        }
        let header = coder.u8(self.header, header);
        let start = varlena_start(header, at);
        coder.put(data, start, [header]);
        let mut content = start + 1;
        if header & 1 == 0 {
            let len = coder.part(data, content, content + 3);
            coder.bytes(self.long_len, len);
            content += 3;
        } else if header == 1 {
            // A toast pointer: its length is in the byte after the header.
            coder.put(data, content, [18]);
        }
        let Some(len) = data.get(start..).and_then(varlena_len) else {
            coder.fail();
            return at;
        };
        let bytes = coder.part(data, content, start + len);
        coder.bytes(self.stream_of(header), bytes);
        start + len
    }

    fn stream_of(&self, header: u8) -> StreamId {
        let own = self.by_header.iter().find(|(own, _)| *own == header);
        own.map_or(self.content, |(_, stream)| *stream)
    }

    /// Encodes all values, as [`VarlenaStreams::code`] would one after the other.
    pub fn append(&self, coder: &mut StreamWriter, values: &[&[u8]]) {
        let mut last = (0, self.stream_of(0));
        for value in values {
            let (&header, mut content) = value.split_first().unwrap_or((&0, &[]));
            coder.u8(self.header, header);
            if header & 1 == 0 {
                let (len, rest) = content.split_at_checked(3).unwrap_or_default();
                coder.append(self.long_len, len);
                content = rest;
            }
            if header != last.0 {
                last = (header, self.stream_of(header));
            }
            coder.append(last.1, content);
        }
    }
}
