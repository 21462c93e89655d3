//! A file that appears under its name only when it is complete and durable.

use std::fs::{File, FileTimes, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use walzip_bench::new_file::{self, NewFile};

use crate::error::CommandError;
use crate::exit_code::Kind;

/// An output under construction. Dropping it without `publish` leaves nothing behind.
pub struct OutputFile {
    path: PathBuf,
    overwrite: bool,
    target: Target,
}

enum Target {
    /// A temporary file in the directory of the output.
    Temporary(NewFile),
    /// A device or a pipe, which is written to and never replaced.
    Special(File),
}

impl OutputFile {
    /// Begins an output; refuses early when the name is taken. A private one is nobody
    /// else's to read until it has been given the attributes of its input.
    pub fn create(path: &Path, overwrite: bool, private: bool) -> Result<OutputFile, CommandError> {
        let write = |error: io::Error| CommandError::write(path, &error);
        let existing = std::fs::metadata(path).ok();
        let target = match existing {
            Some(metadata) if metadata.is_dir() => {
                let message = format!("{} is a directory", path.display());
                return Err(CommandError::new(Kind::FileWrite, message));
            }
            Some(metadata) if !metadata.is_file() => {
                Target::Special(File::options().write(true).open(path).map_err(write)?)
            }
            Some(_) if !overwrite => return Err(exists(path)),
            _ => {
                remove_on_signals();
                let mode = if private { 0o600 } else { 0o666 };
                let temporary = NewFile::beside(path, mode).map_err(write)?;
                *unfinished() = Some(temporary.path().to_owned());
                Target::Temporary(temporary)
            }
        };
        Ok(OutputFile {
            path: path.to_owned(),
            overwrite,
            target,
        })
    }

    /// Nobody sees what is written before it is published.
    pub fn is_provisional(&self) -> bool {
        matches!(self.target, Target::Temporary(_))
    }

    /// Gives the output the input's owner (where permitted), mode and time of modification.
    pub fn copy_attributes(&self, input: &Metadata) -> Result<(), CommandError> {
        let Target::Temporary(temporary) = &self.target else {
            return Ok(());
        };
        let file = temporary.file();
        let copy = || {
            let mut permissions = input.permissions();
            // Only root may give a file away; for others, the file stays its writer's, and
            // must not hand the input's set-user-ID bit to another owner.
            if fchown(file, Some(input.uid()), Some(input.gid())).is_err() {
                permissions.set_mode(permissions.mode() & 0o777);
            }
            file.set_permissions(permissions)?;
            file.set_times(FileTimes::new().set_modified(input.modified()?))
        };
        copy().map_err(|error| CommandError::write(&self.path, &error))
    }

    /// Makes the file durable, then gives it its name, then makes the name durable.
    pub fn publish(self) -> Result<(), CommandError> {
        let path = &self.path;
        let Target::Temporary(temporary) = self.target else {
            return Ok(());
        };
        let published = temporary.publish(path, self.overwrite);
        published.map_err(|refused| match refused.error.kind() {
            io::ErrorKind::AlreadyExists => exists(path),
            _ => CommandError::write(path, &refused.error),
        })
    }
}

/// The regular file that has the output's name already, if any.
pub fn existing(path: &Path) -> Result<Option<File>, CommandError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            let opened = File::open(path);
            opened
                .map(Some)
                .map_err(|error| CommandError::caused(Kind::FileRead, path.display(), &error))
        }
        _ => Ok(None),
    }
}

/// Makes a file durable that another process may have left without.
pub fn make_durable(path: &Path, file: &File) -> Result<(), CommandError> {
    let synced = file.sync_all();
    let synced = synced.and_then(|()| new_file::sync_directory_of(path));
    synced.map_err(|error| CommandError::write(path, &error))
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.target {
            Target::Temporary(file) => file.file().write(bytes),
            Target::Special(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.target {
            Target::Temporary(file) => file.file().flush(),
            Target::Special(file) => file.flush(),
        }
    }
}

/// The temporary file that a signal has to remove. Once it has its final name or is gone, the
/// name is nobody's, and removing it does nothing.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals end the program as ever, but do not leave half an output behind.
fn remove_on_signals() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // Where handlers cannot be had, an interrupted run leaves its temporary file.
        let heeded = [SIGHUP, SIGINT, SIGTERM]
            .into_iter()
            .filter(|signal| !is_ignored(*signal));
        let Ok(mut signals) = Signals::new(heeded) else {
            return;
        };
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if let Some(path) = unfinished().take() {
                    let _ = std::fs::remove_file(path);
                }
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
    });
}

/// Whether the program was started with this signal ignored, as nohup does.
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or_default() >> (signal - 1) & 1 == 1
}

/// The error for an output whose name is taken.
pub fn exists(path: &Path) -> CommandError {
    CommandError::new(
        Kind::FileExists,
        format_args!("{} already exists", path.display()),
    )
    .hint("Use -f to overwrite it.")
}
