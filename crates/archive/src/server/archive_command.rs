//! Reading a server's `archive_command`: is it walzip's, which repository does it name, and does the server see
//! whether it fails?
//!
//! The shell has the last word on a command. What it would have to compute (variables, other
//! programs' output) stays unknown here, and is never guessed.

/// A shell's `sh -c '...'` within another is looked into so often.
const NESTING_MAX: usize = 3;

/// walzip's `archive-push` within an `archive_command`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushCommand {
    /// The repository that it names, by `--repo` or `WALZIP_REPO`.
    pub repo: Option<Word>,
    /// The configuration file that it names, by `--config` or `WALZIP_CONFIG`.
    pub config: Option<Word>,
    /// Whether it gets the file to archive: `%p`, or what the shell makes.
    pub has_path: bool,
    /// Whether PostgreSQL sees its exit code.
    pub exit_code: ExitCode,
}

/// Whether the exit code of a command within a command line is that of the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExitCode {
    /// It is, as far as can be seen.
    #[default]
    Seen,
    /// What follows may succeed after it failed.
    MayBeHidden,
    /// What follows succeeds after it failed.
    Hidden,
}

/// A word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Without the quotes.
    pub text: String,
    /// Whether the shell takes it as it stands.
    pub is_literal: bool,
}

impl PushCommand {
    /// Finds walzip's `archive-push` in an `archive_command`.
    pub fn find(command: &str) -> Option<PushCommand> {
        find(command, NESTING_MAX)
    }
}

fn find(line: &str, nesting: usize) -> Option<PushCommand> {
    let commands = commands(line);
    for (index, command) in commands.iter().enumerate() {
        let of_inner = || {
            let inner = command.words.iter().filter(|word| word.text.contains(' '));
            inner
                .filter(|_| nesting > 0)
                .find_map(|word| find(&word.text, nesting - 1))
        };
        let Some(mut push) = push_of(&command.words).or_else(of_inner) else {
            continue;
        };
        let exit_code = exit_code(&commands[index..]);
        if push.exit_code == ExitCode::Seen {
            push.exit_code = exit_code;
        }
        return Some(push);
    }
    None
}

/// What becomes of the exit code of the first of these commands where it fails.
fn exit_code(commands: &[Simple]) -> ExitCode {
    let Some((mut before, mut rest)) = commands.split_first() else {
        return ExitCode::Seen;
    };
    // What needs its success is passed over.
    while before.after.trim_matches([')', '(']) == "&&" {
        let Some(next) = rest.split_first() else {
            return ExitCode::Seen;
        };
        (before, rest) = next;
    }
    if before.after.trim_end_matches(')').ends_with('&') {
        return ExitCode::Hidden;
    }
    let Some(last) = rest.last() else {
        return ExitCode::Seen;
    };
    match last.words.first().map(|word| word.text.as_str()) {
        _ if rest.iter().any(Simple::fails) => ExitCode::Seen,
        Some("true" | ":" | "exit" | "echo" | "printf" | "logger") => ExitCode::Hidden,
        _ => ExitCode::MayBeHidden,
    }
}

/// `[NAME=VALUE ...] [wrapper ...] walzip [...] archive-push [...]`
fn push_of(words: &[Word]) -> Option<PushCommand> {
    let program = words.iter().position(|word| {
        let name = word.text.rsplit('/').next().unwrap_or_default();
        name.starts_with("walzip")
    })?;
    let (before, after) = words.split_at(program);
    after.iter().find(|word| word.text == "archive-push")?;
    let variable = |name: &str| before.iter().rev().find_map(|word| word.after(name));
    let option = |name: &str| {
        let mut words = after.iter();
        let mut found = None;
        while let Some(word) = words.next() {
            if word.text == name {
                found = words.next().cloned();
            } else if let Some(value) = word.after(&format!("{name}=")) {
                found = Some(value);
            }
        }
        found
    };
    Some(PushCommand {
        repo: option("--repo").or_else(|| variable("WALZIP_REPO=")),
        config: option("--config").or_else(|| variable("WALZIP_CONFIG=")),
        has_path: after
            .iter()
            .any(|word| word.text.contains("%p") || word.text.contains(['$', '`'])),
        exit_code: ExitCode::Seen,
    })
}

/// A command, and what stands between it and the next one: `&&`, `||`, `;`, `|`, `&`, parentheses.
#[derive(Clone, Debug, Default)]
struct Simple {
    words: Vec<Word>,
    after: String,
}

impl Simple {
    /// It ends the line, or its part of it, with a failure.
    fn fails(&self) -> bool {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        match words[..] {
            ["false" | "exit" | "return", ..] => words.get(1) != Some(&"0"),
            _ => false,
        }
    }
}

impl Word {
    /// What follows a beginning.
    fn after(&self, beginning: &str) -> Option<Word> {
        Some(Word {
            text: self.text.strip_prefix(beginning)?.to_owned(),
            is_literal: self.is_literal,
        })
    }
}

/// The simple commands of a command line. PostgreSQL's own `%%` is a `%`.
fn commands(line: &str) -> Vec<Simple> {
    let mut commands = vec![Simple::default()];
    let mut word: Option<Word> = None;
    let mut letters = line.chars().peekable();
    let (mut quote, mut before) = (None, ' ');
    while let Some(letter) = letters.next() {
        let last = std::mem::replace(&mut before, letter);
        if quote == Some(letter) {
            quote = None;
            continue;
        }
        // `2>&1` and `&>`
        let is_redirection = letter == '&' && (last == '>' || letters.peek() == Some(&'>'));
        let is_separator = letter.is_whitespace() || ";&|()".contains(letter);
        if quote.is_none() && is_separator && !is_redirection {
            end_word(&mut commands, word.take());
            if let (Some(last), false) = (commands.last_mut(), matches!(letter, ' ' | '\t')) {
                last.after.push(letter);
            }
            continue;
        }
        let word = word.get_or_insert_with(|| Word {
            text: String::new(),
            is_literal: true,
        });
        match (quote, letter) {
            // PostgreSQL's own, whatever quotes are around it.
            (_, '%') if letters.peek() == Some(&'%') => word.text.extend(letters.next()),
            (_, '%') => {
                word.is_literal = false;
                word.text.push(letter);
            }
            (None, '\'' | '"') => quote = Some(letter),
            (Some('\''), letter) => word.text.push(letter),
            (_, '\\') => word.text.extend(letters.next()),
            (_, letter) => {
                word.is_literal &= !"$`~*?".contains(letter);
                word.text.push(letter);
            }
        }
    }
    end_word(&mut commands, word);
    commands
}

/// Adds a word to the last command, or begins the next one.
fn end_word(commands: &mut Vec<Simple>, word: Option<Word>) {
    let Some(word) = word else { return };
    match commands.last_mut() {
        Some(last) if last.after.is_empty() => last.words.push(word),
        _ => commands.push(Simple {
            words: vec![word],
            after: String::new(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Option<Word> {
        Some(Word {
            text: text.to_owned(),
            is_literal: true,
        })
    }

    #[test]
    fn finds_the_repository_wherever_a_command_names_it() {
        for command in [
            "walzip archive-push --repo /r %p",
            "walzip archive-push --repo=/r %p",
            "walzip archive-push %p --repo '/r'",
            "/usr/local/bin/walzip -q archive-push --repo \"/r\" \"%p\"",
            "WALZIP_REPO=/r walzip archive-push %p",
            "env WALZIP_REPO=/x WALZIP_REPO=/r nice -n 5 walzip archive-push %p",
            "WALZIP_REPO=/x walzip archive-push --repo /r %p",
            "test -f %p && walzip archive-push --repo /r %p || exit 1",
            "sh -c 'exec walzip archive-push --repo /r %p'",
            "ssh backup \"sh -c 'walzip archive-push --repo /r %p'\"",
            "/opt/walzip-0.1/bin/walzip archive-push --repo /x --repo /r %p",
        ] {
            let push = PushCommand::find(command).expect(command);
            assert_eq!(push.repo, literal("/r"), "{command}");
            assert_eq!(push.config, None, "{command}");
        }
        let push = PushCommand::find("walzip archive-push --repo '/my wal/100%%' %p");
        assert_eq!(push.expect("found").repo, literal("/my wal/100%"));
        let push = PushCommand::find(r"walzip archive-push --repo /my\ wal %p").expect("found");
        assert_eq!(push.repo, literal("/my wal"));
    }

    #[test]
    fn finds_the_configuration_file() {
        for command in [
            "walzip archive-push --config /c %p",
            "WALZIP_CONFIG=/c walzip archive-push %p",
        ] {
            let push = PushCommand::find(command).expect(command);
            assert_eq!((push.repo, push.config), (None, literal("/c")), "{command}");
        }
    }

    #[test]
    fn what_the_shell_would_compute_is_not_taken_to_the_letter() {
        for command in [
            "walzip archive-push --repo $REPO %p",
            "walzip archive-push --repo \"$REPO\" %p",
            "walzip archive-push --repo ~/r %p",
            "walzip archive-push --repo `cat /r` %p",
            "walzip archive-push --repo '/r/%r' %p",
        ] {
            let push = PushCommand::find(command).expect(command);
            assert!(!push.repo.expect("named").is_literal, "{command}");
        }
    }

    #[test]
    fn tells_whether_the_server_sees_the_exit_code() {
        use ExitCode::{Hidden, MayBeHidden, Seen};
        for (command, expected) in [
            ("walzip archive-push %p", Seen),
            ("walzip archive-push %p 2>&1", Seen),
            ("walzip archive-push %p &> /tmp/log", Seen),
            ("walzip archive-push %p >> /tmp/log 2>&1;", Seen),
            ("(test -f %p && walzip archive-push %p)", Seen),
            ("walzip archive-push %p && cp %p /mnt/%f", Seen),
            ("walzip archive-push %p && cp %p /mnt/%f || exit 1", Seen),
            ("walzip archive-push %p || { logger failed; exit 1; }", Seen),
            ("walzip archive-push %p; exit $?", Seen),
            ("walzip archive-push %p || false", Seen),
            ("walzip archive-push %p || true", Hidden),
            ("walzip archive-push %p ; true", Hidden),
            ("walzip archive-push %p || exit 0", Hidden),
            ("walzip archive-push %p && cp %p /mnt/%f || :", Hidden),
            ("walzip archive-push %p &", Hidden),
            ("(walzip archive-push %p &)", Hidden),
            ("walzip archive-push %p || logger -t wal failed", Hidden),
            ("sh -c 'walzip archive-push %p || true'", Hidden),
            ("sh -c 'walzip archive-push %p' || true", Hidden),
            (
                "walzip archive-push %p || /usr/local/bin/page-me",
                MayBeHidden,
            ),
            ("walzip archive-push %p | tee -a /tmp/log", MayBeHidden),
        ] {
            let push = PushCommand::find(command).expect(command);
            assert_eq!(push.exit_code, expected, "{command}");
            assert!(push.has_path, "{command}");
        }
        let push = PushCommand::find("walzip archive-push --repo /r");
        assert!(!push.expect("found").has_path);
    }

    #[test]
    fn other_commands_are_not_walzips() {
        for command in [
            "",
            "true",
            "cp %p /walzip/%f",
            "cp %p /archive-push/walzip",
            "pgbackrest --stanza=main archive-push %p",
            "walzip compress -o /mnt/wal/%f.wz %p",
            "walzip info; pgbackrest archive-push %p",
            "'unfinished",
        ] {
            assert_eq!(PushCommand::find(command), None, "{command}");
        }
    }
}
