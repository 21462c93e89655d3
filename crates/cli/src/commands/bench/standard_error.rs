//! What a person sees while an experiment runs.

use std::io::{IsTerminal, Write};

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

impl Progress for StandardError {
    fn note(&mut self, text: &str) {
        self.finish();
        self.show(&format!("{text}\n"));
    }

    fn step(&mut self, step: &Step) {
        let remaining = match step.remaining {
            Some(time) => format!(", about {} s left", time.as_secs()),
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
