//! The command line, as a person or postgresql.conf meets it.

mod advise;
mod archive;
mod asynchronous;
mod bench;
mod clusters;
mod configuration;
mod copying;
mod errors;
mod files;
mod help;
mod import;
mod inspect;
mod majors;
mod members;
mod memory;
mod packing;
mod places;
mod rooms;
mod sandbox;
mod several;
mod stores;
mod syncing;
mod tidy;
mod upgrades;
