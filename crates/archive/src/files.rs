//! Files of the machine: only those that are files, and durable before anybody hears of them.

pub(crate) mod durable;
pub(crate) mod regular_file;
