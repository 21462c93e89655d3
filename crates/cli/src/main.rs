//! The `walzip` command.

fn main() {}
