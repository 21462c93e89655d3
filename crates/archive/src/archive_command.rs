//! Reading a server's `archive_command`: is it walzip's, and which repository does it name?
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

fn find(command: &str, nesting: usize) -> Option<PushCommand> {
    for words in commands(command) {
        if let Some(push) = push_of(&words) {
            return Some(push);
        }
        let inner = words.iter().filter(|word| word.text.contains(' '));
        let found = inner
            .filter(|_| nesting > 0)
            .find_map(|word| find(&word.text, nesting - 1));
        if found.is_some() {
            return found;
        }
    }
    None
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
    })
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

/// The simple commands of a command line, in words. PostgreSQL's own `%%` is a `%`.
fn commands(line: &str) -> Vec<Vec<Word>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<Word> = None;
    let mut letters = line.chars().peekable();
    let mut quote = None;
    while let Some(letter) = letters.next() {
        if quote == Some(letter) {
            quote = None;
            continue;
        }
        if quote.is_none() && (letter.is_whitespace() || ";&|()".contains(letter)) {
            let last = commands.last_mut();
            if let (Some(last), Some(word)) = (last, word.take()) {
                last.push(word);
            }
            if !matches!(letter, ' ' | '\t') {
                commands.push(Vec::new());
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
    if let (Some(last), Some(word)) = (commands.last_mut(), word) {
        last.push(word);
    }
    commands
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
