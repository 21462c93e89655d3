//! Transaction ids. Records of a few sessions alternate, so most ids are among the recent ones.

use crate::model::rows::recent::RowNumber;
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;
use crate::streams::recency::to_front;

/// Maximum number of recent transactions.
const RECENT_MAX: usize = 64;
/// The rank that says "a new transaction id follows".
const NEW: u8 = 255;

#[derive(Clone, Copy, Debug)]
struct Recent {
    xid: u32,
    /// See [`Xids::context`].
    context: u32,
    transaction: Transaction,
}

/// What is known of a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transaction {
    /// The row that it has inserted last, 0 if there is none.
    pub newest_row: RowNumber,
    /// What it has last added to an integer.
    pub amount: i32,
}

/// The recent transactions, the most recent first.
#[derive(Debug, Default)]
pub struct Xids {
    recent: Vec<Recent>,
    highest: u32,
    rank: LazyStream,
    new: LazyStream,
}

impl Xids {
    /// Codes the transaction id of a record, and moves the transaction to the front.
    pub fn code<C: Coder>(&mut self, coder: &mut C, xid: u32) -> u32 {
        let rank_stream = self.rank.open(coder, StreamKind::XidRank, 1);
        let found = if C::ENCODING { self.rank_of(xid) } else { NEW };
        let rank = coder.u8(rank_stream, found);
        if let Some(known) = to_front(&mut self.recent, rank.into()) {
            return known.xid;
        }
        if rank != NEW {
            coder.fail();
        }
        let stream = self.new.open(coder, StreamKind::XidNew, 4);
        let xid = coder
            .u32(stream, xid.wrapping_sub(self.highest))
            .wrapping_add(self.highest);
        // Transaction ids wrap around: a newer one is ahead by less than 2^31.
        if (xid.wrapping_sub(self.highest) as i32) > 0 || self.highest == 0 {
            self.highest = xid;
        }
        self.recent.truncate(RECENT_MAX - 1);
        self.recent.insert(
            0,
            Recent {
                xid,
                context: 0,
                transaction: Transaction::default(),
            },
        );
        xid
    }

    /// The context of the current transaction in [`super::kind::Kinds`]; 0 if it is new.
    pub fn context(&mut self) -> Option<&mut u32> {
        self.recent.first_mut().map(|recent| &mut recent.context)
    }

    /// What is known of the current transaction.
    pub fn transaction(&mut self) -> Option<&mut Transaction> {
        let recent = self.recent.first_mut();
        recent.map(|recent| &mut recent.transaction)
    }

    fn rank_of(&self, xid: u32) -> u8 {
        self.recent
            .iter()
            .position(|recent| recent.xid == xid)
            .map_or(NEW, |rank| rank as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_example;
    use crate::format_version::FormatVersion;
    use crate::streams::{StreamReader, StreamWriter};

    #[test]
    fn decodes_the_example_of_the_specification() {
        let mut reader = format_example::reader("model/records.md", "transaction ids");
        let mut model = Xids::default();
        for xid in [1000, 1001, 1000, 998] {
            assert_eq!(model.code(&mut reader, 0), xid);
        }
        assert!(reader.exhausted() && !reader.failed());
    }

    #[test]
    fn refuses_a_rank_of_no_transaction() {
        let mut coder = StreamWriter::default();
        let ranks = coder.open(StreamKind::XidRank, 1);
        coder.u8(ranks, 0);
        let numbers = coder.open(StreamKind::XidNew, 4);
        coder.u32(numbers, 1);
        let mut reader =
            StreamReader::of_content(coder.into_content().bytes, FormatVersion::CURRENT).unwrap();
        Xids::default().code(&mut reader, 0);
        assert!(reader.failed());
    }
}
