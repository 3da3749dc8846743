//! NATS JetStream: each message with a `Nats-Msg-Id` that is the same for each delivery.

use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::time::Duration;

use async_nats::header::{HeaderMap, HeaderValue, NATS_MESSAGE_ID};
use async_nats::jetstream::{self, kv};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::SinkError;
use crate::config::{SinkConfig, SinkKind};
use crate::runtime::{Identity, Record};

/// The key-value bucket with the state of all sinks.
const BUCKET: &str = "tautwire-connect";
/// The stored number is at most this far behind the last published one.
const NUMBER_LAG_MAX: u64 = 8192;
/// The number before the first message: low numbers of the session stay positive.
const FIRST_NUMBER: u64 = 1 << 16;
/// The longest wait for an acknowledgement of the stream.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages without an acknowledgement of the stream.
const IN_FLIGHT_MAX: usize = 1000;
/// Bytes of the headers beside the topic.
const HEADER_BYTES: usize = 512;

/// A stream as a target.
pub(crate) struct JetStream {
    url: String,
    credentials_file: Option<PathBuf>,
    /// The subject, with `{topic}`.
    subject: String,
    /// The key of the state.
    key: String,
    connection: Option<Connection>,
    numbers: Numbers,
    /// The stored state is up to this number; `None` if there is no state of this session.
    stored_number: Option<u64>,
}

struct Connection {
    client: async_nats::Client,
    context: jetstream::Context,
    state: kv::Store,
}

impl Connection {
    /// Publishes messages, with their subjects and headers, and waits until the stream has them.
    async fn publish(&self, records: &[Record], messages: &mut [(String, HeaderMap)]) -> Result<(), SinkError> {
        let bytes_max = self.client.server_info().max_payload;
        let mut acknowledgements = Vec::with_capacity(records.len());
        for (record, (subject, headers)) in records.iter().zip(messages) {
            let message = &record.message;
            if message.payload().len() + message.topic().len() + HEADER_BYTES > bytes_max {
                let text =
                    format!("the message is larger than max_payload of NATS ({bytes_max} bytes) [nats_too_large]");
                return Err(SinkError::Refused(text));
            }
            let payload = message.payload().to_vec().into();
            let published =
                self.context.publish_with_headers(std::mem::take(subject), std::mem::take(headers), payload).await;
            acknowledgements.push(published.map_err(|error| transient("a message cannot be published", error))?);
        }
        for acknowledgement in acknowledgements {
            acknowledgement.await.map_err(|error| transient("the stream has not acknowledged a message", error))?;
        }
        Ok(())
    }
}

/// Numbers messages of a session by their Packet Identifiers.
#[derive(Debug, Clone, PartialEq)]
struct Numbers {
    /// A random name of the MQTT session.
    session: String,
    last: u64,
}

impl Numbers {
    fn new() -> Numbers {
        // Each hasher of the standard library has another seed.
        let random = RandomState::new().hash_one(std::time::SystemTime::now());
        Numbers { session: format!("{random:016x}"), last: FIRST_NUMBER }
    }

    /// The number with this Packet Identifier that is nearest to the last one. It is the same for each delivery, because unacknowledged
    /// messages are at most half of all identifiers apart.
    fn number(&self, packet_id: u16) -> u64 {
        let ahead = packet_id.wrapping_sub(self.last as u16);
        // As a signed number it is the distance.
        self.last.wrapping_add_signed(i64::from(ahead as i16))
    }

    fn message_id(&mut self, identity: Identity) -> String {
        let number = self.number(identity.packet_id);
        self.last = self.last.max(number);
        format!("{}-{number:x}-{:016x}", self.session, identity.fingerprint)
    }

    fn encode(&self) -> String {
        format!("{} {}", self.session, self.last)
    }

    fn decode(text: &str) -> Option<Numbers> {
        let (session, last) = text.split_once(' ')?;
        Some(Numbers { session: session.into(), last: last.parse().ok()? })
    }
}

fn transient(what: &str, error: impl std::fmt::Display) -> SinkError {
    SinkError::Transient(format!("{what}: {error} [nats]"))
}

impl JetStream {
    /// # Errors
    /// The settings are invalid.
    pub(super) fn new(config: &SinkConfig) -> Result<JetStream, String> {
        let SinkKind::Nats { url, credentials_file, subject } = &config.kind else {
            return Err("not a NATS sink [bug]".into());
        };
        Ok(JetStream {
            url: url.clone(),
            credentials_file: credentials_file.clone(),
            subject: subject.clone(),
            key: URL_SAFE_NO_PAD.encode(&config.client_id),
            connection: None,
            numbers: Numbers::new(),
            stored_number: None,
        })
    }

    pub(super) async fn check(&mut self) -> Result<(), SinkError> {
        let (_, context) = self.connect().await?;
        context.query_account().await.map(|_| ()).map_err(|error| transient("JetStream is not available", error))
    }

    pub(super) async fn open(&mut self) -> Result<(), SinkError> {
        let (client, context) = self.connect().await?;
        let bucket = kv::Config { bucket: BUCKET.into(), history: 1, ..kv::Config::default() };
        let state = match context.get_key_value(BUCKET).await {
            Ok(state) => state,
            Err(_) => {
                let created = context.create_key_value(bucket).await;
                created.map_err(|error| transient("the key-value bucket cannot be opened", error))?
            }
        };
        let stored = state.get(&self.key).await.map_err(|error| transient("the state cannot be read", error))?;
        if let Some(numbers) = stored.and_then(|bytes| Numbers::decode(std::str::from_utf8(&bytes).ok()?)) {
            self.stored_number = Some(numbers.last);
            self.numbers = numbers;
        }
        self.connection = Some(Connection { client, context, state });
        Ok(())
    }

    pub(super) fn begin_session(&mut self) {
        self.numbers = Numbers::new();
        self.stored_number = None;
    }

    pub(super) async fn write(&mut self, records: &[Record]) -> Result<(), SinkError> {
        let Some(connection) = &self.connection else { return Err(transient("no connection", "not opened")) };
        let mut messages = Vec::with_capacity(records.len());
        for record in records {
            let id = record.identity.map(|identity| self.numbers.message_id(identity));
            messages.push((subject(&self.subject, record.message.topic()), headers(record, id)));
        }
        // First the state: after a crash, the numbers must be found again.
        if self.stored_number.is_none_or(|stored| self.numbers.last > stored + NUMBER_LAG_MAX) {
            let put = connection.state.put(&self.key, self.numbers.encode().into()).await;
            put.map_err(|error| transient("the state cannot be written", error))?;
            self.stored_number = Some(self.numbers.last);
        }
        for (records, messages) in records.chunks(IN_FLIGHT_MAX).zip(messages.chunks_mut(IN_FLIGHT_MAX)) {
            connection.publish(records, messages).await?;
        }
        Ok(())
    }

    async fn connect(&self) -> Result<(async_nats::Client, jetstream::Context), SinkError> {
        let mut options = async_nats::ConnectOptions::new().name("tautwire-connect");
        if let Some(path) = &self.credentials_file {
            let read = options.credentials_file(path).await;
            options =
                read.map_err(|error| SinkError::Fatal(format!("{}: {error} [nats_credentials]", path.display())))?;
        }
        let client = options.connect(&self.url).await.map_err(|error| transient("NATS is not reachable", error))?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(ACK_TIMEOUT);
        Ok((client, context))
    }
}

fn headers(record: &Record, id: Option<String>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(id) = id {
        headers.insert(NATS_MESSAGE_ID, id);
    }
    let properties = record.message.properties();
    let values = [("tautwire-topic", Some(record.message.topic())), ("content-type", properties.content_type())];
    for (name, value) in values {
        // A value with line breaks would be another header.
        if let Some(value) = value.and_then(|value| value.parse::<HeaderValue>().ok()) {
            headers.insert(name, value);
        }
    }
    headers
}

/// The subject of a topic: `/` becomes `.`, and characters that subjects cannot have become `_`.
fn subject(pattern: &str, topic: &str) -> String {
    let level = |level: &str| match level {
        "" => "_".to_owned(),
        level => level.replace(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '.' | '*' | '>'), "_"),
    };
    let tokens: Vec<String> = topic.split('/').map(level).collect();
    pattern.replace("{topic}", &tokens.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_and_are_the_same_again_for_a_message_that_is_delivered_again() {
        let mut numbers = Numbers::new();
        let mut given = Vec::new();
        for at in 0..200_000u64 {
            let packet_id = (at % 65_535 + 1) as u16;
            let identity = Identity { packet_id, fingerprint: 0 };
            given.push((packet_id, numbers.number(packet_id)));
            numbers.message_id(identity);
        }
        assert!(given.windows(2).all(|pair| pair[0].1 < pair[1].1));
        // From any stored number that is behind by as much as allowed.
        for at in [70_000, 131_071, 199_000] {
            let stored = Numbers { session: String::new(), last: given[at - NUMBER_LAG_MAX as usize].1 };
            for (packet_id, number) in &given[at - 16_384..at] {
                assert_eq!(stored.number(*packet_id), *number);
            }
        }
    }

    #[test]
    fn the_state_is_read_as_it_was_written() {
        let numbers = Numbers { session: "a".into(), last: 70_000 };
        assert_eq!(Numbers::decode(&numbers.encode()), Some(numbers));
    }

    #[test]
    fn a_topic_cannot_be_another_subject() {
        assert_eq!(subject("mqtt.{topic}", "plant/7/temp"), "mqtt.plant.7.temp");
        assert_eq!(subject("mqtt.{topic}", "/a b//x.y/*/>"), "mqtt._.a_b._.x_y._._");
    }
}
