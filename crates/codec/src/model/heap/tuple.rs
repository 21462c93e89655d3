//! Heap tuples (access/htup_details.h), in records and on pages.
//!
//! ```text
//! 0 t_xmin u32   4 t_xmax u32   8 t_field3 u32   12 t_ctid: block u16 u16, offset u16
//! 18 t_infomask2 u16   20 t_infomask u16   22 t_hoff u8   23 null bitmap, padding, data
//! ```

use super::bodies::Bodies;
use super::body::{Infomask, TUPLE_HEADER_LEN};
use crate::model::rows::change::{Change, ChangeScratch, ChangeStreams};
use crate::model::rows::changed_words::TransactionRows;
use crate::model::rows::image_versions::ImageVersions;
use crate::model::rows::versions::{Kept, Version};
use crate::model::values::attribute::Attribute;
use crate::model::values::tid::{Tid, read_tid, tid_bytes};
use crate::streams::StreamWriter;
use crate::streams::coder::{Coder, LazyStream, get, get_u16, get_u32};
use crate::streams::kind::StreamKind;
use crate::streams::rows_by_len::RowsByLen;

/// `SizeOfHeapHeader`: size of the part of the header that records keep, in bytes.
pub const RECORD_TUPLE_HEADER_LEN: usize = 5;

/// Flags of a tuple of a page: fields that follow from others.
const CTID_IS_SELF: u8 = 1;
const XMAX_IS_ZERO: u8 = 2;
const FIELD3_IS_ZERO: u8 = 4;
const SAME_XMIN: u8 = 8;

/// The streams of the tuples of one relation.
#[derive(Debug, Default)]
pub struct HeapStreams {
    flags: LazyStream,
    xmin: LazyStream,
    xmax: LazyStream,
    field3: LazyStream,
    ctid: LazyStream,
    infomask: [LazyStream; 3],
    record_infomask: [LazyStream; 3],
    bodies: Bodies,
    parts: RowsByLen,
    changes: ChangeStreams,
    /// Those of tuples of pages. Few relations have them, and there may be very many relations.
    page_changes: Option<Box<ChangeStreams>>,
    last_xmin: u32,
    has_new_bodies: bool,
}

impl HeapStreams {
    /// Codes a tuple of a page, whose own TID is `tid`. Returns its length.
    pub fn page_tuple<C: Coder>(
        &mut self,
        coder: &mut C,
        tuple: &mut [u8],
        tid: Tid,
        versions: Option<&mut ImageVersions<'_>>,
    ) -> usize {
        let own_ctid = tid_bytes(tid);
        let stream = self.flags.open(coder, StreamKind::HeapFlags, 1);
        let mut flags = 0;
        if C::ENCODING {
            let is = |condition, flag| if condition { flag } else { 0 };
            flags = is(get::<6>(tuple, 12) == own_ctid, CTID_IS_SELF)
                | is(get_u32(tuple, 4) == 0, XMAX_IS_ZERO)
                | is(get_u32(tuple, 8) == 0, FIELD3_IS_ZERO)
                | is(get_u32(tuple, 0) == self.last_xmin, SAME_XMIN);
        }
        let flags = coder.u8(stream, flags);
        if flags & SAME_XMIN == 0 {
            let stream = self.xmin.open(coder, StreamKind::HeapHeader, 4);
            self.last_xmin = coder.u32_at(stream, tuple, 0);
        } else {
            coder.put(tuple, 0, self.last_xmin.to_le_bytes());
        }
        if flags & XMAX_IS_ZERO == 0 {
            let stream = self.xmax.open(coder, StreamKind::HeapHeader, 4);
            coder.u32_at(stream, tuple, 4);
        }
        if flags & FIELD3_IS_ZERO == 0 {
            let stream = self.field3.open(coder, StreamKind::HeapHeader, 4);
            coder.u32_at(stream, tuple, 8);
        }
        if flags & CTID_IS_SELF == 0 {
            let stream = self.ctid.open(coder, StreamKind::HeapHeader, 6);
            let ctid = coder.part(tuple, 12, 18);
            coder.bytes(stream, ctid);
        } else {
            coder.put(tuple, 12, own_ctid);
        }
        let header = code_infomask(coder, &mut self.infomask, tuple, 18);
        let end = tuple.len();
        let ctid = read_tid(tuple, 12);
        let body = coder.part(tuple, TUPLE_HEADER_LEN, end);
        match versions {
            Some(versions) => self.page_version(coder, header, body, (tid, ctid), versions),
            None => self.add_body(coder, header, body),
        }
        end
    }

    /// Codes the body of a tuple of a page, which may be told from another version of the row, and
    /// adds it to the known ones.
    fn page_version<C: Coder>(
        &mut self,
        coder: &mut C,
        header: Infomask,
        body: &mut [u8],
        (tid, ctid): (Tid, Tid),
        ImageVersions { known, scratch }: &mut ImageVersions<'_>,
    ) {
        let before = header.before_values();
        let change = known.other(tid, ctid).map(|old| Change {
            before,
            old,
            kept: Kept::default(),
        });
        let changes = &mut self.page_changes;
        let mut code = |change| {
            let changes = changes.get_or_insert_default();
            changes.code(coder, scratch, body, change, None)
        };
        if !change.is_some_and(&mut code) {
            self.add_body(coder, header, body);
        }
        known.add(tid, ctid, body.get(before..).unwrap_or_default());
    }

    /// Codes a whole tuple of a record: `xl_heap_header`, then the body.
    pub fn record_tuple<C: Coder>(&mut self, coder: &mut C, data: &mut [u8]) {
        let header = code_infomask(coder, &mut self.record_infomask, data, 0);
        let end = data.len();
        let body = coder.part(data, RECORD_TUPLE_HEADER_LEN, end);
        self.add_body(coder, header, body);
    }

    /// Codes the new version of a tuple in a record of an update. `old` is the known part of the
    /// old version. `kept` is the prefix and suffix that the record leaves out, if any.
    pub fn record_version<C: Coder>(
        &mut self,
        coder: &mut C,
        scratch: &mut ChangeScratch,
        data: &mut [u8],
        (old, kept): (Option<Version<'_>>, Option<Kept>),
        rows: TransactionRows<'_>,
    ) {
        let header = code_infomask(coder, &mut self.record_infomask, data, 0);
        let end = data.len();
        let body = coder.part(data, RECORD_TUPLE_HEADER_LEN, end);
        let change = old.map(|old| Change {
            before: header.before_values(),
            old,
            kept: kept.unwrap_or_default(),
        });
        if change.is_some_and(|change| self.changes.code(coder, scratch, body, change, Some(rows)))
        {
            return;
        }
        match kept {
            Some(_) => self.parts.code(coder, StreamKind::HeapPart, body),
            None => self.add_body(coder, header, body),
        }
    }

    fn add_body<C: Coder>(&mut self, coder: &mut C, header: Infomask, body: &mut [u8]) {
        let is_first = self.bodies.add(coder, header, body);
        self.has_new_bodies |= is_first;
    }

    /// Whether the relation has got its first body since the last call. Encoder only.
    pub fn take_has_new_bodies(&mut self) -> bool {
        std::mem::take(&mut self.has_new_bodies)
    }

    /// Codes the collected bodies, of which the attributes may be known; returns those that were
    /// taken.
    pub fn finish(
        &mut self,
        coder: &mut StreamWriter,
        known: Option<&[Attribute]>,
    ) -> Option<Vec<Attribute>> {
        self.bodies.finish(coder, known)
    }
}

/// Codes t_infomask2, t_infomask and t_hoff.
fn code_infomask<C: Coder>(
    coder: &mut C,
    slots: &mut [LazyStream; 3],
    bytes: &mut [u8],
    at: usize,
) -> Infomask {
    let [infomask2, infomask, hoff] = slots;
    let infomask2 = infomask2.open(coder, StreamKind::HeapHeader, 2);
    let infomask = infomask.open(coder, StreamKind::HeapHeader, 2);
    let hoff = hoff.open(coder, StreamKind::HeapHeader, 1);
    Infomask {
        infomask2: coder.u16_at(infomask2, bytes, at),
        infomask: coder.u16_at(infomask, bytes, at + 2),
        hoff: coder.u8_at(hoff, bytes, at + 4),
    }
}

/// The offset of the end of the tuple of a multi-insert that begins at `at`
/// (`xl_multi_insert_tuple`: datalen u16, t_infomask2 u16, t_infomask u16, t_hoff u8, the body).
pub fn multi_insert_end(data: &[u8], at: usize) -> usize {
    at + 2 + RECORD_TUPLE_HEADER_LEN + usize::from(get_u16(data, at))
}
