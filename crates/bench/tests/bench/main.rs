//! The experiments with tiny inputs and small programs of the tests' own.

mod contenders;
mod inputs;
mod interruption;
mod results;
mod segments;
mod servers;
mod support;
mod workloads;
