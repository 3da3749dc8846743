//! Kafka: messages and identities in one transaction.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, NoCustomPartitioner, Producer as _, ProducerContext, ThreadedProducer,
};
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use tautwire_contracts::Contract;
use tokio::task::block_in_place;

use super::SinkError;
use crate::config::{SinkConfig, SinkKind};
use crate::mapping::{KeyField, RowInput};
use crate::runtime::{IDENTITIES_MAX, Identity, Record};

/// The prefix of the topic with the identities of a sink. Each has its own: a transaction of another sink would hide the last ones.
const POSITIONS: &str = "tautwire-connect-positions-";
/// The longest wait for the coordinator.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait for the end of the positions.
const POLL_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest wait while the queue of the producer is full.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

type Producer = ThreadedProducer<Deliveries>;

/// Notes whether Kafka has refused a record for its content; a commit fails without this reason.
#[derive(Default)]
struct Deliveries {
    is_record_refused: AtomicBool,
}

impl ClientContext for Deliveries {}

impl ProducerContext<NoCustomPartitioner> for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        use RDKafkaErrorCode::{InvalidMessage, InvalidRecord, MessageSizeTooLarge};
        if let Err((KafkaError::MessageProduction(InvalidMessage | InvalidRecord | MessageSizeTooLarge), _)) = result {
            self.is_record_refused.store(true, Ordering::Release);
        }
    }
}

/// A topic as a target.
pub(crate) struct Kafka {
    servers: ClientConfig,
    /// The transactional identifier, too.
    client_id: String,
    topic: String,
    positions: String,
    key: Option<KeyField>,
    producer: Option<Producer>,
    /// The number of the last batch that was begun.
    batch: u64,
    is_in_doubt: bool,
    is_new_session: bool,
    /// Stored batches, with their numbers of identities, oldest first.
    stored: VecDeque<(u64, u64)>,
    stored_identities: u64,
}

impl Kafka {
    /// # Errors
    /// The settings are invalid.
    pub(super) fn new(config: &SinkConfig) -> Result<Kafka, String> {
        let SinkKind::Kafka { servers, topic, key, properties } = &config.kind else {
            return Err("not a Kafka sink [bug]".into());
        };
        let client_id = &config.client_id;
        if !client_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
            return Err(format!(
                "sink {}: {client_id} is part of a topic's name, so it may have only letters, digits, ., _ and - [config_value]",
                config.name
            ));
        }
        let mut settings = ClientConfig::new();
        settings.set("bootstrap.servers", servers).set("client.id", client_id);
        for (name, value) in properties {
            settings.set(name, value);
        }
        Ok(Kafka {
            servers: settings,
            client_id: client_id.clone(),
            topic: topic.clone(),
            positions: format!("{POSITIONS}{client_id}"),
            key: key.clone(),
            producer: None,
            batch: 0,
            is_in_doubt: false,
            is_new_session: false,
            stored: VecDeque::new(),
            stored_identities: 0,
        })
    }

    pub(super) async fn check(&self) -> Result<(), SinkError> {
        let consumer: BaseConsumer = self.servers.create().map_err(|error| transient(&error))?;
        let metadata = block_in_place(|| consumer.fetch_metadata(None, POLL_TIMEOUT));
        metadata.map(|_| ()).map_err(|error| transient(&error))
    }

    pub(super) async fn open(&mut self) -> Result<Vec<Identity>, SinkError> {
        let batches = self.take_over().await?;
        (self.stored, self.stored_identities) = (VecDeque::new(), 0);
        let mut identities = Vec::new();
        for (batch, bytes) in batches {
            self.batch = self.batch.max(batch);
            self.remember(batch, (bytes.len() / Identity::LEN) as u64);
            identities.extend(Identity::decode_all(&bytes));
        }
        Ok(identities)
    }

    pub(super) fn begin_session(&mut self) {
        self.is_new_session = true;
    }

    /// The key of the record.
    pub(super) fn encode(&self, contract: Option<&Contract>, record: &mut Record) -> Result<(), String> {
        let message = &record.message;
        let input = RowInput {
            topic: message.topic(),
            content_type: message.properties().content_type(),
            payload: message.payload(),
            received_at: record.received_at,
        };
        let key = match (&self.key, contract) {
            (Some(key), Some(contract)) => key.text(contract, &input)?,
            _ => message.topic().to_owned(),
        };
        record.encoded = key.into_bytes();
        Ok(())
    }

    pub(super) async fn write(&mut self, records: &[Record]) -> Result<(), SinkError> {
        if self.producer.is_none() {
            let begun = self.batch;
            self.open().await?;
            if self.is_in_doubt && self.stored.iter().any(|(batch, _)| *batch == begun) {
                self.finish(records);
                return Ok(());
            }
        }
        let Some(producer) = self.producer.take() else {
            return Err(SinkError::Transient("not connected [kafka]".into()));
        };
        self.batch += 1;
        self.is_in_doubt = true;
        match block_in_place(|| self.transaction(&producer, records)) {
            Ok(()) => self.finish(records),
            Err(SinkError::Refused(reason)) => {
                block_in_place(|| producer.abort_transaction(TRANSACTION_TIMEOUT))
                    .map_err(|error| transient(&error))?;
                self.is_in_doubt = false;
                self.producer = Some(producer);
                return Err(SinkError::Refused(reason));
            }
            // The next producer completes or aborts this transaction when it starts.
            Err(error) => return Err(error),
        }
        self.producer = Some(producer);
        Ok(())
    }

    /// One transaction: messages, identities, and the removal of identities that are no longer needed.
    fn transaction(&self, producer: &Producer, records: &[Record]) -> Result<(), SinkError> {
        producer.begin_transaction().map_err(|error| transient(&error))?;
        for record in records {
            let headers = headers(record);
            let target =
                BaseRecord::to(&self.topic).key(&record.encoded[..]).payload(record.message.payload()).headers(headers);
            send(producer, target)?;
        }
        let mut identities = Vec::with_capacity(records.len() * Identity::LEN);
        records.iter().filter_map(|record| record.identity).for_each(|identity| identity.encode(&mut identities));
        let key = self.batch.to_be_bytes();
        send(producer, BaseRecord::to(&self.positions).partition(0).key(&key[..]).payload(&identities[..]))?;
        let mut left = self.stored_identities;
        for (batch, count) in &self.stored {
            left -= count;
            if !self.is_new_session && left < IDENTITIES_MAX {
                break;
            }
            let key = batch.to_be_bytes();
            send(producer, BaseRecord::<[u8], [u8]>::to(&self.positions).partition(0).key(&key[..]))?;
        }
        let committed = producer.commit_transaction(TRANSACTION_TIMEOUT);
        let is_record_refused = producer.context().is_record_refused.swap(false, Ordering::AcqRel);
        committed.map_err(|error| match is_record_refused {
            true => SinkError::Refused(
                "Kafka refuses the record: it is too large or invalid for the topic [kafka_record]".into(),
            ),
            false => transient(&error),
        })
    }

    /// The batch is stored.
    fn finish(&mut self, records: &[Record]) {
        if std::mem::take(&mut self.is_in_doubt) && std::mem::take(&mut self.is_new_session) {
            (self.stored, self.stored_identities) = (VecDeque::new(), 0);
        }
        let identities = records.iter().filter(|record| record.identity.is_some()).count();
        if self.stored.back().is_none_or(|(batch, _)| *batch != self.batch) {
            self.remember(self.batch, identities as u64);
        }
    }

    fn remember(&mut self, batch: u64, identities: u64) {
        self.stored.push_back((batch, identities));
        self.stored_identities += identities;
        // The transaction has removed the same ones.
        while let Some((_, first)) = self.stored.front()
            && self.stored_identities - first >= IDENTITIES_MAX + identities
        {
            self.stored_identities -= first;
            self.stored.pop_front();
        }
    }

    /// Starts a producer, which excludes earlier ones and ends their transactions, and reads the stored batches.
    async fn take_over(&mut self) -> Result<BTreeMap<u64, Vec<u8>>, SinkError> {
        self.create_positions().await?;
        let mut settings = self.servers.clone();
        settings.set("transactional.id", &self.client_id).set("linger.ms", "5").set("message.timeout.ms", "30000");
        settings.set("reconnect.backoff.max.ms", "1000");
        settings.set("queue.buffering.max.messages", "200000");
        let producer: Producer =
            settings.create_with_context(Deliveries::default()).map_err(|error| transient(&error))?;
        block_in_place(|| producer.init_transactions(TRANSACTION_TIMEOUT)).map_err(|error| transient(&error))?;
        let batches = block_in_place(|| self.read_positions())?;
        self.producer = Some(producer);
        Ok(batches)
    }

    async fn create_positions(&self) -> Result<(), SinkError> {
        let admin: AdminClient<DefaultClientContext> = self.servers.create().map_err(|error| transient(&error))?;
        let topic = NewTopic::new(&self.positions, 1, TopicReplication::Fixed(-1)).set("cleanup.policy", "compact");
        let options = AdminOptions::new().operation_timeout(Some(POLL_TIMEOUT)).request_timeout(Some(POLL_TIMEOUT));
        let created = admin.create_topics([&topic], &options).await.map_err(|error| transient(&error))?;
        match created.into_iter().next() {
            Some(Err((_, code))) if code != RDKafkaErrorCode::TopicAlreadyExists => {
                Err(transient(&KafkaError::AdminOp(code)))
            }
            _ => Ok(()),
        }
    }

    fn read_positions(&self) -> Result<BTreeMap<u64, Vec<u8>>, SinkError> {
        let mut settings = self.servers.clone();
        settings.set("group.id", &self.client_id).set("isolation.level", "read_committed");
        settings.set("enable.auto.commit", "false").set("enable.partition.eof", "true");
        let consumer: BaseConsumer = settings.create().map_err(|error| transient(&error))?;
        let mut partitions = TopicPartitionList::new();
        let assigned = partitions.add_partition_offset(&self.positions, 0, Offset::Beginning);
        assigned.and_then(|()| consumer.assign(&partitions)).map_err(|error| transient(&error))?;
        let mut batches = BTreeMap::new();
        loop {
            match consumer.poll(POLL_TIMEOUT) {
                Some(Ok(record)) => {
                    let Some(key) = record.key().and_then(|key| key.try_into().ok()).map(u64::from_be_bytes) else {
                        continue;
                    };
                    match record.payload() {
                        Some(identities) => batches.insert(key, identities.to_vec()),
                        None => batches.remove(&key),
                    };
                }
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(batches),
                Some(Err(error)) => return Err(transient(&error)),
                None => {
                    return Err(SinkError::Transient(format!("{} cannot be read: no answer [kafka]", self.positions)));
                }
            }
        }
    }
}

fn send(producer: &Producer, mut record: BaseRecord<'_, [u8], [u8]>) -> Result<(), SinkError> {
    let begun = std::time::Instant::now();
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again))
                if begun.elapsed() < QUEUE_TIMEOUT =>
            {
                record = again;
                // The producer sends on a thread of its own.
                std::thread::sleep(Duration::from_millis(5));
            }
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge), _)) => {
                return Err(SinkError::Refused(
                    "the message is larger than message.max.bytes of Kafka [kafka_too_large]".into(),
                ));
            }
            Err((error, _)) => return Err(transient(&error)),
        }
    }
}

fn headers(record: &Record) -> OwnedHeaders {
    let properties = record.message.properties();
    let mut headers = OwnedHeaders::new().insert(Header { key: "tautwire-topic", value: Some(record.message.topic()) });
    if let Some(content_type) = properties.content_type() {
        headers = headers.insert(Header { key: "content-type", value: Some(content_type) });
    }
    for (key, value) in properties.user_properties() {
        // A header's name cannot contain NUL, which MQTT does not allow either.
        headers = headers.insert(Header { key, value: Some(value) });
    }
    headers
}

/// An error after which a new producer tries again, unless another instance has excluded this one.
fn transient(error: &KafkaError) -> SinkError {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch) => {
            SinkError::Fatal(
                "another instance runs with this client identifier; this one ends [connect_superseded]".into(),
            )
        }
        _ => SinkError::Transient(format!("Kafka: {error} [kafka]")),
    }
}
