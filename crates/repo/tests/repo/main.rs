//! What the repository promises, by property.

mod conformance;
