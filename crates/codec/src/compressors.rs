//! General compressors: those that pack the streams, and those that servers use for page images and values.

pub mod lz4_block;
pub mod matches;
pub mod page_image;
pub mod trial;
pub mod trust;
pub mod value;
pub mod zstd_1_5_7;
pub mod zstd_frame;
pub mod zstd_sequences;
