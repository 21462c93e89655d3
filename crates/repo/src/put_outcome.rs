//! What came of a put that must not replace anything.

/// What a put found under the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// Nothing: the object is there now, and durable.
    Created,
    /// An object, which was left as it is and is durable. It may be the work of an
    /// earlier attempt whose answer was lost, so the caller compares the content
    /// before it calls this a success or an error.
    Exists,
}
