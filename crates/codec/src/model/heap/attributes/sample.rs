//! The tuples from which attributes are inferred.

use crate::model::heap::body::Body;

/// Maximum number of samples.
pub const SAMPLES_MAX: usize = 32;
/// Minimum number of samples from which attributes are inferred.
pub const SAMPLES_MIN: usize = 4;

/// A tuple from which attributes are inferred.
pub struct Sample<'a> {
    /// The tuple's body.
    pub body: Body<'a>,
    /// The part of the body with the values.
    pub data: &'a [u8],
}

impl<'a> Sample<'a> {
    /// A sample. `None` if the body contradicts its header.
    pub fn of(body: &Body<'a>) -> Option<Sample<'a>> {
        let data = body.bytes.get(body.data_start()?..)?;
        Some(Sample { body: *body, data })
    }
}

/// At most `count` tuples, at regular intervals.
pub fn some<'b, 'a>(bodies: &'b [Body<'a>], count: usize) -> impl Iterator<Item = &'b Body<'a>> {
    bodies.iter().step_by(bodies.len().div_ceil(count).max(1))
}
