//! What is wrong with a configuration file, in the words of its keys.

use super::{SETTINGS, nearest};
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::foreign_words;

/// An error of the parser, which names Rust's types.
pub(super) fn in_words(error: &toml::de::Error) -> String {
    let mut message = error.message().to_owned();
    let is_out_of_range = message.starts_with("invalid value: integer");
    for (number, range) in [
        // The level, and the port: what has fewer values is looked at later.
        ("u8", "from 1 to 9"),
        ("u16", "from 1 to 65535"),
        ("u32", "from 1 to 4294967295"),
        ("u64", "of 1 or more"),
    ] {
        let ours = match is_out_of_range {
            true => format!("expected a number {range}"),
            false => "expected a whole number, without quotes".to_owned(),
        };
        message = message.replace(&format!("expected {number}"), &ours);
    }
    message.replace(
        "expected a boolean",
        "expected true or false, without quotes",
    )
}

/// What is wrong with a line that gives a setting another word than true or false, which the parser takes for a text
/// without its quotes.
pub(super) fn not_a_boolean(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.split('#').next()?.trim());
    let is_word = !value.is_empty() && value.chars().all(char::is_alphanumeric);
    let is_boolean = key == "archive-async" && !["true", "false"].contains(&value);
    (is_boolean && is_word)
        .then(|| format!("the key \"{key}\" is {value}: it has to be true or false"))
}

pub(super) fn section(name: &str) -> CommandError {
    CommandError::new(Kind::Config, format_args!("unknown section [{name}]")).hint(
        "There are no sections, and no stanzas: a file is for one cluster. Write the keys without a section, such as \
         repo = \"/var/lib/walzip\".",
    )
}

pub(super) fn unknown_key(key: &str) -> CommandError {
    let error = CommandError::new(Kind::Config, format_args!("unknown key \"{key}\""));
    if let Some(here) = foreign_words::key(key) {
        return error.hint(here);
    }
    // A flag's name, which is shorter.
    let flag = format!("-{key}");
    let longer = SETTINGS.iter().find(|name| name.ends_with(&flag)).copied();
    match nearest(key, SETTINGS).or(longer) {
        Some(name) => error.hint(format_args!("Did you mean \"{name}\"?")),
        None => error.hint(format_args!("The keys are {}.", SETTINGS.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn message(text: &str) -> String {
        format!("{:?}", Config::parse(text).expect_err("the file is wrong"))
    }

    #[test]
    fn the_keys_of_other_programs_are_answered_with_ours() {
        for (text, ours) in [
            ("repo1-path = '/r'", "\\\"repo\\\""),
            ("pg1-path = '/d'", "\\\"pgdata\\\""),
            ("pg2-port = 5433", "\\\"port\\\""),
            ("repo-retention-archive = 2", "\\\"repo-retention-full\\\""),
            (
                "[global]\nrepo1-retention-full = 2",
                "There are no sections",
            ),
            ("[main]\npg1-path = '/d'", "unknown section [main]"),
        ] {
            let message = message(text);
            assert!(message.contains(ours), "{text}: {message}");
            assert!(!message.contains("Did you mean"), "{message}");
        }
        let config = Config::parse("repo = '/r'\nrepo1-retention-full = 2").expect("valid");
        assert_eq!(config.repo_retention_full, Some(2));
    }

    #[test]
    fn a_value_out_of_range_or_another_word_than_true_is_told_what_it_has_to_be() {
        assert!(message("port = 99999").contains("from 1 to 65535"));
        assert!(message("level = 300").contains("from 1 to 9"));
        for text in [
            "archive-async = yes",
            "archive-async = \"yes\"",
            "archive-async = 1",
        ] {
            assert!(message(text).contains("true or false"), "{text}");
        }
        assert!(message("repo = '/r'\narchive-async = on # always").contains("line 2"));
        assert!(!message("host = yes").contains("true or false"));
    }
}
