//! `walzip bench` as a person meets it: its figures, and the files that it writes.

mod files;
mod memory;
