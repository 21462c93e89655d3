//! `walzip manual` and `walzip completions`: what a package has besides the program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::Cli;
use crate::error::CommandError;

/// Write the manual pages into a directory
#[derive(Debug, clap::Args)]
pub struct ManualArgs {
    /// The directory, which is made where it is missing
    directory: PathBuf,
}

/// Print the completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip completions bash > /usr/share/bash-completion/completions/walzip")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Writes a page for the program and for each command.
pub fn run_manual(args: ManualArgs) -> Result<(), CommandError> {
    let failed = |error: io::Error| CommandError::write(&args.directory, &error);
    fs::create_dir_all(&args.directory).map_err(failed)?;
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    pages(&program, "walzip", &args.directory).map_err(failed)
}

fn pages(command: &clap::Command, name: &str, directory: &Path) -> io::Result<()> {
    let mut page = Vec::new();
    let named = command.clone().display_name(name);
    Man::new(named).title(name).render(&mut page)?;
    fs::write(directory.join(format!("{name}.1")), page)?;
    let shown = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    for command in shown {
        pages(
            command,
            &format!("{name}-{}", command.get_name()),
            directory,
        )?;
    }
    Ok(())
}

/// Prints them.
pub fn run_completions(args: CompletionsArgs) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "walzip", &mut script);
    io::Write::write_all(&mut io::stdout(), &script).map_err(CommandError::stdout)
}
