//! What the codec promises, by property: any bytes come back, damage is found, memory is
//! bounded, old files stay readable, and the specification says what the code does.

mod chunks;
mod compatibility;
mod compressed_images;
mod corruption;
mod counting_allocator;
mod differences;
mod history;
mod image_rows;
mod index_chunks;
mod inputs;
mod member_file;
mod memory;
mod names;
mod own_pages;
mod parts;
mod readers;
mod round_trip;
mod specification;
mod table_pages;
mod truncation;

#[global_allocator]
static ALLOCATOR: counting_allocator::CountingAllocator = counting_allocator::CountingAllocator;
