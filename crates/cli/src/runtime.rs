//! The asynchronous runtime, for the commands that need one: starting it costs time, and
//! PostgreSQL starts a command for every segment.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tokio::sync::oneshot;

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::output_file::is_ignored;

/// Runs a command to its end on this thread.
pub fn block_on<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    start()?.block_on(command)
}

/// The same, and leaves behind what hangs: a disk that does not answer holds its thread for ever.
pub fn block_on_and_leave<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = start()?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_background();
    outcome
}

fn start() -> Result<tokio::runtime::Runtime, CommandError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::of_system("cannot start a runtime", &error))
}

/// The same for a command that has much to tidy up: a signal ends it as it ends any program, but
/// first everything that is being written is dropped, which removes it.
pub fn block_on_tidily<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let interrupted =
        signals().map_err(|error| CommandError::of_system("cannot handle signals", &error))?;
    let outcome = block_on(async {
        tokio::select! {
            result = command => result.map(Ok),
            Ok(signal) = interrupted => Ok(Err(signal)),
        }
    })?;
    outcome.map_err(|signal| {
        // Does not return, unless the signal cannot end the program.
        let _ = emulate_default_handler(signal);
        CommandError::new(
            Kind::Internal,
            format_args!("interrupted by signal {signal}"),
        )
    })
}

/// The first signal that asks the program to end. The second one ends it at once.
pub fn signals() -> std::io::Result<oneshot::Receiver<i32>> {
    let heeded = [SIGHUP, SIGINT, SIGTERM]
        .into_iter()
        .filter(|signal| !is_ignored(*signal));
    let mut signals = Signals::new(heeded)?;
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut sender = Some(sender);
        for signal in signals.forever() {
            let told = sender.take().map(|sender| sender.send(signal));
            if !matches!(told, Some(Ok(()))) {
                let _ = emulate_default_handler(signal);
            }
        }
    });
    Ok(receiver)
}
