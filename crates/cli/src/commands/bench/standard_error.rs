//! What a person sees while an experiment runs.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use walzip_bench::{Progress, Step};

/// One line that is rewritten on a terminal, a line each otherwise.
pub struct StandardError {
    rewrite: bool,
}

impl StandardError {
    /// Rewrites its line when a person is watching.
    pub fn new() -> StandardError {
        StandardError {
            rewrite: std::io::stderr().is_terminal(),
        }
    }

    /// Progress that cannot be shown is no reason to stop measuring.
    fn show(&self, text: &str) {
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Clears the line, so that what follows begins at its left.
    pub fn finish(&self) {
        if self.rewrite {
            self.show("\r\x1b[K");
        }
    }
}

/// A time of which nobody needs the seconds where there are hours.
fn in_words(time: Duration) -> String {
    let (minutes, seconds) = (time.as_secs() / 60, time.as_secs() % 60);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes @ ..10) => format!("{minutes} min {seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

impl Progress for StandardError {
    fn note(&mut self, text: &str) {
        self.finish();
        self.show(&format!("{text}\n"));
    }

    fn step(&mut self, step: &Step) {
        let remaining = match step.remaining {
            Some(time) => format!(", about {} left", in_words(time)),
            None => String::new(),
        };
        let line = format!(
            "[{}/{}{remaining}] {}",
            step.done + 1,
            step.total,
            step.label
        );
        match self.rewrite {
            true => self.show(&format!("\r\x1b[K{line}")),
            false => self.show(&format!("{line}\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_told_without_seconds() {
        let words = |seconds| in_words(Duration::from_secs(seconds));
        assert_eq!(words(59), "59 s");
        assert_eq!(words(61), "1 min 1 s");
        assert_eq!(words(3599), "59 min");
        assert_eq!(words(7 * 3600 + 120), "7 h 2 min");
    }
}
