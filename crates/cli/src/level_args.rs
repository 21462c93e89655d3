//! The level flags: `-1` to `-9`, as every compressor has them, and `--level`. WAL and base backups have a level each.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use walzip_codec::Level;

use crate::config::Config;
use crate::error::CommandError;
use crate::exit_code::Kind;

const LEVEL: &str = "level";
const NAMES: [&str; 9] = [
    "level-1", "level-2", "level-3", "level-4", "level-5", "level-6", "level-7", "level-8",
    "level-9",
];

/// The level that was asked for WAL or single files, if any: by the last flag, else by `WALZIP_LEVEL`.
#[derive(Clone, Copy, Debug)]
pub struct LevelArgs {
    /// The level that was asked for.
    pub level: Option<Level>,
}

/// The level that was asked for a base backup, if any: by the last flag, else by `WALZIP_BACKUP_LEVEL`.
#[derive(Clone, Copy, Debug)]
pub struct BackupLevelArgs {
    level: Option<Level>,
}

impl LevelArgs {
    /// The level for WAL: as asked for, or as the configuration file has it.
    pub fn for_wal(&self, config: &Config) -> Result<Level, CommandError> {
        let level = match self.level {
            Some(level) => Some(level),
            None => of_key("level", config.level)?,
        };
        Ok(level.unwrap_or_default())
    }
}

impl BackupLevelArgs {
    /// As asked for, or as the configuration file has it.
    pub fn level(&self, config: &Config) -> Result<Option<Level>, CommandError> {
        match self.level {
            Some(level) => Ok(Some(level)),
            None => of_key("backup-level", config.backup_level),
        }
    }
}

fn of_key(key: &str, number: Option<u8>) -> Result<Option<Level>, CommandError> {
    let level = |number| {
        Level::new(number).ok_or_else(|| {
            let message = format!("the key \"{key}\" is {number}, not a number from 1 to 9");
            CommandError::new(Kind::Config, message)
        })
    };
    number.map(level).transpose()
}

fn parse(text: &str) -> Result<Level, String> {
    let level = text.parse().ok().and_then(Level::new);
    level.ok_or_else(|| "the level is a number from 1 to 9".to_owned())
}

fn digit_flag(index: usize, name: &'static str) -> Arg {
    let digit = char::from(b"123456789"[index]);
    let flag = Arg::new(name)
        .short(digit)
        .action(ArgAction::SetTrue)
        .help_heading("Level");
    match digit {
        '1' => flag
            .visible_alias("fast")
            .long("fastest")
            .help("The fastest"),
        '9' => flag
            .visible_alias("best")
            .long("smallest")
            .help("The smallest"),
        _ => flag.hide(true),
    }
}

fn add_flags(command: Command, variable: &'static str, default: u8) -> Command {
    let level = Arg::new(LEVEL)
        .long("level")
        .value_name("N")
        .env(variable)
        .hide_env_values(true)
        .value_parser(parse)
        .overrides_with(LEVEL)
        .help_heading("Level")
        .help(format!(
            "How hard to try, from 1 to 9 (also -1 to -9) [default: {default}]"
        ));
    let digits = NAMES
        .iter()
        .enumerate()
        .map(|(index, name)| digit_flag(index, name).overrides_with_all(NAMES));
    command.arg(level).args(digits)
}

fn asked_for(matches: &ArgMatches) -> Option<Level> {
    // Where it stands on the command line; a variable stands nowhere.
    let argument_index = |name: &str| match matches.value_source(name) {
        Some(ValueSource::CommandLine) => matches.index_of(name),
        _ => None,
    };
    let digit = NAMES.iter().position(|name| matches.get_flag(name));
    match digit {
        Some(index) if argument_index(LEVEL) < argument_index(NAMES[index]) => {
            Level::new(index as u8 + 1)
        }
        _ => matches.get_one(LEVEL).copied(),
    }
}

/// The flags of a type, with the variable that they have and the level that is taken without any.
macro_rules! level_args {
    ($args:ident, $variable:literal, $default:literal) => {
        impl Args for $args {
            fn augment_args(command: Command) -> Command {
                add_flags(command, $variable, $default)
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $args {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                let level = asked_for(matches);
                Ok($args { level })
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    };
}

level_args!(LevelArgs, "WALZIP_LEVEL", 3);
level_args!(BackupLevelArgs, "WALZIP_BACKUP_LEVEL", 1);
