//! One sink: collects batches, writes them, and acknowledges them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tautwire_client::{Publication, QoS};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::session::{Session, SessionEvent};
use super::{Record, StoredIdentities};
use crate::backoff::Backoff;
use crate::config::{Broker, SinkConfig};
use crate::metrics::{SinkMetrics, add};
use crate::sinks::{Sink, SinkError};

/// With [`Mode::Once`], a sink ends when no message has arrived for this time.
const ONCE_IDLE: Duration = Duration::from_secs(2);

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    UntilStopped,
    /// When the broker has no more messages.
    Once,
}

/// A sink with its session.
pub(super) struct Worker {
    config: SinkConfig,
    sink: Sink,
    stored: StoredIdentities,
    metrics: Arc<SinkMetrics>,
    mode: Mode,
    stopped: watch::Receiver<bool>,
}

/// Why a step has ended early.
enum Exit {
    Stopped,
    Failed(String),
}

impl Worker {
    /// # Errors
    /// The configuration of the target is invalid.
    pub(super) fn new(
        config: SinkConfig,
        metrics: Arc<SinkMetrics>,
        mode: Mode,
        stopped: watch::Receiver<bool>,
    ) -> Result<Worker, String> {
        let sink = Sink::new(&config)?;
        Ok(Worker { config, sink, stored: StoredIdentities::default(), metrics, mode, stopped })
    }

    /// Runs until it is stopped.
    ///
    /// # Errors
    /// An error that retrying cannot repair.
    pub(super) async fn run(mut self, broker: Broker) -> Result<(), String> {
        match self.execute(&broker).await {
            Ok(()) | Err(Exit::Stopped) => Ok(()),
            Err(Exit::Failed(error)) => Err(format!("sink {}: {error}", self.config.name)),
        }
    }

    async fn execute(&mut self, broker: &Broker) -> Result<(), Exit> {
        // The target first: afterwards an older instance can no longer commit, so the identities are complete.
        self.open().await?;
        let mut stopped = self.stopped.clone();
        let mut session = tokio::select! {
            session = Session::start(broker, &self.config) => session.map_err(Exit::Failed)?,
            _ = stopped.wait_for(|stopped| *stopped) => return Err(Exit::Stopped),
        };
        let outcome = self.handle(&mut session).await;
        // The session stays in the broker; unacknowledged messages are sent again.
        let _ = session.client.disconnect().await;
        outcome
    }

    async fn handle(&mut self, session: &mut Session) -> Result<(), Exit> {
        while let Some(records) = self.next_batch(session).await? {
            let (known, new): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| self.is_stored(record));
            add(&self.metrics.duplicates_skipped, known.len());
            session.acknowledge(&known);
            let encoded = self.encode(session, new).await?;
            self.store(session, &encoded).await?;
        }
        Ok(())
    }

    /// Connects to the target and reads the identities of the messages that it has.
    async fn open(&mut self) -> Result<(), Exit> {
        let mut backoff = Backoff::default();
        loop {
            match self.sink.open().await {
                Ok(identities) => {
                    identities.into_iter().for_each(|identity| self.stored.insert(identity));
                    self.metrics.set_writable();
                    return Ok(());
                }
                Err(SinkError::Fatal(error)) => return Err(Exit::Failed(error)),
                Err(error) => self.wait(&mut backoff, &error).await?,
            }
        }
    }

    /// Collects messages until the batch is full or old; `None` when there are no more.
    async fn next_batch(&mut self, session: &mut Session) -> Result<Option<Vec<Record>>, Exit> {
        let mut stopped = self.stopped.clone();
        let mut records = Vec::new();
        let mut bytes = 0;
        let idle = Instant::now() + ONCE_IDLE;
        let mut deadline = None;
        while records.len() < self.config.batch_messages && bytes < self.config.batch_bytes {
            let next = async {
                match deadline.or((self.mode == Mode::Once).then_some(idle)) {
                    Some(deadline) => timeout_at(deadline, session.next()).await.ok(),
                    None => Some(session.next().await),
                }
            };
            let event = tokio::select! {
                event = next => event,
                _ = stopped.wait_for(|stopped| *stopped) => return Err(Exit::Stopped),
            };
            match event.transpose().map_err(Exit::Failed)? {
                Some(SessionEvent::Message(message)) => {
                    deadline.get_or_insert_with(|| Instant::now() + self.config.batch_delay);
                    let record = Record::new(message);
                    bytes += record.bytes();
                    records.push(record);
                }
                Some(event) => self.connection_changed(event),
                None => break,
            }
        }
        add(&self.metrics.messages_received, records.len());
        Ok(Some(records).filter(|records| !records.is_empty()))
    }

    fn connection_changed(&mut self, event: SessionEvent) {
        let (sink, client_id) = (&*self.config.name, &*self.config.client_id);
        match event {
            SessionEvent::Connected { session_present: true } => {
                log::info!(sink, client_id; "connected; the session continues")
            }
            SessionEvent::Connected { session_present: false } => {
                // Identifiers of the earlier session say nothing about messages of this one.
                self.stored.clear();
                self.sink.begin_session();
                add(&self.metrics.sessions_lost, 1);
                log::warn!(sink, client_id; "connected with a new session; messages published before are not delivered");
            }
            SessionEvent::Disconnected(error) => {
                self.metrics.is_connected.store(false, Ordering::Relaxed);
                log::warn!(sink, error; "not connected to the broker; trying again");
                return;
            }
            SessionEvent::Message(_) => return,
        }
        self.metrics.is_connected.store(true, Ordering::Relaxed);
    }

    /// DUP 0 proves that a message is new [MQTT-3.3.1-1].
    fn is_stored(&self, record: &Record) -> bool {
        record.message.dup() && record.identity.is_some_and(|identity| self.stored.contains(identity))
    }

    /// Encodes the messages for the target; those that cannot be encoded become dead letters.
    async fn encode(&mut self, session: &Session, records: Vec<Record>) -> Result<Vec<Record>, Exit> {
        let mut encoded = Vec::with_capacity(records.len());
        for mut record in records {
            match self.sink.encode(self.config.contract.as_deref(), &mut record) {
                Ok(()) => encoded.push(record),
                Err(reason) => self.dead_letter(session, &record, &reason).await?,
            }
        }
        Ok(encoded)
    }

    /// Writes the messages and acknowledges them. If the target refuses one of several, halves the batch until it is alone.
    async fn store(&mut self, session: &Session, records: &[Record]) -> Result<(), Exit> {
        let mut backoff = Backoff::default();
        while !records.is_empty() {
            match self.sink.write(records).await {
                Ok(()) => {
                    self.stored_batch(session, records);
                    return Ok(());
                }
                Err(SinkError::Fatal(error)) => return Err(Exit::Failed(error)),
                Err(SinkError::Refused(reason)) => match records {
                    [record] => return self.dead_letter(session, record, &reason).await,
                    _ => {
                        let (first, second) = records.split_at(records.len() / 2);
                        Box::pin(self.store(session, first)).await?;
                        return Box::pin(self.store(session, second)).await;
                    }
                },
                Err(error) => {
                    add(&self.metrics.write_errors, 1);
                    self.wait(&mut backoff, &error).await?;
                }
            }
        }
        Ok(())
    }

    fn stored_batch(&mut self, session: &Session, records: &[Record]) {
        records.iter().filter_map(|record| record.identity).for_each(|identity| self.stored.insert(identity));
        session.acknowledge(records);
        self.metrics.set_writable();
        add(&self.metrics.messages_stored, records.len());
        add(&self.metrics.bytes_stored, records.iter().map(|record| record.message.payload().len()).sum());
        add(&self.metrics.batches_stored, 1);
    }

    /// Publishes the message to the dead-letter topic, and acknowledges it when the broker has that.
    async fn dead_letter(&self, session: &Session, record: &Record, reason: &str) -> Result<(), Exit> {
        let (sink, topic) = (&*self.config.name, record.message.topic());
        let letter = Publication::new(&self.config.dead_letter, record.message.payload())
            .qos(QoS::AtLeastOnce)
            .user_property("tautwire-sink", sink)
            .user_property("tautwire-topic", topic)
            .user_property("tautwire-reason", reason);
        let mut stopped = self.stopped.clone();
        let published = tokio::select! {
            published = async { session.client.publish(letter).await?.await } => published,
            _ = stopped.wait_for(|stopped| *stopped) => return Err(Exit::Stopped),
        };
        match published {
            Ok(_) => {
                add(&self.metrics.dead_letters, 1);
                log::warn!(sink, topic, dead_letter:% = self.config.dead_letter; "the message cannot be stored; it is a dead letter");
            }
            // Keeping the message would block all others.
            Err(error) if error.reason().is_some() => {
                add(&self.metrics.dead_letters_refused, 1);
                log::error!(sink, topic, error:%; "the message cannot be stored, and the broker refuses the dead letter; it is lost");
            }
            Err(error) => return Err(Exit::Failed(error.to_string())),
        }
        session.acknowledge(std::slice::from_ref(record));
        Ok(())
    }

    /// Waits before another attempt.
    async fn wait(&mut self, backoff: &mut Backoff, error: &SinkError) -> Result<(), Exit> {
        let (sink, delay, error) = (&*self.config.name, backoff.next(), error.to_string());
        log::warn!(sink, error, retry_ms = delay.as_millis() as u64; "the target does not accept writes; trying again");
        self.metrics.set_failed(&error);
        let mut stopped = self.stopped.clone();
        tokio::select! {
            () = tokio::time::sleep(delay) => Ok(()),
            _ = stopped.wait_for(|stopped| *stopped) => Err(Exit::Stopped),
        }
    }
}
