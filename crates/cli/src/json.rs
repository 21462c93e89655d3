//! JSON on standard output.

use std::io::Write;

use serde::Serialize;

use crate::error::CommandError;
use crate::exit_code::Kind;

/// Prints a value for scripts.
pub fn print_json(value: &impl Serialize) -> Result<(), CommandError> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| CommandError::caused(Kind::Internal, "cannot write JSON", &error))?;
    writeln!(std::io::stdout(), "{json}").map_err(CommandError::stdout)
}
