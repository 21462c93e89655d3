//! Words of commands that a shell is to run.

/// Text as one word.
pub fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_shell_unchanged() {
        for text in [
            "/usr/bin/walzip",
            "/a b",
            "/it's",
            "/100%",
            "",
            "$HOME",
            "a\nb",
            "*",
        ] {
            let echo = format!("printf %s {}", word(text));
            let output = std::process::Command::new("sh")
                .args(["-c", &echo])
                .output();
            let output = output.expect("a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }
        assert_eq!(word("/usr/bin/walzip"), "/usr/bin/walzip");
        assert_eq!(word("/a b"), "'/a b'");
    }
}
