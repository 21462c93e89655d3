//! The experiments with tiny inputs and small programs of the tests' own.

mod base_backups;
mod contenders;
mod data_sets;
mod inputs;
mod interruption;
mod preset;
mod published;
mod results;
mod segments;
mod server_experiments;
mod servers;
mod support;
mod workloads;
