//! `walzip bench` as a person meets it: its figures, and the files that it writes.

mod archive;
mod files;
mod memory;
mod packs;
mod stores;
