//! A panic is a fault in walzip. PostgreSQL must still see a code of the table.

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::process::ExitCode;

use crate::error::CommandError;
use crate::exit_code::Kind;

/// Runs the program; a panic is shown like any other failure.
pub fn exit_code_of(program: impl FnOnce() -> ExitCode) -> ExitCode {
    set_hook(Box::new(|info| failure(info).report()));
    catch_unwind(AssertUnwindSafe(program))
        .unwrap_or_else(|_| ExitCode::from(Kind::Internal.code()))
}

fn failure(info: &PanicHookInfo<'_>) -> CommandError {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let payload = text
        .or(payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panic");
    let place = info
        .location()
        .map(|place| format!(" at {place}"))
        .unwrap_or_default();
    CommandError::new(Kind::Internal, format_args!("{payload}{place}"))
        .hint("This is a fault in walzip. Please report it.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_with_the_code_for_internal_faults() {
        let code = exit_code_of(|| panic!("on purpose"));
        let _ = std::panic::take_hook();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(25)));
    }
}
