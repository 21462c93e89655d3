//! Data sets that somebody has downloaded, as a manifest names them (`scripts/fetch-data-sets` writes
//! one of those that were published).

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::input;
use crate::server::Server;

/// One data set of a manifest. What it names is loaded in the order of its fields.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Downloaded {
    /// Its name in tables.
    pub name: String,
    /// Files of statements for psql.
    #[serde(default)]
    pub sql: Vec<PathBuf>,
    /// Files of rows.
    #[serde(default)]
    pub csv: Vec<Rows>,
    /// Files that pg_dump wrote in a format for pg_restore.
    #[serde(default)]
    pub dump: Vec<PathBuf>,
    /// What else loads something: programs with their arguments, which find the server by PGHOST and
    /// the like, in the manifest's directory.
    #[serde(default)]
    pub commands: Vec<Vec<String>>,
    /// Files that these commands read.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Files of statements that come last, such as those that make indexes.
    #[serde(default)]
    pub then_sql: Vec<PathBuf>,
    /// Where the manifest is.
    #[serde(skip)]
    directory: PathBuf,
    /// The hash of the hashes of the files, and of the commands.
    #[serde(skip)]
    blake3: String,
}

/// A file of rows for one table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// The file, unpacked.
    pub file: PathBuf,
    /// The table, with its columns in parentheses if the file has others.
    pub table: String,
    /// Further options of COPY, such as `HEADER, DELIMITER '|'`.
    #[serde(default)]
    pub options: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    data_set: Vec<Downloaded>,
}

/// Reads a manifest; its paths are relative to it.
pub fn manifest(path: &Path) -> Result<Vec<Downloaded>, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
    let wrong = |reason: String| Error::Usage(format!("{}: {reason}", path.display()));
    let manifest: Manifest = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let directory = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    let directory = directory
        .canonicalize()
        .map_err(|source| Error::file(directory, source))?;
    let mut data_sets = manifest.data_set;
    for data_set in &mut data_sets {
        data_set.find_files(&directory)?;
        if data_set.blake3.is_empty() {
            let name = &data_set.name;
            return Err(wrong(format!("the data set {name} has no file")));
        }
        if data_set.commands.iter().any(Vec::is_empty) {
            let name = &data_set.name;
            return Err(wrong(format!("a command of the data set {name} is empty")));
        }
    }
    Ok(data_sets)
}

impl Downloaded {
    /// Resolves the names of the files, and hashes what they hold.
    fn find_files(&mut self, directory: &Path) -> Result<(), Error> {
        let csv = self.csv.iter_mut().map(|rows| &mut rows.file);
        let files = self
            .sql
            .iter_mut()
            .chain(csv)
            .chain(&mut self.dump)
            .chain(&mut self.files)
            .chain(&mut self.then_sql);
        let mut hasher = blake3::Hasher::new();
        for file in files {
            let absolute = directory.join(&file);
            *file = absolute
                .canonicalize()
                .map_err(|source| Error::file(&absolute, source))?;
            let hash = input::hash(file).map_err(|source| Error::file(file, source))?;
            hasher.update(hash.as_bytes());
        }
        for word in self.commands.iter().flatten() {
            hasher.update(word.as_bytes());
        }
        if hasher.count() > 0 {
            self.blake3 = hasher.finalize().to_string();
        }
        directory.clone_into(&mut self.directory);
        Ok(())
    }

    pub(super) fn blake3(&self) -> &str {
        &self.blake3
    }

    /// Fills a throw-away server's database.
    pub fn load(&self, server: &Server) -> Result<(), Error> {
        for file in &self.sql {
            server.sql_file(file)?;
        }
        for rows in &self.csv {
            server.sql(&rows.statement())?;
        }
        for dump in &self.dump {
            server.restore_dump(dump)?;
        }
        for command in &self.commands {
            server.run_in(&self.directory, command)?;
        }
        for file in &self.then_sql {
            server.sql_file(file)?;
        }
        server.sql("VACUUM ANALYZE")?;
        Ok(())
    }
}

impl Rows {
    fn statement(&self) -> String {
        let file = self.file.display().to_string().replace('\'', "''");
        let options = match self.options.is_empty() {
            true => String::new(),
            false => format!(", {}", self.options),
        };
        format!(
            "\\copy {} FROM '{file}' WITH (FORMAT csv{options})\n",
            self.table
        )
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_manifest_names_files_relative_to_itself() {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("t.sql"), "").unwrap();
        fs::write(directory.path().join("it's.csv"), "").unwrap();
        let path = directory.path().join("manifest.toml");
        let text = "[[data_set]]\nname = \"imdb\"\nsql = [\"t.sql\"]\n\
            csv = [{ file = \"it's.csv\", table = \"t (a, b)\", options = \"HEADER\" }]\n";
        fs::write(&path, text).unwrap();
        let data_sets = manifest(&path).unwrap();
        assert_eq!(data_sets[0].name, "imdb");
        assert!(data_sets[0].sql[0].is_absolute());
        let statement = data_sets[0].csv[0].statement();
        assert!(
            statement.starts_with("\\copy t (a, b) FROM '"),
            "{statement}"
        );
        assert!(
            statement.ends_with("it''s.csv' WITH (FORMAT csv, HEADER)\n"),
            "{statement}"
        );
    }

    #[test]
    fn a_manifest_with_a_fault_is_refused_with_the_place() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("manifest.toml");
        let error = |text: &str| {
            fs::write(&path, text).unwrap();
            manifest(&path).unwrap_err().to_string()
        };
        let of = |line: &str| format!("[[data_set]]\nname = \"a\"\n{line}\n");
        assert!(error(&of("file = 1")).contains("unknown field"));
        assert!(error(&of("")).contains("a has no file"));
        assert!(error(&of("sql = [\"absent\"]")).contains("absent"));
        assert!(error(&of("dump = [\"absent\"]")).contains("absent"));
        assert!(error(&of("commands = [[\"pgbench\"], []]")).contains("command of the data set a"));
    }

    #[test]
    fn what_commands_make_is_known_by_them() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("manifest.toml");
        let hash = |scale: u32| {
            let text = format!(
                "[[data_set]]\nname = \"a\"\ncommands = [[\"pgbench\", \"-i\", \"-s{scale}\"]]\n"
            );
            fs::write(&path, text).unwrap();
            manifest(&path).unwrap()[0].blake3().to_owned()
        };
        assert_ne!(hash(1), hash(2));
    }
}
