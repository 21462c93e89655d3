//! What a server calls the relations that WAL knows by numbers.

use std::collections::HashMap;

use tracing::warn;
use walzip_archive::replication::{Connection, ConnectionSettings, Mode, Row};
use walzip_bench::contents::Relation;
use walzip_pgformat::SystemId;

use crate::error::CommandError;
use crate::inspection::Inspection;
use crate::system_identifier::system_identifier;

/// The other databases that can be connected to. A session in a template would be in the way of
/// CREATE DATABASE.
const OTHER_DATABASES: &str = "SELECT datname FROM pg_database \
    WHERE datallowconn AND NOT datistemplate AND datname <> current_database() ORDER BY datname";

/// What a database calls its relations, by the numbers of their files today. Shared ones are of all.
const NAMES: &str = "SELECT \
        CASE WHEN c.reltablespace = 0 THEN d.dattablespace ELSE c.reltablespace END, \
        CASE WHEN c.relisshared THEN 0 ELSE d.oid END, \
        pg_relation_filenode(c.oid), \
        CASE WHEN c.relisshared THEN '' ELSE quote_ident(d.datname) || '.' END || \
            quote_ident(n.nspname) || '.' || quote_ident(c.relname) \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_database d \
    WHERE d.datname = current_database() AND pg_relation_filenode(c.oid) IS NOT NULL";

/// What a server calls its relations, and which cluster it is, where the role may know that.
pub(super) struct Named {
    system: Option<SystemId>,
    relations: HashMap<Relation, String>,
}

impl Named {
    /// Names the relations, unless a segment is of another cluster: its numbers mean others.
    pub(super) fn name(self, inspection: &mut Inspection) {
        let system = self.system.map(|system| system.to_string());
        let is_foreign = |of: &&str| system.as_ref().is_some_and(|system| system != of);
        let foreign = inspection.systems().find(is_foreign).map(str::to_owned);
        match foreign {
            Some(foreign) => warn!(
                "the relations have no names: the system identifier of the server is {}, and that \
                 of a segment is {foreign}",
                system.as_deref().unwrap_or_default()
            ),
            None => inspection.name_relations(self.relations),
        }
    }
}

/// Asks every database of a server, which is only read. What cannot be asked is said and left
/// without names.
pub(super) async fn names(settings: &ConnectionSettings) -> Result<Named, CommandError> {
    let mut first = open(settings).await?;
    let system = system_identifier(&mut first).await?;
    let databases = first.query(OTHER_DATABASES).await?;
    let mut relations = named(first.query(NAMES).await?);
    first.close().await;
    let databases = databases
        .into_iter()
        .filter_map(|row| row.into_iter().next()?);
    for database in databases {
        let settings = ConnectionSettings {
            dbname: Some(database.clone()),
            ..settings.clone()
        };
        match of_database(&settings).await {
            Ok(of_database) => relations.extend(of_database),
            Err(error) => warn!(
                "the relations of database {database} have no names: {}",
                error.message()
            ),
        }
    }
    Ok(Named { system, relations })
}

async fn of_database(
    settings: &ConnectionSettings,
) -> Result<HashMap<Relation, String>, CommandError> {
    let mut sql = open(settings).await?;
    let rows = sql.query(NAMES).await?;
    sql.close().await;
    Ok(named(rows))
}

async fn open(settings: &ConnectionSettings) -> Result<Connection, CommandError> {
    let mut sql = Connection::open(settings, Mode::Sql).await?;
    sql.query("SET default_transaction_read_only = on").await?;
    Ok(sql)
}

fn named(rows: Vec<Row>) -> HashMap<Relation, String> {
    let named = rows.into_iter().filter_map(|row| {
        let mut cells = row.into_iter();
        let mut number = || cells.next()??.parse::<u32>().ok();
        let relation = Relation {
            tablespace: number()?,
            database: number()?,
            relation: number()?,
        };
        Some((relation, cells.next()??))
    });
    named.collect()
}
