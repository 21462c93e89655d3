//! What an encoder knows of relations from their chunks before. A decoder is told.

use std::collections::HashMap;

use crate::fast_hash::FastHash;
use crate::model::values::attribute::Attribute;

/// Relations that are kept at most: of more, all are forgotten.
const KEPT_MAX: usize = 1024;

/// The attributes of the tuples of relations.
#[derive(Debug, Default)]
pub struct KnownRelations {
    attributes: HashMap<u32, Vec<Attribute>, FastHash>,
}

impl KnownRelations {
    /// The attributes of a relation, if they are known.
    pub fn get(&self, relation: u32) -> Option<&[Attribute]> {
        self.attributes.get(&relation).map(Vec::as_slice)
    }

    /// Keeps what was found last.
    pub fn keep(&mut self, relation: u32, attributes: Option<Vec<Attribute>>) {
        let Some(attributes) = attributes else {
            self.attributes.remove(&relation);
            return;
        };
        if self.attributes.len() >= KEPT_MAX {
            self.attributes.clear();
        }
        self.attributes.insert(relation, attributes);
    }
}
