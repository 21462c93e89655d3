//! The GIN entries of a page, coded field by field. Each stream gets the same as if the entries
//! were coded one by one.

use walzip_pgformat::posting_list::write_list;
use walzip_pgformat::wal::max_align;

use super::entry::{ANY, COMPRESSED_HIGH, GinStreams, PLAIN, POSTING};
use super::entry_fields::EntryFields;
use crate::model::index::item_spans::ItemSpans;
use crate::model::table::index_tuple::{INDEX_TUPLE_HEADER_LEN, SIZE_MASK};
use crate::streams::coder::{Coder, get_u16};
use crate::streams::kind::StreamKind;

impl GinStreams {
    /// Codes the entries of a page. The encoder passes where they are in `bytes`. The decoder's
    /// bytes are zeros, and it finds the places.
    pub fn page_entries<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        spans: &mut ItemSpans,
        entries: &mut EntryFields,
    ) {
        if spans.starts.is_empty() {
            return;
        }
        entries.clear();
        match C::ENCODING {
            true => self.read_entries(bytes, spans, entries),
            false => entries.forms.resize(spans.starts.len(), PLAIN),
        }
        let stream = self.form.open(coder, StreamKind::ModelFlag, 1);
        coder.bytes(stream, &mut entries.forms);
        if !C::ENCODING {
            let with_list = |form: &&u8| **form == POSTING;
            let lists = entries.forms.iter().filter(with_list).count();
            let others = entries.forms.iter().filter(|&&form| form == PLAIN).count();
            entries.infos.resize(lists + others, 0);
            entries.counts.resize(lists, 0);
            entries.starts.resize(lists, 0);
        }
        self.code_infos(coder, entries);
        if !C::ENCODING {
            // Each TID takes a byte at least.
            let tids: usize = entries.counts.iter().map(|&count| usize::from(count)).sum();
            if coder.failed() || tids > bytes.len() {
                return coder.fail();
            }
            let counts = entries.counts.iter();
            counts.for_each(|&count| entries.lists.expect(count.into()));
        }
        self.lists.code_fields(coder, &mut entries.lists);
        self.code_keys(coder, bytes, spans, entries);
    }

    /// Codes an entry tuple of a record and returns its length. The encoder's slice is the tuple.
    /// The decoder's slice is zeros, and may be longer.
    pub fn entry<C: Coder>(&mut self, coder: &mut C, tuple: &mut [u8]) -> usize {
        let mut single = self.single.take().unwrap_or_default();
        let (spans, entries) = &mut *single;
        spans.starts.resize(1, 0);
        spans.lens.resize(1, 0);
        spans.starts.fill(0);
        spans.lens.fill(tuple.len());
        self.page_entries(coder, tuple, spans, entries);
        let len = spans.lens.first().copied().unwrap_or_default();
        self.single = Some(single);
        len
    }

    /// The fields of the encoder's entries.
    fn read_entries(&mut self, bytes: &[u8], spans: &ItemSpans, entries: &mut EntryFields) {
        for (&start, &len) in spans.starts.iter().zip(&spans.lens) {
            let tuple = bytes.get(start..start + len).unwrap_or_default();
            let form = self.form_of(tuple);
            entries.forms.push(form);
            let info = get_u16(tuple, 6);
            match form {
                PLAIN => entries.infos.push(info),
                POSTING => {
                    entries.counts.push(get_u16(tuple, 4));
                    entries.starts.push(get_u16(tuple, 2));
                    entries.infos.push(info & !SIZE_MASK);
                    entries.lists.add(&self.scratch);
                }
                _ => {}
            }
        }
    }

    fn code_infos<C: Coder>(&mut self, coder: &mut C, entries: &mut EntryFields) {
        // Streams are opened in the order of the first entry that has each.
        for &form in &entries.forms {
            match form {
                PLAIN => {
                    self.info.open(coder, StreamKind::IndexInfo, 2);
                }
                POSTING => {
                    self.count.open(coder, StreamKind::IndexInfo, 2);
                    self.start.open(coder, StreamKind::IndexInfo, 2);
                    self.info.open(coder, StreamKind::IndexInfo, 2);
                    break;
                }
                _ => {}
            }
        }
        if !entries.infos.is_empty() {
            let stream = self.info.open(coder, StreamKind::IndexInfo, 2);
            coder.u16s(stream, &mut entries.infos);
        }
        if !entries.counts.is_empty() {
            let stream = self.count.open(coder, StreamKind::IndexInfo, 2);
            coder.u16s(stream, &mut entries.counts);
            let stream = self.start.open(coder, StreamKind::IndexInfo, 2);
            coder.u16s(stream, &mut entries.starts);
        }
    }

    /// Codes the keys and what is left, and puts the decoder's entries into their places.
    fn code_keys<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        spans: &mut ItemSpans,
        entries: &mut EntryFields,
    ) {
        let mut infos = entries.infos.iter().copied();
        let mut with_list = entries.counts.iter().copied().zip(&entries.starts);
        let mut next = 0;
        let places = spans.starts.iter_mut().zip(&mut spans.lens);
        for ((start, len), &form) in places.zip(&entries.forms) {
            let mut end = *start + *len;
            if !C::ENCODING {
                (*start, end) = (next, bytes.len());
            }
            let tuple = coder.part(bytes, *start, end);
            let found = match form {
                PLAIN => self.plain_after_info(coder, tuple, infos.next().unwrap_or_default()),
                POSTING => {
                    let (count, at) = with_list.next().unwrap_or((0, &0));
                    let at = usize::from(*at);
                    let key = coder.part(tuple, INDEX_TUPLE_HEADER_LEN, at);
                    self.keys.code(coder, StreamKind::IndexKey, key);
                    let info = infos.next().unwrap_or_default();
                    if C::ENCODING {
                        continue;
                    }
                    entries.lists.take(count.into(), &mut self.scratch);
                    write_entry(tuple, (info, count, at), &self.scratch).unwrap_or_default()
                }
                ANY => self.any(coder, tuple),
                _ => 0,
            };
            if C::ENCODING {
                continue;
            }
            if coder.failed() || found == 0 || *start + found > bytes.len() {
                return coder.fail();
            }
            *len = found;
            next = max_align(*start + found);
        }
    }
}

/// Writes the list of an entry whose key is there already, and its header. Returns the length of
/// the entry, `None` if it does not fit.
fn write_entry(
    tuple: &mut [u8],
    (info, count, at): (u16, u16, usize),
    tids: &[u64],
) -> Option<usize> {
    let len = max_align(at + write_list(tuple.get_mut(at..)?, tids)?);
    let info = info & !SIZE_MASK | len as u16 & SIZE_MASK;
    let header: &mut [u8; INDEX_TUPLE_HEADER_LEN] = tuple.first_chunk_mut()?;
    for (field, value) in [COMPRESSED_HIGH, at as u16, count, info]
        .into_iter()
        .enumerate()
    {
        header[2 * field..2 * field + 2].copy_from_slice(&value.to_le_bytes());
    }
    Some(len)
}
