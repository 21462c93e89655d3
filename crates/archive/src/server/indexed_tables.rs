//! Which indexes of a server can be told from the rows of their tables, and how: as its catalogs say.
//!
//! What the catalogs say may be otherwise a moment later. It only decides how small a backup becomes:
//! what does not follow from the rows is coded otherwise.

use std::collections::BTreeMap;
use std::time::Duration;

use walzip_codec::table::{Attribute, KeyAttribute, Order, TableShape};

use crate::server::replication::{Connection, ConnectionSettings, Mode, ServerError};

/// A table whose indexes are told from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexedTable {
    /// The first file of the table, by its name in the manifest.
    pub(crate) file: String,
    /// The first files of its indexes, in the order of the shape.
    pub(crate) indexes: Vec<String>,
    pub(crate) shape: TableShape,
}

/// Smaller files are not worth it, and share bytes with others. Those that are larger have more than
/// one file.
pub(crate) const BYTES_MIN: u64 = 1 << 20;
const BYTES_MAX: u64 = 1 << 30;

/// So long a database may take to say which indexes it has.
const ANSWER_MAX: Duration = Duration::from_secs(90);

/// Columns of types that are ordered as numbers, by their OIDs (catalog/pg_type.dat).
const SIGNED: [u32; 8] = [20, 21, 23, 790, 1082, 1083, 1114, 1184];
/// Booleans, single characters, OIDs.
const UNSIGNED: [u32; 3] = [16, 18, 26];
const FLOATS: [u32; 2] = [700, 701];
const NUMERIC: u32 = 1700;
/// bytea and uuid.
const BYTES: [u32; 2] = [17, 2950];
/// text, bpchar and varchar, which have collations.
const TEXTS: [u32; 3] = [25, 1042, 1043];

/// `INDOPTION_DESC` and `INDOPTION_NULLS_FIRST`.
const DESCENDING: u16 = 1;
const NULLS_FIRST: u16 = 2;

/// Names are those of the catalogs alone, whatever the database's owner has set; and nobody who holds a
/// lock on those holds up a backup.
const SESSION: &str = "SELECT pg_catalog.set_config('search_path', '', false), \
    pg_catalog.set_config('lock_timeout', '2s', false), \
    pg_catalog.set_config('statement_timeout', '60s', false)";

/// The indexes, with the attributes of their tables. Those of expressions, of parts of the rows, and of
/// columns whose order an operator class changes are left out. "C" and "POSIX" compare bytes, and so do
/// the locales of libc's C.UTF-8 and of the builtin provider.
fn query(major: u32) -> String {
    let database_locale = match major {
        ..15 => "SELECT datcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8') FROM pg_database",
        15..17 => {
            "SELECT datlocprovider = 'c' AND datcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8') FROM \
             pg_database"
        }
        _ => {
            "SELECT datlocprovider = 'b' OR datlocprovider = 'c' AND datcollate IN ('C', 'POSIX', \
             'C.UTF-8', 'C.utf8') FROM pg_database"
        }
    };
    format!(
        "SELECT pg_relation_filepath(t.oid), pg_relation_filepath(c.oid), i.indkey::text, \
         i.indoption::text, (SELECT string_agg(concat_ws(' ', a.attlen, a.attalign, \
         a.attnotnull::int), ',' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = t.oid AND \
         a.attnum > 0), (SELECT string_agg(concat_ws(' ', CASE y.typtype WHEN 'd' THEN \
         y.typbasetype ELSE y.oid END, (i.indcollation[a.attnum - 1] IN \
         (0, 950, 951) OR i.indcollation[a.attnum - 1] = 100 AND ({database_locale} WHERE datname = \
         current_database()))::int, (SELECT o.opcdefault::int FROM pg_opclass o WHERE o.oid = \
         i.indclass[a.attnum - 1]), y.typtype), ',' ORDER BY a.attnum) FROM pg_attribute a JOIN pg_type y \
         ON y.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0) \
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid \
         JOIN pg_am m ON m.oid = c.relam \
         WHERE m.amname = 'btree' AND c.relkind = 'i' AND t.relkind IN ('r', 'm') AND \
         t.relpersistence = 'p' AND i.indexprs IS NULL AND i.indpred IS NULL AND \
         pg_relation_size(c.oid) > {BYTES_MIN} AND pg_relation_size(t.oid) > {BYTES_MIN} AND \
         pg_relation_size(t.oid) <= {BYTES_MAX} AND pg_relation_size(c.oid) <= {BYTES_MAX} \
         ORDER BY t.oid, c.oid"
    )
}

/// Those of all databases that can be asked. A database that cannot is passed over.
pub(crate) async fn find(
    settings: &ConnectionSettings,
    databases: &BTreeMap<u32, String>,
) -> Vec<IndexedTable> {
    let mut found = Vec::new();
    for name in databases.values() {
        let tables = tokio::time::timeout(ANSWER_MAX, of_database(settings, name));
        let reason = match tables.await {
            Ok(Ok(tables)) => {
                found.extend(tables);
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not answer".to_owned(),
        };
        tracing::info!("the indexes of database \"{name}\" are stored by themselves: {reason}");
    }
    found
}

async fn of_database(
    settings: &ConnectionSettings,
    name: &str,
) -> Result<Vec<IndexedTable>, ServerError> {
    let settings = ConnectionSettings {
        dbname: Some(name.to_owned()),
        ..settings.clone()
    };
    let mut sql = Connection::open(&settings, Mode::Sql).await?;
    sql.query(SESSION).await?;
    let rows = sql.query(&query(sql.major()?)).await;
    sql.close().await;
    let mut tables: Vec<IndexedTable> = Vec::new();
    for row in rows? {
        let row: Option<Vec<String>> = row.into_iter().collect();
        if let Some(index) = row.as_deref().and_then(Found::read) {
            index.include(&mut tables);
        }
    }
    Ok(tables)
}

/// An index.
struct Found {
    table: String,
    file: String,
    attributes: Vec<Option<Attribute>>,
    key: Vec<KeyAttribute>,
}

impl Found {
    fn read(row: &[String]) -> Option<Found> {
        let [table, file, numbers, options, attributes, columns] = row else {
            return None;
        };
        let attributes: Vec<Vec<&str>> = fields(attributes);
        let columns: Vec<Vec<&str>> = fields(columns);
        let options: Vec<u16> = options
            .split(' ')
            .filter_map(|option| option.parse().ok())
            .collect();
        let stored = attributes.iter().map(|fields| stored(fields)).collect();
        let key = numbers
            .split(' ')
            .zip(&columns)
            .enumerate()
            .map(|(at, (number, column))| {
                let attribute = number.parse::<u16>().ok()?.checked_sub(1)?;
                let of_table = attributes.get(usize::from(attribute))?;
                let option = options.get(at).copied().unwrap_or_default();
                let order = match options.get(at) {
                    Some(_) => order(column),
                    // It is included only.
                    None => Order::Unknown,
                };
                Some(KeyAttribute {
                    attribute,
                    order,
                    descending: option & DESCENDING != 0,
                    nullable: of_table.get(2) != Some(&"1"),
                    nulls_first: option & NULLS_FIRST != 0,
                })
            });
        Some(Found {
            table: table.clone(),
            file: file.clone(),
            attributes: stored,
            key: key.collect::<Option<_>>()?,
        })
    }

    /// Adds it to the indexes of its table, if that can have it.
    fn include(self, tables: &mut Vec<IndexedTable>) {
        if tables.last().is_none_or(|last| last.file != self.table) {
            tables.push(IndexedTable {
                file: self.table,
                indexes: Vec::new(),
                shape: TableShape::default(),
            });
        }
        let Some(table) = tables.last_mut() else {
            return;
        };
        let needed = self
            .key
            .iter()
            .map(|key| usize::from(key.attribute) + 1)
            .max();
        let needed = needed.unwrap_or(0).max(table.shape.attributes.len());
        let attributes: Option<Vec<Attribute>> = self.attributes.into_iter().take(needed).collect();
        let mut shape = table.shape.clone();
        let Some(attributes) = attributes else {
            return;
        };
        // An index stores a name without the zeros at its end.
        let is_name = |key: &KeyAttribute| {
            let attribute = attributes.get(usize::from(key.attribute));
            attribute == Some(&Attribute::Name)
        };
        if self.key.iter().any(is_name) {
            return;
        }
        shape.attributes = attributes;
        shape.indexes.push(self.key);
        if shape.is_valid() {
            table.shape = shape;
            table.indexes.push(self.file);
        }
    }
}

fn fields(text: &str) -> Vec<Vec<&str>> {
    text.split(',')
        .map(|fields| fields.split(' ').collect())
        .collect()
}

/// How values of `attlen` and `attalign` are stored.
fn stored(fields: &[&str]) -> Option<Attribute> {
    Some(match (*fields.first()?, *fields.get(1)?) {
        ("-1", "i") => Attribute::Varlena,
        ("1", "c") => Attribute::Fixed1,
        ("2", "s") => Attribute::Fixed2,
        ("4", "i") => Attribute::Fixed4,
        ("8", "d") => Attribute::Fixed8,
        ("16", "c") => Attribute::Uuid,
        ("16", "d") => Attribute::Fixed16,
        ("64", "c") => Attribute::Name,
        _ => return None,
    })
}

/// How a column of a type is ordered, if its collation compares bytes and its operator class is the
/// type's own.
fn order(column: &[&str]) -> Order {
    let [oid, compares_bytes, is_default, kind] = column else {
        return Order::Unknown;
    };
    let oid = oid.parse().unwrap_or(0);
    match oid {
        _ if *is_default != "1" => Order::Unknown,
        // An enum is ordered as its OIDs are, unless values were added between others.
        _ if *kind == "e" => Order::Unsigned,
        _ if SIGNED.contains(&oid) => Order::Signed,
        _ if UNSIGNED.contains(&oid) => Order::Unsigned,
        _ if FLOATS.contains(&oid) => Order::Float,
        _ if BYTES.contains(&oid) => Order::Bytes,
        _ if TEXTS.contains(&oid) && *compares_bytes == "1" => Order::Bytes,
        NUMERIC => Order::Numeric,
        _ => Order::Unknown,
    }
}
