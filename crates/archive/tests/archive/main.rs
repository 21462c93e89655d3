//! The archive as PostgreSQL meets it: without a server, over stores that fail, and with one.

mod cluster;
mod connections;
mod continuity;
mod damage;
mod encrypted;
mod expire;
mod faults;
mod first_format;
mod get;
mod packs;
mod packs_aside;
mod point_in_time;
mod push;
mod put_late;
mod references;
mod resumed;
mod set_aside;
mod timelines;
mod told_indexes;
mod verified;
mod verified_backups;
mod wal;
