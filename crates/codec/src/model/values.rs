//! Values of attributes: the columns that they make, and how each column is coded.

pub mod attribute;
pub mod column;
mod column_choice;
mod dictionary;
mod distinct;
pub mod json;
pub mod jsonb;
mod mode;
mod scale;
mod varlena;
mod word_choice;
mod words;
