//! The targets of sinks.

mod error;
mod jetstream;
mod kafka;
mod postgres;
mod webhook;

use tautwire_contracts::Contract;

use crate::config::{SinkConfig, SinkKind};
use crate::runtime::{Identity, Record};
pub(crate) use error::SinkError;
use jetstream::JetStream;
use kafka::Kafka;
use postgres::Postgres;
use webhook::Webhook;

/// A target. The calls of a sink follow one another.
pub(crate) enum Sink {
    Postgres(Box<Postgres>),
    JetStream(Box<JetStream>),
    Kafka(Box<Kafka>),
    Webhook(Box<Webhook>),
}

impl Sink {
    /// # Errors
    /// The settings are invalid.
    pub(crate) fn new(config: &SinkConfig) -> Result<Sink, String> {
        let sink = match &config.kind {
            SinkKind::Postgresql { .. } => Sink::Postgres(Box::new(Postgres::new(config)?)),
            SinkKind::Nats { .. } => Sink::JetStream(Box::new(JetStream::new(config)?)),
            SinkKind::Kafka { .. } => Sink::Kafka(Box::new(Kafka::new(config)?)),
            SinkKind::Webhook { .. } => Sink::Webhook(Box::new(Webhook::new(config)?)),
        };
        Ok(sink)
    }

    /// Compares the target with the configuration. Returns the changes that a run makes first.
    ///
    /// # Errors
    /// The target is not reachable, or it differs in a way that a run does not change.
    pub(crate) async fn check(&mut self) -> Result<Vec<String>, SinkError> {
        match self {
            Sink::Postgres(sink) => sink.check().await,
            Sink::JetStream(sink) => sink.check().await.map(|()| Vec::new()),
            Sink::Kafka(sink) => sink.check().await.map(|()| Vec::new()),
            // A request could have an effect.
            Sink::Webhook(_) => Ok(Vec::new()),
        }
    }

    /// Connects, takes over from an earlier instance, and returns the identities of the messages that the target has, oldest first.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub(crate) async fn open(&mut self) -> Result<Vec<Identity>, SinkError> {
        match self {
            Sink::Postgres(sink) => sink.open().await,
            Sink::JetStream(sink) => sink.open().await.map(|()| Vec::new()),
            Sink::Kafka(sink) => sink.open().await,
            Sink::Webhook(_) => Ok(Vec::new()),
        }
    }

    /// The broker has a new session: identities of messages so far are void.
    pub(crate) fn begin_session(&mut self) {
        match self {
            Sink::Postgres(sink) => sink.begin_session(),
            Sink::JetStream(sink) => sink.begin_session(),
            Sink::Kafka(sink) => sink.begin_session(),
            Sink::Webhook(_) => {}
        }
    }

    /// Encodes a message for the target.
    ///
    /// # Errors
    /// Why the message can never be stored.
    pub(crate) fn encode(&self, contract: Option<&Contract>, record: &mut Record) -> Result<(), String> {
        match self {
            Sink::Postgres(sink) => sink.encode(contract, record),
            Sink::JetStream(_) => check_contract(contract, record),
            Sink::Kafka(sink) => check_contract(contract, record).and_then(|()| sink.encode(contract, record)),
            Sink::Webhook(sink) => check_contract(contract, record).and_then(|()| sink.encode(record)),
        }
    }

    /// Stores the messages, all or none. The same messages follow after a transient error.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub(crate) async fn write(&mut self, records: &[Record]) -> Result<(), SinkError> {
        match self {
            Sink::Postgres(sink) => sink.write(records).await,
            Sink::JetStream(sink) => sink.write(records).await,
            Sink::Kafka(sink) => sink.write(records).await,
            Sink::Webhook(sink) => sink.write(records).await,
        }
    }
}

fn check_contract(contract: Option<&Contract>, record: &Record) -> Result<(), String> {
    let Some(contract) = contract else { return Ok(()) };
    let message = &record.message;
    let checked = contract.check(message.topic(), message.properties().content_type(), message.payload());
    checked.map(|_| ()).map_err(|violation| format!("contract {}: {violation}", contract.name()))
}
