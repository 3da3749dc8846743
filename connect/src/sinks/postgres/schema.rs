//! The table of a sink: created, extended, never otherwise changed.

use tokio_postgres::Client;

use super::error::transient;
use crate::mapping::{Column, Mapping};
use crate::sinks::SinkError;

/// The table that rows are staged in if the target has a key.
const STAGE: &str = "tautwire_connect_stage";

/// A table with its statements.
#[derive(Debug)]
pub(super) struct Table {
    /// Quoted, with its schema.
    name: String,
    columns: Vec<Column>,
    key: Vec<String>,
    mapping: std::sync::Arc<Mapping>,
    copy: String,
    merge: Option<String>,
}

/// A column that the table has.
struct Existing {
    name: String,
    sql_type: String,
    is_required: bool,
}

/// A quoted identifier.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A quoted table name, with its schema if it has one.
fn table_name(name: &str) -> String {
    name.split('.').map(identifier).collect::<Vec<_>>().join(".")
}

fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(identifier).collect::<Vec<_>>().join(", ")
}

impl Table {
    pub(super) fn new(name: &str, mapping: &std::sync::Arc<Mapping>) -> Table {
        let name = table_name(name);
        let (columns, key) = (mapping.columns.clone(), mapping.key.clone());
        let names = list(columns.iter().map(|column| &*column.name));
        let copy = match key[..] {
            [] => format!("COPY {name} ({names}) FROM STDIN"),
            _ => format!("COPY {STAGE} (tautwire_order, {names}) FROM STDIN"),
        };
        let merge = (!key.is_empty()).then(|| merge(&name, &names, &columns, &key));
        Table { name, columns, key, mapping: mapping.clone(), copy, merge }
    }

    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The statement that rows follow.
    pub(super) fn copy(&self) -> &str {
        &self.copy
    }

    /// The statement that moves staged rows, if there is a key.
    pub(super) fn merge(&self) -> Option<&str> {
        self.merge.as_deref()
    }

    /// The statements that give the table the columns of the contract.
    ///
    /// # Errors
    /// The table differs in a way that cannot be repaired by adding columns.
    pub(super) async fn changes(&self, client: &Client) -> Result<Vec<String>, SinkError> {
        let existing = self.existing(client).await?;
        if existing.is_empty() {
            return Ok(vec![self.create()]);
        }
        let mut added = Vec::new();
        for column in &self.columns {
            let (name, sql_type) = (&column.name, column.kind.sql());
            match existing.iter().find(|known| known.name == *name) {
                None => added.push(format!("ADD COLUMN IF NOT EXISTS {} {sql_type}", identifier(name))),
                Some(known) if known.sql_type == sql_type => {}
                Some(known) => {
                    return Err(
                        self.mismatch(name, &format!("is {}, and the configuration needs {sql_type}", known.sql_type))
                    );
                }
            }
        }
        let is_unknown = |known: &&Existing| !self.columns.iter().any(|column| column.name == known.name);
        if let Some(known) = existing.iter().filter(is_unknown).find(|known| known.is_required) {
            return Err(
                self.mismatch(&known.name, "is NOT NULL without a default, and the configuration does not have it")
            );
        }
        if !self.key.is_empty() && !self.has_unique_index(client).await? {
            let text = format!(
                "the table {} has no unique index on the key {} [postgresql_table]",
                self.name,
                self.key.join(", ")
            );
            return Err(SinkError::Fatal(text));
        }
        Ok(if added.is_empty() { Vec::new() } else { vec![format!("ALTER TABLE {} {}", self.name, added.join(", "))] })
    }

    /// Prepares a connection.
    ///
    /// # Errors
    /// The connection has failed.
    pub(super) async fn prepare(&self, client: &Client) -> Result<(), SinkError> {
        if self.merge.is_none() {
            return Ok(());
        }
        let names = list(self.columns.iter().map(|column| &*column.name));
        let stage = format!(
            "CREATE TEMPORARY TABLE {STAGE} ON COMMIT DELETE ROWS AS SELECT 0 AS tautwire_order, {names} FROM {} WITH NO DATA",
            self.name
        );
        client.batch_execute(&stage).await.map_err(|error| transient(&error))
    }

    fn create(&self) -> String {
        let mut columns: Vec<String> =
            self.columns.iter().map(|column| format!("{} {}", identifier(&column.name), column.kind.sql())).collect();
        if !self.key.is_empty() {
            columns.push(format!("PRIMARY KEY ({})", list(self.key.iter().map(String::as_str))));
        }
        format!("CREATE TABLE IF NOT EXISTS {} ({})", self.name, columns.join(", "))
    }

    fn mismatch(&self, column: &str, difference: &str) -> SinkError {
        SinkError::Fatal(format!(
            "the column {column} of the table {} {difference}; change the table, or use another one [postgresql_table]",
            self.name
        ))
    }

    async fn existing(&self, client: &Client) -> Result<Vec<Existing>, SinkError> {
        let query = "SELECT attname::text, format_type(atttypid, atttypmod), \
                            attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = '' \
                     FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped";
        let rows = client.query(query, &[&self.name]).await.map_err(|error| transient(&error))?;
        let column =
            |row: &tokio_postgres::Row| Existing { name: row.get(0), sql_type: row.get(1), is_required: row.get(2) };
        Ok(rows.iter().map(column).collect())
    }

    async fn has_unique_index(&self, client: &Client) -> Result<bool, SinkError> {
        let query = "SELECT 1 FROM pg_index WHERE indrelid = to_regclass($1) AND indisunique AND indpred IS NULL AND indexprs IS NULL \
                     AND (SELECT array_agg(attname::text ORDER BY attname::text) FROM pg_attribute \
                          WHERE attrelid = indrelid AND attnum = ANY (indkey)) = $2";
        let mut key = self.key.clone();
        key.sort_unstable();
        let row = client.query(query, &[&self.name, &key]).await.map_err(|error| transient(&error))?;
        Ok(!row.is_empty())
    }
}

/// Of several messages with one key, the last one stays.
fn merge(name: &str, names: &str, columns: &[Column], key: &[String]) -> String {
    let key_names = list(key.iter().map(String::as_str));
    let others = columns.iter().map(|column| &*column.name).filter(|name| !key.iter().any(|key| key == name));
    let updates: Vec<String> = others.map(identifier).map(|name| format!("{name} = EXCLUDED.{name}")).collect();
    let action = if updates.is_empty() { "NOTHING".to_owned() } else { format!("UPDATE SET {}", updates.join(", ")) };
    format!(
        "INSERT INTO {name} ({names}) SELECT DISTINCT ON ({key_names}) {names} FROM {STAGE} \
         ORDER BY {key_names}, tautwire_order DESC ON CONFLICT ({key_names}) DO {action}"
    )
}
