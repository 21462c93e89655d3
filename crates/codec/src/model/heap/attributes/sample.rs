//! The tuples in which attributes are looked for.

use crate::model::heap::body::Body;

/// Samples at most.
pub const SAMPLES_MAX: usize = 32;
/// Fewer samples tell too little.
pub const SAMPLES_MIN: usize = 4;

/// A tuple that is looked at.
pub struct Sample<'a> {
    /// Its body.
    pub body: Body<'a>,
    /// Its values.
    pub data: &'a [u8],
}

impl<'a> Sample<'a> {
    /// A sample, unless the body contradicts itself.
    pub fn of(body: &Body<'a>) -> Option<Sample<'a>> {
        let data = body.bytes.get(body.data_start()?..)?;
        Some(Sample { body: *body, data })
    }
}

/// So many tuples from all of them.
pub fn some<'b, 'a>(bodies: &'b [Body<'a>], count: usize) -> impl Iterator<Item = &'b Body<'a>> {
    bodies.iter().step_by(bodies.len().div_ceil(count).max(1))
}
