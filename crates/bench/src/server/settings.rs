//! What a throw-away server is told.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// How a cluster is made, and its postgresql.conf.
///
/// What is not set here is PostgreSQL's default, but for the sizes that no server keeps in
/// earnest. Whether it is durable (`fsync`) is always said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `initdb --wal-segsize`.
    pub segment_megabytes: u32,
    /// `initdb --data-checksums`.
    pub checksums: bool,
    /// postgresql.conf.
    pub parameters: BTreeMap<String, String>,
    /// What the server and the page cache that it fills may take together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
}

impl Settings {
    /// A server whose data matters: it waits for the disk as a real one does.
    pub fn durable() -> Settings {
        Settings {
            segment_megabytes: 16,
            checksums: false,
            parameters: BTreeMap::new(),
            memory_limit_bytes: None,
        }
        .set("fsync", "on")
        .set("listen_addresses", "")
    }

    /// A server that never waits for the disk: the same bytes, sooner.
    pub fn volatile() -> Settings {
        Settings::durable().set("fsync", "off")
    }

    /// A server whose WAL is measured: it keeps all of it, in small segments for a quick look, and
    /// has these further parameters.
    pub(crate) fn of_measured(
        fsync: bool,
        quick: bool,
        parameters: &[(String, String)],
    ) -> Settings {
        let settings = match fsync {
            true => Settings::durable(),
            false => Settings::volatile(),
        };
        let megabytes = if quick { 1 } else { 16 };
        let settings = settings.segment_megabytes(megabytes).keep_all_wal();
        let parameters = parameters.iter();
        parameters.fold(settings, |settings, (name, value)| {
            settings.set(name, value)
        })
    }

    /// Sets a parameter of postgresql.conf.
    pub fn set(mut self, name: &str, value: impl ToString) -> Settings {
        self.parameters.insert(name.to_owned(), value.to_string());
        self
    }

    /// Sets the size of WAL segments.
    pub fn segment_megabytes(mut self, megabytes: u32) -> Settings {
        self.segment_megabytes = megabytes;
        self
    }

    /// Sums up every page, as more and more clusters do.
    pub fn checksums(mut self, checksums: bool) -> Settings {
        self.checksums = checksums;
        self
    }

    /// Limits the server and the page cache that it fills together.
    pub fn memory_limit(mut self, bytes: u64) -> Settings {
        self.memory_limit_bytes = Some(bytes);
        self
    }

    /// Keeps every segment, so that all of the WAL can be looked at afterwards.
    pub fn keep_all_wal(self) -> Settings {
        self.set("wal_keep_size", "1000GB")
    }

    /// In one line, for a person.
    pub fn line(&self) -> String {
        let mut words = vec![format!("{} MB segments", self.segment_megabytes)];
        if self.checksums {
            words.push("data checksums".to_owned());
        }
        let parameters = self
            .parameters
            .iter()
            .filter(|(_, value)| !value.is_empty());
        words.extend(parameters.map(|(name, value)| format!("{name} = {value}")));
        words.join(", ")
    }

    /// postgresql.conf.
    pub(super) fn file(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.parameters {
            let value = value.replace('\'', "''");
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} = '{value}'");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_is_a_quoted_line_and_said_once() {
        let settings = Settings::volatile()
            .set("work_mem", "4MB")
            .set("application_name", "it's");
        assert_eq!(
            settings.file(),
            "application_name = 'it''s'\nfsync = 'off'\nlisten_addresses = ''\nwork_mem = '4MB'\n"
        );
    }
}
