//! What a sink stores beside its rows: its epoch, and the identities of the last messages.

use tokio_postgres::{Client, Transaction};

use super::error::transient;
use crate::sinks::SinkError;

/// The epoch and the number of a batch.
pub(super) type BatchId = (i64, i64);

/// The tables. `IF NOT EXISTS` alone needs the right to create tables even if they exist.
const TABLES: [(&str, &str); 2] = [
    (
        "tautwire_connect_sinks",
        "CREATE TABLE IF NOT EXISTS tautwire_connect_sinks (client_id text PRIMARY KEY, epoch bigint NOT NULL)",
    ),
    (
        "tautwire_connect_batches",
        "CREATE TABLE IF NOT EXISTS tautwire_connect_batches (client_id text, epoch bigint, batch bigint, identities bytea NOT NULL, \
         PRIMARY KEY (client_id, epoch, batch))",
    ),
];

/// Increments the epoch, so that an earlier instance can no longer commit. Returns the epoch and the stored batches, oldest first.
pub(super) async fn take_over(
    client: &mut Client,
    client_id: &str,
) -> Result<(i64, Vec<(BatchId, Vec<u8>)>), SinkError> {
    let failed = |error: tokio_postgres::Error| transient(&error);
    for (name, create) in TABLES {
        let exists: bool =
            client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&name]).await.map_err(failed)?.get(0);
        if !exists {
            client.batch_execute(create).await.map_err(failed)?;
        }
    }
    let transaction = client.transaction().await.map_err(failed)?;
    let increment = "INSERT INTO tautwire_connect_sinks AS known VALUES ($1, 1) \
                     ON CONFLICT (client_id) DO UPDATE SET epoch = known.epoch + 1 RETURNING epoch";
    let epoch: i64 = transaction.query_one(increment, &[&client_id]).await.map_err(failed)?.get(0);
    // A statement of its own: it sees what the earlier instance committed before the row was locked.
    let read =
        "SELECT epoch, batch, identities FROM tautwire_connect_batches WHERE client_id = $1 ORDER BY epoch, batch";
    let rows = transaction.query(read, &[&client_id]).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok((epoch, rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect()))
}

/// Whether a batch without an answer was committed. Waits until its transaction has ended.
pub(super) async fn is_stored(
    client: &mut Client,
    client_id: &str,
    (epoch, batch): BatchId,
) -> Result<bool, SinkError> {
    let failed = |error: tokio_postgres::Error| transient(&error);
    let transaction = client.transaction().await.map_err(failed)?;
    let lock = "SELECT epoch FROM tautwire_connect_sinks WHERE client_id = $1 FOR UPDATE";
    transaction.query_opt(lock, &[&client_id]).await.map_err(failed)?;
    let find = "SELECT 1 FROM tautwire_connect_batches WHERE client_id = $1 AND epoch = $2 AND batch = $3";
    let found = transaction.query_opt(find, &[&client_id, &epoch, &batch]).await.map_err(failed)?.is_some();
    transaction.commit().await.map_err(failed)?;
    Ok(found)
}

/// Stores the identities of a batch, and deletes those of batches before `keep_from`. The lock of the row excludes other instances until
/// the transaction ends.
pub(super) async fn store(
    transaction: &Transaction<'_>,
    client_id: &str,
    (epoch, batch): BatchId,
    identities: &[u8],
    keep_from: BatchId,
) -> Result<(), SinkError> {
    let insert = "WITH own AS (SELECT 1 FROM tautwire_connect_sinks WHERE client_id = $1 AND epoch = $2 FOR UPDATE), \
                  old AS (DELETE FROM tautwire_connect_batches WHERE client_id = $1 AND (epoch, batch) < ($5, $6)) \
                  INSERT INTO tautwire_connect_batches SELECT $1, $2, $3, $4 FROM own";
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&client_id, &epoch, &batch, &identities, &keep_from.0, &keep_from.1];
    // Not the classes of `explain`: an error here is never about a message.
    let stored = transaction.execute(insert, &parameters).await.map_err(|error| transient(&error))?;
    if stored == 0 {
        let text =
            format!("another instance runs with the client identifier {client_id}; this one ends [connect_superseded]");
        return Err(SinkError::Fatal(text));
    }
    Ok(())
}
