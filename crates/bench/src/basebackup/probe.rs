//! Whether the servers that are named can be backed up: asked before anything is measured.

use std::process::Stdio;

use super::data_sets::Source;
use super::options::Options;
use crate::error::Error;
use crate::process::{self, Failure, Surroundings};
use crate::server::Installation;

/// How long a server may take to answer.
const TIMEOUT_SECONDS: &str = "10";

/// Connects to each running server as pg_basebackup does.
pub(super) fn probe(
    options: &Options,
    installation: &Installation,
    surroundings: Surroundings<'_>,
) -> Result<(), Error> {
    for (number, source) in options.sources().iter().enumerate() {
        let Source::Running(connection) = source else {
            continue;
        };
        let for_replication = for_replication(connection);
        let mut command = process::command(&installation.program("psql")?, surroundings);
        command
            .envs(options.connection_environment.iter().cloned())
            .env("PGCONNECT_TIMEOUT", TIMEOUT_SECONDS)
            .args(["--no-psqlrc", "--command", "IDENTIFY_SYSTEM", "--dbname"])
            .arg(&for_replication)
            .stdout(Stdio::null());
        process::measure(command, surroundings).map_err(|failure| match failure {
            Failure::Cancelled => Error::Interrupted,
            failure => Error::Server {
                doing: format!("connect to {} for a backup", source.name(number)),
                reason: failure
                    .to_string()
                    .replace(&for_replication, "...")
                    .replace(connection, "..."),
            },
        })?;
    }
    Ok(())
}

/// A connection string that asks for what takes backups, whatever databases there are.
fn for_replication(connection: &str) -> String {
    let is_url = ["postgresql://", "postgres://"]
        .iter()
        .any(|scheme| connection.starts_with(scheme));
    match (is_url, connection.contains('?')) {
        (true, true) => format!("{connection}&replication=true"),
        (true, false) => format!("{connection}?replication=true"),
        (false, _) => format!("{connection} replication=true"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_connection_string_asks_for_replication() {
        for (connection, expected) in [
            ("host=db1 user=b", "host=db1 user=b replication=true"),
            ("postgresql://db1", "postgresql://db1?replication=true"),
            (
                "postgres://db1/x?sslmode=require",
                "postgres://db1/x?sslmode=require&replication=true",
            ),
        ] {
            assert_eq!(for_replication(connection), expected);
        }
    }
}
