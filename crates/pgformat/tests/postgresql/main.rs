//! Our reading of PostgreSQL's bytes against PostgreSQL's own.

mod control_file;
