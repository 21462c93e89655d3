//! Wrong command lines, in the format of every other failure: one line, and one with a hint.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Parser};

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::foreign_words;

/// Reads the command line: as `Few`, whose definition is small, if it is one of those, otherwise as `All`.
/// Help and version are printed here, and end the program.
pub fn parse<Few: Parser + Into<All>, All: Parser>() -> Result<All, CommandError> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match Few::try_parse_from(&arguments) {
        Ok(parsed) => Ok(parsed.into()),
        Err(_) => parse_all(&arguments),
    }
}

fn parse_all<C: Parser>(arguments: &[OsString]) -> Result<C, CommandError> {
    C::try_parse_from(arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        _ => failure(error, &C::command(), arguments),
    })
}

fn failure(mut error: clap::Error, program: &Command, arguments: &[OsString]) -> CommandError {
    let (command, name) = command_of(program, arguments);
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let message = format_args!("\"{name}\" needs a command");
        return CommandError::new(Kind::Usage, message).hint(format_args!(
            "The commands are {}; \"{name} --help\" explains them.",
            names.join(", ")
        ));
    }
    let variable = variable(&error, command, arguments);
    let suggestion = suggestion(&mut error, command, std::ptr::eq(command, program));
    let message = message(&error);
    CommandError::new(Kind::Usage, message).hint(format_args!(
        "{variable}{suggestion}\"{name} --help\" explains the command line."
    ))
}

/// The environment variable that a wrong value is from, if no argument has it.
fn variable(error: &clap::Error, command: &Command, arguments: &[OsString]) -> String {
    let Some(ContextValue::String(named)) = error.get(ContextKind::InvalidArg) else {
        return String::new();
    };
    let is_named = |option: &&clap::Arg| {
        let long = option.get_long().map(|long| format!("--{long}"));
        long.is_some_and(|long| named.split([' ', '=']).next() == Some(long.as_str()))
    };
    let option = command.get_arguments().find(is_named);
    let variable = option.and_then(|option| Some((option, option.get_env()?.to_str()?)));
    let Some((option, variable)) = variable else {
        return String::new();
    };
    let is_argument = arguments.iter().filter_map(|argument| argument.to_str());
    let mut is_argument = is_argument.map(|argument| {
        let long = argument.strip_prefix("--");
        let short = argument
            .strip_prefix('-')
            .and_then(|rest| rest.chars().next());
        let is_long = long.and_then(|long| long.split('=').next()) == option.get_long();
        is_long || short.is_some() && short == option.get_short()
    });
    match std::env::var_os(variable).is_some() && !is_argument.any(|given| given) {
        true => format!("The value is from the variable {variable}. "),
        false => String::new(),
    }
}

/// The command that the arguments name, as far as they name one, and how it is called. No option
/// before a command's name takes a value.
fn command_of<'a>(program: &'a Command, arguments: &[OsString]) -> (&'a Command, String) {
    let mut command = program;
    let mut name = program.get_name().to_owned();
    for argument in arguments.iter().skip(1) {
        if argument.as_encoded_bytes().starts_with(b"-") {
            continue;
        }
        let Some(found) = command.find_subcommand(argument) else {
            break;
        };
        command = found;
        name.push(' ');
        name.push_str(found.get_name());
    }
    (command, name)
}

/// What the message says besides is taken out of it: what was meant, as a sentence.
fn suggestion(error: &mut clap::Error, command: &Command, is_program: bool) -> String {
    error.remove(ContextKind::Usage);
    let foreign = foreign_word(error, command, is_program);
    let meant = [
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
    ];
    let names: Vec<String> = meant
        .into_iter()
        .filter_map(|kind| error.remove(kind))
        // The nearest comes last.
        .flat_map(|value| match value {
            ContextValue::String(name) => vec![name],
            ContextValue::Strings(names) => names.into_iter().rev().collect(),
            _ => Vec::new(),
        })
        .map(|name| format!("\"{name}\""))
        .collect();
    let other = error.remove(ContextKind::Suggested);
    if let Some(here) = foreign {
        return format!("{here} ");
    }
    if !names.is_empty() {
        return format!("Did you mean {}? ", names.join(" or "));
    }
    match other {
        Some(ContextValue::StyledStrs(tips)) => {
            let tips = tips.iter().map(ToString::to_string);
            // Nobody who has mistyped an option wants it to be a file's name.
            let useful = tips.filter(|tip| !tip.contains("as a value"));
            useful.map(|tip| sentence(&tip)).collect()
        }
        _ => String::new(),
    }
}

/// What a command or an option is called here, where it is another program's.
fn foreign_word(error: &clap::Error, command: &Command, is_program: bool) -> Option<&'static str> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => Some(name.as_str()),
        _ => None,
    };
    if let Some(name) = text(ContextKind::InvalidSubcommand) {
        return foreign_words::command(name).filter(|_| is_program);
    }
    let option = text(ContextKind::InvalidArg)?.split('=').next()?;
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let has = |name| {
        command
            .get_arguments()
            .any(|own| own.get_long() == Some(name))
    };
    // Only where the command has what is named.
    foreign_words::option(option).find(|here| {
        let named = here.split(' ').find_map(|word| word.strip_prefix("--"));
        let named = named.map(|word| word.trim_end_matches(','));
        named.is_none_or(has)
    })
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}. ", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}

/// clap's message in one line, whatever the arguments hold.
fn message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let text = text
        .rsplit_once("\n\nFor more information")
        .map_or(text, |(message, _)| message);
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .join(" ")
        .chars()
        .map(|c| match c {
            c if c.is_control() => c.escape_default().to_string(),
            c => c.to_string(),
        })
        .collect()
}
