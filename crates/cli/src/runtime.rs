//! The asynchronous runtime, for the commands that need one: starting it costs time, and
//! PostgreSQL starts a command for every segment.

use crate::error::CommandError;
use crate::exit_code::Kind;

/// Runs a command to its end on this thread.
pub fn block_on<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::caused(Kind::Internal, "cannot start a runtime", &error))?
        .block_on(command)
}
