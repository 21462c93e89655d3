//! Names of databases and tablespaces, which need not be text.

use super::connection::{Connection, Row};
use super::error::ServerError;

/// What a server answers that cannot say a name in UTF-8: `character_not_in_repertoire` and
/// `untranslatable_character`.
const NOT_IN_UTF8: [&str; 2] = ["22021", "22P05"];

impl Connection {
    /// Runs a query that changes nothing, and whose rows have names of the whole cluster.
    ///
    /// Such a name has the bytes of the encoding of the database in which it was given. The server takes them for those
    /// of the database that we are connected to, and converts them: what it cannot convert ends the query. Then the
    /// names are asked for as they are, and of bytes that are not UTF-8 each one becomes a replacement character.
    pub(crate) async fn query_names(&mut self, query: &str) -> Result<Vec<Row>, ServerError> {
        match self.query(query).await {
            Err(error) if is_not_in_utf8(&error) => tracing::debug!("{error}"),
            answered => return answered,
        }
        self.query("SET client_encoding TO 'SQL_ASCII'").await?;
        let rows = self.query(query).await;
        self.query("RESET client_encoding").await?;
        rows
    }
}

fn is_not_in_utf8(error: &ServerError) -> bool {
    let state = error.sqlstate();
    state.is_some_and(|state| NOT_IN_UTF8.contains(&state))
}
