//! Real servers of every supported major, with the built program as their archiver.
//!
//! A server is a process of its own with its own directory, so these tests see what no mock
//! shows: PostgreSQL's retries, its questions during recovery, its timelines.

mod advice;
mod after_promotion;
mod ahead_of_archive;
mod asynchronous;
mod bench_archives;
mod branches;
mod check;
mod copy_methods;
mod delta;
mod deployment;
mod early_end;
mod encrypted;
mod experiments;
mod expire;
mod faults;
mod followed;
mod forks;
mod identity;
mod incremental;
mod kills;
mod long_segments;
mod made_meanwhile;
mod minimal_wal;
mod missing_files;
mod moving_backup;
mod numbers;
mod object_store;
mod one_database;
mod packs;
mod permissions;
pub mod pgbackrest;
mod point_in_time;
mod port_clash;
mod receive;
mod receive_kills;
mod receive_timelines;
mod receiver;
mod recovery_scenarios;
mod replay;
mod second_decoder;
mod server;
mod set_aside;
mod settings_elsewhere;
mod several;
pub mod site;
mod small_disk;
mod standby;
mod stores;
mod strays;
mod target_times;
mod told_indexes;
mod tree;
mod upgrade;
mod wal_summaries;
