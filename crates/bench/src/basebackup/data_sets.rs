//! What is backed up: generated data, downloaded data, or a server of the user's own.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::measurement::DataSet;
use crate::server::Server;
use crate::workload::Workload;
use crate::{Error, input};

/// What a generated data set follows from.
const SEED: u64 = 1;

/// A data set.
#[derive(Clone, Debug)]
pub enum Source {
    /// Made by this program.
    Generated(Workload, u32),
    /// Files that the user has downloaded.
    Downloaded(Downloaded),
    /// A running server, by a connection string; it is only read.
    Running(String),
}

/// One data set of a manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Downloaded {
    /// Its name in tables.
    pub name: String,
    /// Files of statements for psql that come first.
    #[serde(default)]
    pub sql: Vec<PathBuf>,
    /// Files of rows.
    #[serde(default)]
    pub csv: Vec<Rows>,
    /// Files of statements that come last, such as those that make indexes.
    #[serde(default)]
    pub then_sql: Vec<PathBuf>,
    /// The hash of the hashes of the files.
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
    let mut data_sets = manifest.data_set;
    for data_set in &mut data_sets {
        let csv = data_set.csv.iter_mut().map(|rows| &mut rows.file);
        let files = data_set
            .sql
            .iter_mut()
            .chain(csv)
            .chain(&mut data_set.then_sql);
        let mut hasher = blake3::Hasher::new();
        for file in files {
            let absolute = directory.join(&file);
            *file = absolute
                .canonicalize()
                .map_err(|source| Error::file(&absolute, source))?;
            let hash = input::hash(file).map_err(|source| Error::file(file, source))?;
            hasher.update(hash.as_bytes());
        }
        if hasher.count() == 0 {
            return Err(wrong(format!("the data set {} has no file", data_set.name)));
        }
        data_set.blake3 = hasher.finalize().to_string();
    }
    Ok(data_sets)
}

impl Source {
    /// As the results have it, before anything is known of it.
    pub(super) fn data_set(&self, number: usize) -> DataSet {
        DataSet {
            name: self.name(number),
            origin: self.origin(),
            bytes: None,
        }
    }

    /// Whether it is the same another time.
    pub(super) fn is_lasting(&self) -> bool {
        !matches!(self, Source::Running(_))
    }

    /// Its name in tables; connection strings are nobody else's business.
    pub(super) fn name(&self, number: usize) -> String {
        match self {
            Source::Generated(workload, _) => workload.name().to_owned(),
            Source::Downloaded(downloaded) => downloaded.name.clone(),
            Source::Running(_) => format!("server {}", number + 1),
        }
    }

    /// Where the data come from.
    pub(super) fn origin(&self) -> String {
        match self {
            Source::Generated(_, scale) => format!("generated, scale {scale}, seed {SEED}"),
            Source::Downloaded(downloaded) => {
                format!("loaded from files, BLAKE3 {}", downloaded.blake3)
            }
            Source::Running(_) => "a running server, only read".to_owned(),
        }
    }

    /// Fills a throw-away server's database.
    pub(super) fn load(&self, server: &Server) -> Result<(), Error> {
        match self {
            Source::Generated(workload, scale) => {
                workload.load(server, *scale, SEED)?;
            }
            Source::Downloaded(downloaded) => downloaded.load(server)?,
            Source::Running(_) => {}
        }
        server.sql("CHECKPOINT")?;
        Ok(())
    }
}

impl Downloaded {
    fn load(&self, server: &Server) -> Result<(), Error> {
        for file in &self.sql {
            server.sql_file(file)?;
        }
        for rows in &self.csv {
            server.sql(&rows.statement())?;
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
        assert!(error("[[data_set]]\nname = \"a\"\nfile = 1\n").contains("unknown field"));
        assert!(error("[[data_set]]\nname = \"a\"\n").contains("a has no file"));
        assert!(error("[[data_set]]\nname = \"a\"\nsql = [\"absent\"]\n").contains("absent"));
    }
}
