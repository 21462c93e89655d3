//! `walzip bench report`: one page over all pages.

use std::io::Write;
use std::path::PathBuf;

use walzip_bench::index;

use crate::error::CommandError;

/// Make one page over all reports of a directory
///
/// It says what each of them asks and answers, and links to it. It is written to index.html in
/// that directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip bench report results/")]
pub struct ReportArgs {
    /// The directory with the pages that --report wrote
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Replace an index.html that this command did not write
    #[arg(short, long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: ReportArgs) -> Result<(), CommandError> {
    let entries = index::write(&args.directory, args.force)?;
    let mut text = String::new();
    for entry in &entries {
        let answer = entry.answer.as_deref().unwrap_or("-");
        text += &format!("{}: {}\n  {answer}\n", entry.name, entry.title);
    }
    let path = args.directory.join(index::NAME);
    text += &format!("{}\n", path.display());
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(CommandError::stdout)
}
