//! Our reading of PostgreSQL's bytes against PostgreSQL's own, and against itself.

mod beginnings;
mod control_file;
mod corruption;
mod edge_cases;
mod page_images;
mod pg_waldump;
mod records;
mod rewrite;
mod round_trip;
mod segment_edges;
