//! Values of attributes. The values of one attribute of one relation are a column, which is coded
//! in one of several modes.

pub mod attribute;
pub mod column;
mod column_choice;
pub mod compressed;
pub mod decimal;
mod dictionary;
mod distinct;
pub mod json;
pub mod jsonb;
mod mode;
mod numeric;
mod scale;
pub mod tid;
mod varlena;
mod word_choice;
mod words;
