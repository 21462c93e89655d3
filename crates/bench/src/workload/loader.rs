//! Rows on their way into a server: by COPY, a file at a time, so that neither memory nor disk
//! has to hold them all, and making them is not part of what is measured.

use std::fs;
use std::path::PathBuf;

use crate::error::Error;
use crate::server::Server;
use crate::usage::Usage;

/// How much is written before psql takes it.
const FILE_BYTES: usize = 32 << 20;

/// Loads a server and adds up what psql took.
pub(super) struct Loader<'a> {
    server: &'a Server,
    path: PathBuf,
    usage: Usage,
}

impl<'a> Loader<'a> {
    pub(super) fn new(server: &'a Server) -> Loader<'a> {
        Loader {
            server,
            path: server.host().join("load.sql"),
            usage: Usage::default(),
        }
    }

    /// Runs statements.
    pub(super) fn sql(&mut self, sql: &str) -> Result<(), Error> {
        fs::write(&self.path, sql).map_err(|source| Error::file(&self.path, source))?;
        self.run_file()
    }

    /// Copies rows into a table, some of them in each COPY; `row` writes the values of a row.
    pub(super) fn copy(
        &mut self,
        table: &str,
        rows: u64,
        rows_per_copy: u64,
        mut row: impl FnMut(u64, &mut String),
    ) -> Result<(), Error> {
        let mut text = String::new();
        let mut open = false;
        for number in 0..rows {
            if !open {
                text.push_str(&format!("COPY {table} FROM stdin;\n"));
                open = true;
            }
            row(number, &mut text);
            text.push('\n');
            let last = number + 1 == rows;
            let full = text.len() > FILE_BYTES;
            if last || full || (number + 1) % rows_per_copy == 0 {
                text.push_str("\\.\n");
                open = false;
            }
            if last || full {
                self.sql(&text)?;
                text.clear();
            }
        }
        Ok(())
    }

    fn run_file(&mut self) -> Result<(), Error> {
        self.usage += self.server.sql_file(&self.path)?;
        Ok(())
    }

    /// What it took; the last file is removed.
    pub(super) fn finish(self) -> Result<Usage, Error> {
        fs::remove_file(&self.path).map_err(|source| Error::file(&self.path, source))?;
        Ok(self.usage)
    }
}

/// Writes a script for pgbench.
pub(super) fn write_script(server: &Server, name: &str, script: &str) -> Result<PathBuf, Error> {
    let path = server.host().join(format!("{name}.pgbench"));
    fs::write(&path, script).map_err(|source| Error::file(&path, source))?;
    Ok(path)
}
