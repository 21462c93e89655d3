//! Compressors of other people: what stands behind the streams, and what servers have used.

pub mod lz4_block;
pub mod page_image;
pub mod trial;
pub mod zstd_1_5_7;
pub mod zstd_frame;
