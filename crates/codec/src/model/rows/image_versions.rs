//! The versions of rows from which the tuples of a page image are told, and those that it has.

use super::change::ChangeScratch;
use super::recent::RecentRows;
use super::versions::{RowVersions, Version};
use crate::model::values::tid::Tid;

/// What is known when the tuples of an image are coded.
pub struct ImageVersions<'a> {
    /// Versions of rows.
    pub known: KnownVersions<'a>,
    /// Buffers that are reused.
    pub scratch: &'a mut ChangeScratch,
}

/// The known versions of the rows of a relation.
pub struct KnownVersions<'a> {
    /// The relation's number.
    pub relation: u32,
    /// Rows of earlier records.
    pub rows: &'a RecentRows,
    /// Last known versions of rows.
    pub versions: &'a mut RowVersions,
    /// A record may have told versions of the page's rows.
    pub of_records: bool,
}

impl KnownVersions<'_> {
    /// Begins an image of a block with `count` line pointers.
    pub fn begin(&mut self, block: u32, count: usize) {
        self.of_records = self.versions.may_have(self.relation, block);
        self.versions.begin_image(self.relation, block, count);
    }

    /// The version from which the tuple at `tid` is told, if any is known. `ctid` is where the tuple
    /// points to.
    pub fn other(&self, tid: Tid, ctid: Tid) -> Option<Version<'_>> {
        let KnownVersions {
            relation,
            rows,
            versions,
            of_records,
        } = self;
        // A record or an earlier image may have the same row.
        let id = of_records.then(|| versions.id(*relation, tid));
        let same = id.and_then(|id| versions.of_record(rows, id));
        same.or_else(|| {
            let images = versions.images();
            let values = images.earlier(tid.1).or_else(|| {
                let older = images.pointing_to(tid.1);
                older.or_else(|| images.on_page(next_on_page(tid, ctid)?))
            });
            values.map(Version::whole)
        })
    }

    /// Adds the tuple at `tid`, which points to `ctid`.
    pub fn add(&mut self, tid: Tid, ctid: Tid, values: &[u8]) {
        let next = next_on_page(tid, ctid);
        self.versions.add_to_image(tid.1, values, next);
    }
}

/// The line pointer of the newer version of a tuple, if that is on the same page.
fn next_on_page(tid: Tid, ctid: Tid) -> Option<u16> {
    (ctid.0 == tid.0 && ctid.1 != tid.1).then_some(ctid.1)
}
