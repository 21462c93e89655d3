//! Files of the machine: only those that are files, durable before anybody hears of them, and compared with the server's own.

pub(crate) mod durable;
pub(crate) mod own_copy;
pub(crate) mod regular_file;
