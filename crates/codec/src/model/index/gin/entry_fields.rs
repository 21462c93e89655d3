//! The fields of GIN entries, apart from each other.

use super::posting_list::ListFields;

/// The fields of the entries of a page. Memory to work with.
#[derive(Debug, Default)]
pub struct EntryFields {
    /// The form of each entry.
    pub(super) forms: Vec<u8>,
    /// The t_info of each entry that has one, without the length if it has a posting list.
    pub(super) infos: Vec<u16>,
    /// For each posting list, its number of TIDs and its offset in the entry.
    pub(super) counts: Vec<u16>,
    pub(super) starts: Vec<u16>,
    pub(super) lists: ListFields,
}

impl EntryFields {
    pub(super) fn clear(&mut self) {
        self.forms.clear();
        self.infos.clear();
        self.counts.clear();
        self.starts.clear();
        self.lists.clear();
    }
}
