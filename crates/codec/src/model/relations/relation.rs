//! The relations that records refer to, and the streams that belong to each.

use std::collections::HashMap;

use walzip_pgformat::wal::RelFileLocator;

use super::block_number::BlockNumbers;
use crate::fast_hash::FastHash;
use crate::model::heap::tuple::HeapStreams;
use crate::model::index::gin::entry::GinStreams;
use crate::model::index::tuple::IndexStreams;
use crate::streams::coder::{Coder, LazyStream, StreamId};
use crate::streams::rows_by_len::RowsByLen;

/// One fork of one relation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RelationFork {
    /// Identifies the relation's files.
    pub locator: RelFileLocator,
    /// The fork number: main, free space map, visibility map or init.
    pub fork: u8,
}

/// The streams and the state of one fork of one relation.
#[derive(Debug)]
pub struct Relation {
    /// Its files.
    pub name: RelationFork,
    /// Block numbers of all references to it.
    pub block_numbers: BlockNumbers,
    /// Its heap tuples.
    pub heap: HeapStreams,
    /// Its index tuples.
    pub index: IndexStreams,
    /// Its GIN entries and posting lists on pages.
    pub gin_pages: GinStreams,
    /// The same in records.
    pub gin_records: GinStreams,
    /// Lengths of items on its pages.
    pub item_len: LazyStream,
    /// Items that are neither heap nor index tuples.
    pub items: RowsByLen,
    /// Its pages without line pointers.
    pub raw_pages: LazyStream,
}

impl Relation {
    /// Without a stream.
    pub fn new(name: RelationFork) -> Relation {
        Relation {
            name,
            block_numbers: BlockNumbers::default(),
            heap: HeapStreams::default(),
            index: IndexStreams::default(),
            gin_pages: GinStreams::default(),
            gin_records: GinStreams::default(),
            item_len: LazyStream::default(),
            items: RowsByLen::default(),
            raw_pages: LazyStream::default(),
        }
    }
}

/// All relations of a segment, in the order in which they were first named.
#[derive(Debug, Default)]
pub struct Relations {
    /// Boxed because a segment may have very many: growing the list does not move them.
    #[expect(clippy::vec_box)]
    list: Vec<Box<Relation>>,
    numbers: HashMap<RelationFork, u32, FastHash>,
    /// Number of relations whose names are coded. The encoder's list may be ahead of it.
    defined: u32,
}

impl Relations {
    /// The number of a relation, which is added if it is new. Encoder only.
    pub fn number_of(&mut self, name: RelationFork) -> u32 {
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        self.add(name);
        self.list.len() as u32 - 1
    }

    /// Codes a relation's number and, the first time, its name.
    pub fn code<C: Coder>(&mut self, coder: &mut C, stream: StreamId, number: u32) -> u32 {
        let number = coder.u32(stream, number);
        if number != self.defined {
            if number > self.defined {
                coder.fail();
            }
            return number;
        }
        self.defined += 1;
        let known = self.list.get(number as usize).map(|relation| relation.name);
        let RelationFork { locator, fork } = known.unwrap_or_default();
        let name = RelationFork {
            locator: RelFileLocator {
                tablespace: coder.u32(stream, locator.tablespace),
                database: coder.u32(stream, locator.database),
                relation: coder.u32(stream, locator.relation),
            },
            fork: coder.u8(stream, fork),
        };
        if known.is_none() {
            self.add(name);
        }
        number
    }

    fn add(&mut self, name: RelationFork) {
        self.numbers.insert(name, self.list.len() as u32);
        self.list.push(Box::new(Relation::new(name)));
    }

    /// The name of the relation with this number.
    pub fn name_of(&self, number: u32) -> Option<RelationFork> {
        self.list.get(number as usize).map(|relation| relation.name)
    }

    /// The relation with a number that [`Relations::code`] returned.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Relation> {
        self.list.get_mut(number as usize).map(Box::as_mut)
    }
}
