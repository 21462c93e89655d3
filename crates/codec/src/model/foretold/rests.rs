//! Codes records without the data that follow from the page of their first block reference: the
//! rest of them.

use walzip_pgformat::wal::{Block, RecordHeader, RecordLayout};
use walzip_replay::{Follows, PageData, Record, Rules};

use super::assembly::{Change, assemble};
use super::history::History;
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Choices, Coder, LazyStream};
use crate::streams::kind::StreamKind;

/// Mark of a record of which nothing follows.
const NOTHING: u8 = 0;

/// The rests of a segment's records.
pub struct Rests {
    rules: Rules,
    /// Marks: of splits, of GIN entries, and of pruning.
    marks: [LazyStream; 3],
    /// That of the encoder's record.
    mark: u8,
    /// The encoder's record with all of its data.
    whole: Vec<u8>,
    whole_layout: RecordLayout,
    /// Memory to work with.
    record: Vec<u8>,
    changes: Vec<Change>,
}

impl Rests {
    /// For a segment whose records are replayed by these rules.
    pub fn new(rules: Rules) -> Rests {
        Rests {
            rules,
            marks: [LazyStream::default(); 3],
            mark: NOTHING,
            whole: Vec::new(),
            whole_layout: RecordLayout::default(),
            record: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn seen<'r>(&self, layout: &'r RecordLayout, bytes: &'r [u8]) -> Record<'r> {
        Record {
            rules: self.rules,
            layout,
            bytes,
        }
    }

    /// Takes the data out of a record. Encoder only.
    pub fn take_out(
        &mut self,
        choices: Choices,
        history: &History,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
    ) {
        self.mark = NOTHING;
        if let Some((mark, rest)) = self.rest(choices, history, layout, record) {
            self.mark = mark;
            self.whole_layout = std::mem::replace(layout, rest);
            std::mem::swap(record, &mut self.whole);
            std::mem::swap(record, &mut self.record);
        }
    }

    /// Leaves the rest of a record in `self.record`, if the decoder can make the record of it.
    fn rest(
        &mut self,
        choices: Choices,
        history: &History,
        layout: &RecordLayout,
        record: &[u8],
    ) -> Option<(u8, RecordLayout)> {
        let whole = self.seen(layout, record);
        let data = PageData::of(&whole).filter(|data| choices.uses(optional_model(*data)))?;
        // A page that a record begins anew is not the one that is known.
        if whole.block(0)?.fork_flags & Block::WILL_INIT != 0 {
            return None;
        }
        let (page, rows) = (history.first_page(&whole)?, &history.gin_rows);
        let parts = data.rest(&whole, page, rows)?;
        let mut rest = layout.clone();
        let change = Change::Data(parts.data);
        let changes = &mut self.changes;
        replace_data(data, change, &mut rest, record, &mut self.record, changes)?;
        let rules = self.rules;
        let is_whole = |layout: &RecordLayout, bytes: &[u8], follows| {
            let rest = Record {
                rules,
                layout,
                bytes,
            };
            let made = data.whole(&rest, page, rows, follows);
            made.is_some_and(|made| {
                made.data == whole.data(data.block())
                    && made.main.is_none_or(|main| main == whole.main())
            })
        };
        let mut follows = parts.follows;
        if let Some(main) = parts.main {
            change_main(&mut rest, &mut self.record, &main);
        }
        if data.is_uncertain() && !is_whole(&rest, &self.record, follows) {
            change_main(&mut rest, &mut self.record, whole.main());
            follows = Follows::Data;
            if !is_whole(&rest, &self.record, follows) {
                return None;
            }
        }
        Some((mark_of(follows), rest))
    }

    /// Codes whether data follow, and puts them back into the record.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        history: &History,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
    ) {
        let Some(data) = PageData::of(&self.seen(layout, record)) else {
            return;
        };
        let [splits, entries, pruning] = &mut self.marks;
        let stream = match data {
            PageData::Split => splits,
            PageData::GinEntry => entries,
            PageData::Pruning => pruning,
        };
        let stream = stream.open(coder, StreamKind::ForetoldMark, 1);
        let mark = coder.u8(stream, self.mark);
        if mark == NOTHING {
            return;
        }
        if C::ENCODING {
            std::mem::swap(layout, &mut self.whole_layout);
            std::mem::swap(record, &mut self.whole);
        } else if self
            .complete((data, mark), history, layout, record)
            .is_none()
        {
            coder.fail();
        }
    }

    /// How much follows by a mark. Up to format 10 any mark but 0 says that the data of a split follow.
    fn follows(&self, data: PageData, mark: u8) -> Option<Follows> {
        if data == PageData::Split && !self.rules.replays_all() {
            return Some(Follows::Data);
        }
        let mut follows = [Follows::Data, Follows::All].into_iter();
        follows.find(|follows| mark_of(*follows) == mark)
    }

    /// Makes a record of its rest.
    fn complete(
        &mut self,
        (data, mark): (PageData, u8),
        history: &History,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
    ) -> Option<()> {
        let follows = self.follows(data, mark)?;
        let page = history.first_page(&self.seen(layout, record))?;
        let rows = &history.gin_rows;
        let whole = data.whole(&self.seen(layout, record), page, rows, follows)?;
        if let Some(main) = whole.main {
            change_main(layout, record, &main);
        }
        let (change, changes) = (Change::Data(whole.data), &mut self.changes);
        replace_data(data, change, layout, record, &mut self.record, changes)?;
        std::mem::swap(record, &mut self.record);
        Some(())
    }
}

/// The mark of a record of which something follows.
fn mark_of(follows: Follows) -> u8 {
    match follows {
        Follows::Data => 1,
        Follows::All => 2,
    }
}

/// Makes a record that has other data.
fn replace_data(
    data: PageData,
    change: Change,
    layout: &mut RecordLayout,
    record: &[u8],
    out: &mut Vec<u8>,
    changes: &mut Vec<Change>,
) -> Option<()> {
    changes.clear();
    changes.resize(layout.blocks.len(), Change::None);
    *changes.get_mut(place_of(data, layout)?)? = change;
    assemble(layout, record, changes, out)
}

/// The model that takes data out which follow from a page.
fn optional_model(data: PageData) -> OptionalModel {
    match data {
        PageData::Split => OptionalModel::SplitData,
        PageData::GinEntry => OptionalModel::GinEntries,
        PageData::Pruning => OptionalModel::Pruning,
    }
}

/// The place of the block reference that has such data.
fn place_of(data: PageData, layout: &RecordLayout) -> Option<usize> {
    let id = data.block();
    layout.blocks.iter().position(|block| block.id == id)
}

/// Changes the front of a record's main data, and its checksum.
pub fn change_main(layout: &mut RecordLayout, record: &mut [u8], main: &[u8]) {
    let place = record.get_mut(layout.main_start..layout.main_start + main.len());
    if let Some(place) = place {
        place.copy_from_slice(main);
    }
    layout.header.crc = RecordHeader::checksum(record);
    if let Some(place) = record.get_mut(20..24) {
        place.copy_from_slice(&layout.header.crc.to_le_bytes());
    }
}
