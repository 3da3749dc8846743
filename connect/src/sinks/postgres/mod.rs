//! PostgreSQL: rows and identities in one transaction.

mod error;
mod schema;
mod state;

use std::collections::VecDeque;
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::{SinkExt as _, pin_mut};
use tautwire_contracts::Contract;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::SinkError;
use crate::config::{SinkConfig, SinkKind};
use crate::mapping::RowInput;
use crate::runtime::{IDENTITIES_MAX, Identity, Record};
use crate::tls;
use error::{explain, transient};
use schema::Table;
use state::BatchId;

/// Bytes of a message of COPY.
const COPY_CHUNK_BYTES: usize = 256 << 10;

/// A table as a target.
pub(crate) struct Postgres {
    client_id: String,
    server: tokio_postgres::Config,
    ca_file: Option<PathBuf>,
    table: Table,
    connection: Option<Client>,
    /// The number of this instance: it increases with each start. 0 before the first one.
    epoch: i64,
    /// The number of the last batch that was begun in this epoch.
    batch: i64,
    /// The last COMMIT had no answer.
    is_in_doubt: bool,
    /// The next batch is the first of a new session.
    is_new_session: bool,
    /// Stored batches, with their numbers of identities, oldest first.
    stored: VecDeque<(BatchId, u64)>,
    stored_identities: u64,
}

impl Postgres {
    /// # Errors
    /// The address is invalid.
    pub(super) fn new(config: &SinkConfig) -> Result<Postgres, String> {
        let SinkKind::Postgresql { url, password, ca_file, table, mapping } = &config.kind else {
            return Err("not a PostgreSQL sink [bug]".into());
        };
        let invalid = |error| format!("sink {}: the url is invalid: {error} [config_value]", config.name);
        let mut server: tokio_postgres::Config = url.parse().map_err(invalid)?;
        if let Some(password) = password {
            server.password(password);
        }
        server.application_name(&config.client_id);
        // Locks of an instance that is cut off must not stop its successor for ever.
        server.options(
            "-c idle_in_transaction_session_timeout=60000 -c tcp_keepalives_idle=15 -c tcp_keepalives_interval=5",
        );
        Ok(Postgres {
            client_id: config.client_id.clone(),
            server,
            ca_file: ca_file.clone(),
            table: Table::new(table, mapping),
            connection: None,
            epoch: 0,
            batch: 0,
            is_in_doubt: false,
            is_new_session: false,
            stored: VecDeque::new(),
            stored_identities: 0,
        })
    }

    pub(super) async fn check(&mut self) -> Result<Vec<String>, SinkError> {
        let client = self.connect().await?;
        self.table.changes(&client).await
    }

    pub(super) async fn open(&mut self) -> Result<Vec<Identity>, SinkError> {
        let mut client = self.connect().await?;
        for change in self.table.changes(&client).await? {
            log::info!(client_id = self.client_id, change; "changing the table");
            client.batch_execute(&change).await.map_err(|error| transient(&error))?;
        }
        self.table.prepare(&client).await?;
        let (epoch, batches) = state::take_over(&mut client, &self.client_id).await?;
        self.epoch = epoch;
        let mut identities = Vec::new();
        for (id, bytes) in batches {
            self.remember(id, (bytes.len() / Identity::LEN) as u64);
            identities.extend(Identity::decode_all(&bytes));
        }
        self.connection = Some(client);
        Ok(identities)
    }

    pub(super) fn begin_session(&mut self) {
        self.is_new_session = true;
    }

    pub(super) fn encode(&self, contract: Option<&Contract>, record: &mut Record) -> Result<(), String> {
        let message = &record.message;
        let input = RowInput {
            topic: message.topic(),
            content_type: message.properties().content_type(),
            payload: message.payload(),
            received_at: record.received_at,
        };
        let mut row = Vec::new();
        self.table.mapping().push_row(contract, &input, &mut row)?;
        record.encoded = row;
        Ok(())
    }

    pub(super) async fn write(&mut self, records: &[Record]) -> Result<(), SinkError> {
        if self.connection.is_none() {
            let client = self.connect().await?;
            self.table.prepare(&client).await?;
            self.connection = Some(client);
        }
        let Some(client) = &mut self.connection else { return Ok(()) };
        if self.is_in_doubt && state::is_stored(client, &self.client_id, (self.epoch, self.batch)).await? {
            self.finish(records);
            return Ok(());
        }
        if !self.is_in_doubt {
            self.batch += 1;
        }
        self.is_in_doubt = true;
        match self.transaction(records).await {
            Ok(()) => self.finish(records),
            Err(error) => {
                // The server has answered: nothing was committed.
                self.is_in_doubt = matches!(error, SinkError::Transient(_));
                if self.is_in_doubt {
                    self.connection = None;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// One transaction: identities, rows.
    async fn transaction(&mut self, records: &[Record]) -> Result<(), SinkError> {
        let Some(client) = &mut self.connection else { return Err(SinkError::Transient("not connected".into())) };
        let mut identities = Vec::with_capacity(records.len() * Identity::LEN);
        records.iter().filter_map(|record| record.identity).for_each(|identity| identity.encode(&mut identities));
        // Identities of an earlier session are void, so none is kept.
        let oldest = self.stored.front().map_or((0, 0), |(id, _)| *id);
        let keep_from = if self.is_new_session { (self.epoch, self.batch) } else { oldest };
        let transaction = client.transaction().await.map_err(|error| transient(&error))?;
        let id = (self.epoch, self.batch);
        state::store(&transaction, &self.client_id, id, &identities, keep_from).await?;
        copy(&transaction, &self.table, records).await?;
        if let Some(merge) = self.table.merge() {
            transaction.batch_execute(merge).await.map_err(|error| explain(&error))?;
        }
        transaction.commit().await.map_err(|error| explain(&error))
    }

    /// The batch is stored.
    fn finish(&mut self, records: &[Record]) {
        self.is_in_doubt = false;
        if std::mem::take(&mut self.is_new_session) {
            self.stored.clear();
            self.stored_identities = 0;
        }
        let identities = records.iter().filter(|record| record.identity.is_some()).count();
        self.remember((self.epoch, self.batch), identities as u64);
    }

    fn remember(&mut self, id: BatchId, identities: u64) {
        self.stored.push_back((id, identities));
        self.stored_identities += identities;
        while let Some((_, first)) = self.stored.front()
            && self.stored_identities - first >= IDENTITIES_MAX
        {
            self.stored_identities -= first;
            self.stored.pop_front();
        }
    }

    async fn connect(&self) -> Result<Client, SinkError> {
        let unreachable = |error: tokio_postgres::Error| match error.as_db_error() {
            Some(_) => transient(&error),
            None => SinkError::Transient(format!("PostgreSQL is not reachable: {error} [postgresql_unreachable]")),
        };
        if self.server.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = self.server.connect(NoTls).await.map_err(unreachable)?;
            tokio::spawn(connection);
            return Ok(client);
        }
        let tls = tls::client_config(self.ca_file.as_deref()).map_err(SinkError::Fatal)?;
        let (client, connection) = self.server.connect(MakeRustlsConnect::new(tls)).await.map_err(unreachable)?;
        // It ends with the client; its error is that of the pending call.
        tokio::spawn(connection);
        Ok(client)
    }
}

async fn copy(
    transaction: &tokio_postgres::Transaction<'_>,
    table: &Table,
    records: &[Record],
) -> Result<(), SinkError> {
    let sink = transaction.copy_in::<_, Bytes>(table.copy()).await.map_err(|error| explain(&error))?;
    pin_mut!(sink);
    let mut chunk = Vec::with_capacity(COPY_CHUNK_BYTES);
    for (at, record) in records.iter().enumerate() {
        if table.merge().is_some() {
            // The staging table has the order of the messages.
            chunk.extend(at.to_string().as_bytes());
            chunk.push(b'\t');
        }
        chunk.extend(&record.encoded);
        chunk.push(b'\n');
        if chunk.len() >= COPY_CHUNK_BYTES {
            sink.feed(std::mem::take(&mut chunk).into()).await.map_err(|error| explain(&error))?;
        }
    }
    sink.feed(chunk.into()).await.map_err(|error| explain(&error))?;
    sink.finish().await.map(|_| ()).map_err(|error| explain(&error))
}
