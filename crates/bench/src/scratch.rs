//! Nothing is left behind even when this process is killed without a chance to clean up.
//!
//! A shell waits at the end of a pipe. It hears either one word, that everything was cleaned up,
//! or the end of the pipe, because this process is gone: then it stops the server and removes
//! its directory.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r word && exit 0
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ]; then
    kill -QUIT "$pid"
    tries=0
    while [ -e "$1/data/postmaster.pid" ] && [ "$tries" -lt 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
fi
rm -rf "$1"
"#;

/// A process that outlives this one for as long as cleaning up takes.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// Watches over a directory, and over the server on its `data`.
    pub(super) fn over(directory: &Path) -> io::Result<Guard> {
        Command::new("/bin/sh")
            .args(["-c", SCRIPT, "walzip-bench-guard"])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What a terminal sends to this process's group does not reach it.
            .process_group(0)
            .spawn()
            .map(Guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // When the word does not arrive, the guard removes what is no longer there.
        if let Some(mut pipe) = self.0.stdin.take() {
            let _said = pipe.write_all(b"done\n");
        }
        let _ended = self.0.wait();
    }
}
