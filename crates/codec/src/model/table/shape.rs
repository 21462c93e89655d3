//! What the rows of a table consist of, and which of their values the keys of its indexes are.

use std::collections::BTreeSet;

use crate::model::values::attribute::Attribute;

/// Attributes that a shape has at most; PostgreSQL allows 1600 of a table.
pub const ATTRIBUTES_MAX: usize = 250;
/// Attributes of a key (`INDEX_MAX_KEYS`), included ones among them.
pub const KEY_ATTRIBUTES_MAX: usize = 32;
/// Attributes of the keys of all indexes of a table.
pub const ALL_KEY_ATTRIBUTES_MAX: usize = 96;

/// Different attributes of all keys of a table.
pub const KEPT_MAX: usize = 32;

/// How values are ordered. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// As signed integers: integers, dates, times.
    Signed = 0,
    /// As unsigned integers: oid, boolean, `"char"`.
    Unsigned = 1,
    /// As floating-point numbers of 4 or 8 bytes.
    Float = 2,
    /// Byte by byte: uuid, texts in collations like C.
    Bytes = 3,
    /// As numbers of variable length (utils/adt/numeric.c).
    Numeric = 4,
    /// In a way that is not known, such as texts by the rules of a language.
    Unknown = 5,
}

impl Order {
    /// All orders, by number.
    pub const ALL: [Order; 6] = [
        Order::Signed,
        Order::Unsigned,
        Order::Float,
        Order::Bytes,
        Order::Numeric,
        Order::Unknown,
    ];

    /// Whether values that are stored like this can be ordered so.
    pub fn fits(self, attribute: Attribute) -> bool {
        match attribute {
            _ if self == Order::Unknown => true,
            Attribute::Varlena => matches!(self, Order::Bytes | Order::Numeric),
            Attribute::Fixed1 | Attribute::Fixed2 => {
                matches!(self, Order::Signed | Order::Unsigned)
            }
            Attribute::Fixed4 | Attribute::Fixed8 => {
                matches!(self, Order::Signed | Order::Unsigned | Order::Float)
            }
            Attribute::Uuid | Attribute::Fixed16 | Attribute::Name => self == Order::Bytes,
        }
    }
}

/// An attribute of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAttribute {
    /// Which attribute of the row it is, counted from 0.
    pub attribute: u16,
    /// How it is ordered.
    pub order: Order,
    /// The greatest comes first.
    pub descending: bool,
    /// There may be entries of rows in which it is null.
    pub nullable: bool,
    /// These come first, otherwise last.
    pub nulls_first: bool,
}

/// The attributes of the keys of an index, in their order.
pub type KeyShape = Vec<KeyAttribute>;

/// A table and its indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableShape {
    /// How the values of a row are stored, up to the last one that a key has.
    pub attributes: Vec<Attribute>,
    /// The keys of its indexes.
    pub indexes: Vec<KeyShape>,
}

impl TableShape {
    /// Whether keys are made of different attributes that there are, in orders that they can have.
    pub fn is_valid(&self) -> bool {
        let is_key_attribute = |key: &KeyAttribute| {
            let attribute = self.attributes.get(usize::from(key.attribute));
            attribute.is_some_and(|&attribute| key.order.fits(attribute))
        };
        let is_key = |key: &KeyShape| {
            let numbers: BTreeSet<u16> = key.iter().map(|key| key.attribute).collect();
            (1..=KEY_ATTRIBUTES_MAX).contains(&key.len())
                && numbers.len() == key.len()
                && key.iter().all(is_key_attribute)
        };
        self.attributes.len() <= ATTRIBUTES_MAX
            && self.kept().len() <= KEPT_MAX
            && self.indexes.iter().map(Vec::len).sum::<usize>() <= ALL_KEY_ATTRIBUTES_MAX
            && self.indexes.iter().all(is_key)
    }

    /// Which attributes keys have, in their order in the row.
    pub(super) fn kept(&self) -> Vec<u16> {
        let mut kept: Vec<u16> = self
            .indexes
            .iter()
            .flatten()
            .map(|key| key.attribute)
            .collect();
        kept.sort_unstable();
        kept.dedup();
        kept
    }
}
