//! gzip's habits with files, shared by `compress` and `decompress`.
//!
//! An output appears under its name only when it is complete and durable, and an input is
//! removed only after that. A file that fails does not stop the others.

use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::output_file::{self, OutputFile};

/// The flags that both commands share.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// The files; standard input when there is none, or for "-". A pipe or a device is read
    /// only with -c, -o or -f
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Write to standard output and keep the input
    #[arg(short = 'c', long, visible_alias = "to-stdout")]
    pub stdout: bool,

    /// Write to FILE and keep the input
    #[arg(short, long, value_name = "FILE", conflicts_with = "stdout")]
    pub output: Option<PathBuf>,

    /// Keep the input
    #[arg(short, long)]
    pub keep: bool,

    /// Overwrite existing files, follow links, and write to a terminal
    #[arg(short, long)]
    pub force: bool,
}

/// One direction of the codec over streams.
pub trait Filter {
    /// The command's name.
    const COMMAND: &'static str;

    /// Whether somebody relies on what stands in a redirected standard output for good.
    const OUTPUT_IS_KEPT: bool;

    /// Whether an output that is there already says what this input says. An archive_command
    /// whose success PostgreSQL did not hear of is run again.
    fn is_in(&self, _input: &mut dyn Read, _output: &mut File) -> Result<bool, CommandError> {
        Ok(false)
    }

    /// Whether the output is only checked, and goes nowhere.
    fn only_checks(&self) -> bool {
        false
    }

    /// The file that a name on the command line means.
    fn input_path(&self, named: &Path) -> PathBuf {
        named.to_owned()
    }

    /// The name of the output for a named input.
    fn output_path(&self, input: &Path) -> Result<PathBuf, CommandError>;

    /// Copies input to output, a member at a time. Of a provisional output nobody sees anything
    /// if this fails.
    fn run(
        &self,
        input: Source<'_>,
        output: &mut dyn Write,
        is_provisional: bool,
    ) -> Result<(), CommandError>;
}

/// An input.
pub struct Source<'i> {
    /// Its bytes, in their order.
    pub reader: &'i mut dyn Read,
    /// The same as a file that can be read at any offset.
    pub file: Option<&'i File>,
}

impl<'i> Source<'i> {
    /// What can be read only once.
    pub fn stream(reader: &'i mut dyn Read) -> Source<'i> {
        Source { reader, file: None }
    }
}

/// Where the outputs go.
enum Destination {
    Stdout,
    File(PathBuf),
    BesideInput,
    Nowhere,
}

impl FilterArgs {
    fn destination(&self, filter: &impl Filter) -> Destination {
        let is_dash = |path: &PathBuf| path.as_os_str() == "-";
        match &self.output {
            _ if filter.only_checks() => Destination::Nowhere,
            _ if self.stdout => Destination::Stdout,
            Some(path) if is_dash(path) => Destination::Stdout,
            Some(path) => Destination::File(path.clone()),
            None => Destination::BesideInput,
        }
    }

    /// Runs the filter over every input.
    pub fn for_each_file(&self, filter: &impl Filter) -> Result<(), CommandError> {
        let stdin = [PathBuf::from("-")];
        let files = if self.files.is_empty() {
            &stdin[..]
        } else {
            &self.files[..]
        };
        if self.output.is_some() && files.len() > 1 {
            let message = format!("--output takes one input, not {}", files.len());
            return Err(CommandError::new(Kind::Usage, message));
        }
        let mut first_failure = None;
        for file in files {
            if let Err(error) = self.one_file(filter, file) {
                error.report();
                first_failure.get_or_insert(error.kind());
            }
        }
        first_failure.map_or(Ok(()), |kind| Err(CommandError::silent(kind)))
    }

    fn one_file<F: Filter>(&self, filter: &F, path: &Path) -> Result<(), CommandError> {
        if path.as_os_str() == "-" {
            let mut input = io::stdin().lock();
            return match self.destination(filter) {
                Destination::File(output) => {
                    self.to_named_file(filter, Source::stream(&mut input), &output, None)
                }
                Destination::Stdout | Destination::BesideInput => {
                    self.to_stdout(filter, Source::stream(&mut input))
                }
                Destination::Nowhere => {
                    filter.run(Source::stream(&mut input), &mut io::sink(), true)
                }
            }
            .map_err(|error| error.at("standard input"));
        }
        let path = &filter.input_path(path);
        let result = self.named_file(filter, path);
        result.map_err(|error| error.at(path.display()))
    }

    fn named_file<F: Filter>(&self, filter: &F, path: &Path) -> Result<(), CommandError> {
        let destination = self.destination(filter);
        let named_output = matches!(destination, Destination::Stdout | Destination::File(_));
        if !named_output && !self.force {
            refuse_special(path)?;
        }
        let (file, before) = open_input(path)?;
        let mut reader = &file;
        let input = Source {
            reader: &mut reader,
            // The kernel's own files say that they are empty, and are not.
            file: (before.is_file() && before.len() > 0).then_some(&file),
        };
        match destination {
            Destination::Stdout => self.to_stdout(filter, input),
            Destination::Nowhere => filter.run(input, &mut io::sink(), true),
            Destination::File(output) => {
                self.to_named_file(filter, input, &output, Some((path, &before)))
            }
            Destination::BesideInput => {
                if !self.force && !self.keep {
                    refuse_links(path, &before)?;
                }
                let output = filter.output_path(path)?;
                self.to_file(filter, input, &output, Some((path, &before)))?;
                if self.keep {
                    return Ok(());
                }
                std::fs::remove_file(path).map_err(|error| {
                    CommandError::caused(Kind::FileWrite, "cannot remove the input", &error)
                })
            }
        }
    }

    fn to_stdout<F: Filter>(&self, filter: &F, input: Source<'_>) -> Result<(), CommandError> {
        let stdout = io::stdout();
        if stdout.is_terminal() && !self.force {
            let message = "standard output is a terminal, and the output is binary";
            let hint = format!(
                "Redirect it or name an output with -o; see \"walzip {} --help\".",
                F::COMMAND
            );
            return Err(CommandError::new(Kind::Usage, message).hint(hint));
        }
        // Unbuffered: the standard library's buffer would search every byte for a line's end.
        let handle = stdout
            .as_fd()
            .try_clone_to_owned()
            .map_err(CommandError::stdout)?;
        let mut output = File::from(handle);
        filter.run(input, &mut output, false)?;
        // An archiver that takes our output relies on it. Only the content can be made durable
        // here: the file's name was given by the shell, which syncs nothing. What is restored
        // can be restored again, and PostgreSQL syncs the segments that it keeps
        // (KeepFileRestoredFromArchive in access/transam/xlogarchive.c).
        if F::OUTPUT_IS_KEPT && output.metadata().is_ok_and(|metadata| metadata.is_file()) {
            output.sync_all().map_err(CommandError::stdout)?;
        }
        Ok(())
    }

    /// Writes to the file that `-o` names, unless it says the same already.
    fn to_named_file<F: Filter>(
        &self,
        filter: &F,
        input: Source<'_>,
        output: &Path,
        source: Option<(&Path, &Metadata)>,
    ) -> Result<(), CommandError> {
        if !self.force
            && let Some(mut existing) = output_file::existing(output)?
        {
            return match filter.is_in(input.reader, &mut existing)? {
                true => output_file::make_durable(output, &existing),
                false => Err(output_file::exists(output)),
            };
        }
        self.to_file(filter, input, output, source)
    }

    fn to_file<F: Filter>(
        &self,
        filter: &F,
        input: Source<'_>,
        output: &Path,
        source: Option<(&Path, &Metadata)>,
    ) -> Result<(), CommandError> {
        let mut file = OutputFile::create(output, self.force, source.is_some())?;
        let is_provisional = file.is_provisional();
        filter.run(input, &mut file, is_provisional)?;
        if let Some((path, before)) = source {
            refuse_changed(path, before)?;
            file.copy_attributes(before)?;
        }
        file.publish()
    }
}

/// What is taken for an input at once, before it has shown that it is as long as it says.
const RESERVE_MAX: usize = 64 << 20;

/// Reads until the buffer holds `len` bytes or the input ends.
pub fn fill(input: &mut dyn Read, buffer: &mut Vec<u8>, len: usize) -> Result<(), CommandError> {
    let missing = len.saturating_sub(buffer.len());
    buffer.reserve(missing.min(RESERVE_MAX));
    Read::take(input, missing as u64)
        .read_to_end(buffer)
        .map_err(|error| CommandError::cannot_read(&error))?;
    Ok(())
}

/// Writes a decoded or encoded member.
pub fn write(output: &mut dyn Write, bytes: &[u8]) -> Result<(), CommandError> {
    output
        .write_all(bytes)
        .map_err(|error| cannot_write(&error))
}

/// The output took no more.
pub fn cannot_write(error: &io::Error) -> CommandError {
    match error.kind() {
        io::ErrorKind::BrokenPipe => CommandError::silent(Kind::FileWrite),
        _ => CommandError::caused(Kind::FileWrite, "cannot write the output", error),
    }
}

fn open_input(path: &Path) -> Result<(File, Metadata), CommandError> {
    let read = |error: io::Error| CommandError::cannot_read(&error);
    let file = File::open(path).map_err(read)?;
    let metadata = file.metadata().map_err(read)?;
    if metadata.is_dir() {
        return Err(CommandError::new(Kind::FileInvalid, "is a directory"));
    }
    Ok((file, metadata))
}

/// Opening a pipe waits until somebody writes to it, which takes a clear request.
fn refuse_special(path: &Path) -> Result<(), CommandError> {
    let metadata = std::fs::metadata(path).map_err(|error| CommandError::cannot_read(&error))?;
    if metadata.is_file() || metadata.is_dir() {
        return Ok(());
    }
    Err(
        CommandError::new(Kind::FileInvalid, "is not a regular file")
            .hint("Redirect it to standard input, or name the output with -c or -o."),
    )
}

/// Removing a link would leave the data where it was, and removing a file with other names
/// would save nothing.
fn refuse_links(path: &Path, metadata: &Metadata) -> Result<(), CommandError> {
    let invalid = |message: &str| {
        Err(CommandError::new(Kind::FileInvalid, message)
            .hint("Use -k to keep the input, -c for standard output or -f to go ahead."))
    };
    if std::fs::symlink_metadata(path).is_ok_and(|link| link.is_symlink()) {
        return invalid("is a symbolic link");
    }
    if metadata.nlink() > 1 {
        return invalid("has other names (hard links)");
    }
    Ok(())
}

/// A file that somebody writes to while it is read must not be replaced by its half.
fn refuse_changed(path: &Path, before: &Metadata) -> Result<(), CommandError> {
    let after = std::fs::metadata(path).map_err(|error| CommandError::cannot_read(&error))?;
    let identity = |metadata: &Metadata| {
        (
            metadata.dev(),
            metadata.ino(),
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec(),
        )
    };
    if !before.is_file() || identity(before) == identity(&after) {
        return Ok(());
    }
    Err(changed())
}

/// Somebody writes to an input.
pub fn changed() -> CommandError {
    CommandError::new(Kind::FileRead, "the file changed while it was read")
}
