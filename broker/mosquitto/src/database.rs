//! Parses a file into records, without interpreting them.

use crate::chunk::{Chunk, Chunks, Fields};
use crate::error::{DatabaseError, Fault};

/// The magic bytes of a `mosquitto.db`.
const MAGIC: &[u8; 15] = b"\x00\xB5\x00mosquitto db";
/// The magic bytes of an SQLite database.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";
/// Length of the file header: magic bytes, four unused bytes, and the version.
const HEADER_BYTES: usize = MAGIC.len() + 8;
/// The oldest supported version.
const OLDEST: u32 = 5;
const NEWEST: u32 = 6;

/// Whether a file with this beginning is a `mosquitto.db`, of any version.
pub fn is_database(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC)
}

/// Whether a file with this beginning is an SQLite database.
pub fn is_sqlite(beginning: &[u8]) -> bool {
    beginning.starts_with(SQLITE)
}

/// A parsed file. Lengths have been checked; texts, topics and numbers are checked by [`crate::import_database`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Database<'a> {
    /// Version of the file format: 5 or 6.
    pub version: u32,
    /// Whether Mosquitto shut down cleanly; otherwise the file is its last autosave.
    pub is_final: bool,
    /// Messages, each once.
    pub messages: Vec<StoredMessage<'a>>,
    /// Clients that have a session.
    pub clients: Vec<Client<'a>>,
    /// Messages in flight from and to clients, in order.
    pub deliveries: Vec<Delivery<'a>>,
    /// Subscriptions of the clients.
    pub subscriptions: Vec<Subscription<'a>>,
    /// Numbers of the retained messages.
    pub retained: Vec<u64>,
    /// Chunks of an unknown kind.
    pub unknown_chunks: u64,
}

/// A message that is retained, or referenced by a delivery.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoredMessage<'a> {
    /// The number that deliveries refer to.
    pub number: u64,
    /// Expiry in seconds of Unix time; 0 for never.
    pub expires_at_s: u64,
    /// The Topic Name.
    pub topic: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
    /// Properties as in PUBLISH, with their length in front; empty for none.
    pub properties: &'a [u8],
    /// The QoS at which it was published.
    pub qos: u8,
    /// Whether it was published with RETAIN.
    pub retain: bool,
}

/// Omits the payload.
impl std::fmt::Debug for StoredMessage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredMessage")
            .field("number", &self.number)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// A client that has a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client<'a> {
    /// Its Client Identifier.
    pub id: &'a [u8],
    /// Session Expiry Interval in seconds; `u32::MAX` for never.
    pub expiry_interval_s: u32,
    /// When its session expires, in seconds of Unix time; 0 if unknown.
    pub expires_at_s: u64,
    /// The last Packet Identifier that was assigned; 0 for none.
    pub last_packet_id: u16,
    /// The port of the listener that it connected to; 0 if unknown.
    pub port: u16,
}

/// A message in flight from or to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// The client's identifier.
    pub client: &'a [u8],
    /// The number of the message.
    pub message: u64,
    /// The Packet Identifier; 0 if there is none yet.
    pub packet_id: u16,
    /// The QoS of this delivery.
    pub qos: u8,
    /// The state of the delivery; `None` for an unknown number.
    pub state: Option<State>,
    /// The RETAIN flag of the delivery.
    pub retain: bool,
    /// Whether it has been sent before.
    pub duplicate: bool,
    /// The direction of the delivery.
    pub direction: Direction,
    /// Properties with their length in front: Subscription Identifiers. Empty for none.
    pub properties: &'a [u8],
}

/// The direction of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the broker.
    FromClient,
    /// From the broker to the client.
    ToClient,
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// PUBLISH is about to be sent.
    Publish,
    /// Waiting for PUBACK or PUBREC.
    Sent,
    /// PUBREL has been sent or is about to be; waiting for PUBCOMP.
    Released,
    /// The client has sent PUBLISH; waiting for PUBREL.
    Unreleased,
    /// The client has sent PUBREL.
    Complete,
    /// The message is queued.
    Queued,
}

/// A subscription of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// The client's identifier.
    pub client: &'a [u8],
    /// The Topic Filter.
    pub filter: &'a [u8],
    /// Subscription Identifier; 0 for none.
    pub identifier: u32,
    /// The granted QoS.
    pub qos: u8,
    /// The other options, as the bits of SUBSCRIBE.
    pub options: u8,
}

impl<'a> Database<'a> {
    /// Parses a file. The result is at most a few times as large.
    ///
    /// # Errors
    /// The file is not a `mosquitto.db`, has an unsupported version, or is damaged. Nothing of it should be used then.
    pub fn read(file: &'a [u8]) -> Result<Database<'a>, DatabaseError> {
        let version = version(file)?;
        let mut database = Database { version, ..Database::default() };
        for chunk in Chunks::from(file, HEADER_BYTES) {
            database.take(chunk?)?;
        }
        Ok(database)
    }

    fn take(&mut self, chunk: Chunk<'a>) -> Result<(), DatabaseError> {
        match chunk.kind {
            1 => self.is_final = configuration(chunk)?,
            2 => self.messages.push(message(chunk)?),
            3 => self.deliveries.push(delivery(chunk)?),
            4 => self.retained.push(retained(chunk)?),
            5 => self.subscriptions.push(subscription(chunk)?),
            6 => self.clients.push(client(chunk, self.version)?),
            _ => self.unknown_chunks += 1,
        }
        Ok(())
    }
}

fn version(file: &[u8]) -> Result<u32, DatabaseError> {
    let wrong = |fault| Err(DatabaseError { at: 0, fault });
    if is_sqlite(file) {
        return wrong(Fault::Sqlite);
    }
    let Some(rest) = file.strip_prefix(MAGIC) else { return wrong(Fault::NotADatabase) };
    let Some(version) = rest.get(4..).and_then(|rest| rest.first_chunk()) else { return wrong(Fault::Truncated) };
    match u32::from_be_bytes(*version) {
        version @ OLDEST..=NEWEST => Ok(version),
        version if version < OLDEST => wrong(Fault::OldVersion(version)),
        version => wrong(Fault::NewVersion(version)),
    }
}

/// Whether Mosquitto shut down cleanly.
fn configuration(chunk: Chunk<'_>) -> Result<bool, DatabaseError> {
    const PADDING_MAX: usize = 6;
    let mut fields = Fields::of(chunk);
    let (_last, is_final, number_bytes) = (fields.u64()?, fields.u8()?, fields.u8()?);
    if number_bytes != 8 {
        return Err(DatabaseError { at: chunk.offset, fault: Fault::NumberBytes(number_bytes) });
    }
    if fields.skipped() > PADDING_MAX { Err(fields.wrong()) } else { Ok(is_final != 0) }
}

fn message(chunk: Chunk<'_>) -> Result<StoredMessage<'_>, DatabaseError> {
    let mut fields = Fields::of(chunk);
    let (number, expires_at_s) = (fields.u64()?, fields.time_s()?);
    let payload_len = usize::try_from(fields.u32()?).map_err(|_| fields.wrong())?;
    let _packet_id = fields.u16()?;
    let (publisher_len, user_len, topic_len) = (fields.length()?, fields.length()?, fields.length()?);
    let _port = fields.u16()?;
    let (qos, retain) = (fields.u8()?, fields.u8()? != 0);
    fields.bytes(publisher_len)?;
    fields.bytes(user_len)?;
    let (topic, payload) = (fields.bytes(topic_len)?, fields.bytes(payload_len)?);
    Ok(StoredMessage { number, expires_at_s, topic, payload, properties: fields.rest(), qos, retain })
}

fn delivery(chunk: Chunk<'_>) -> Result<Delivery<'_>, DatabaseError> {
    let mut fields = Fields::of(chunk);
    let (message, packet_id, client_len) = (fields.u64()?, fields.u16()?, fields.length()?);
    let (qos, state, flags, direction) = (fields.u8()?, fields.u8()?, fields.u8()?, fields.u8()?);
    let direction = if direction == 0 { Direction::FromClient } else { Direction::ToClient };
    let client = fields.bytes(client_len)?;
    let state = match state {
        1 | 2 | 4 => Some(State::Publish),
        3 | 5 => Some(State::Sent),
        6 | 9 => Some(State::Released),
        7 | 10 => Some(State::Unreleased),
        8 => Some(State::Complete),
        11 => Some(State::Queued),
        _ => None,
    };
    let (retain, duplicate) = (flags & 0xF0 != 0, flags & 0x0F != 0);
    Ok(Delivery { client, message, packet_id, qos, state, retain, duplicate, direction, properties: fields.rest() })
}

fn retained(chunk: Chunk<'_>) -> Result<u64, DatabaseError> {
    let mut fields = Fields::of(chunk);
    let number = fields.u64()?;
    fields.end().map(|()| number)
}

fn subscription(chunk: Chunk<'_>) -> Result<Subscription<'_>, DatabaseError> {
    let mut fields = Fields::of(chunk);
    let (identifier, client_len, filter_len) = (fields.u32()?, fields.length()?, fields.length()?);
    let (qos, options, _padding) = (fields.u8()?, fields.u8()?, fields.u16()?);
    let (client, filter) = (fields.bytes(client_len)?, fields.bytes(filter_len)?);
    fields.end().map(|()| Subscription { client, filter, identifier, qos, options })
}

fn client(chunk: Chunk<'_>, version: u32) -> Result<Client<'_>, DatabaseError> {
    /// Trailing padding of the fixed fields, written by machines that align eight-byte numbers.
    const PADDING: usize = 4;
    let mut fields = Fields::of(chunk);
    let (expires_at_s, expiry_interval_s) = (fields.time_s()?, fields.u32()?);
    let (last_packet_id, id_len) = (fields.u16()?, fields.length()?);
    let (mut port, mut user_len) = (0, 0);
    if version >= 6 {
        (port, user_len) = (fields.u16()?, fields.length()?);
        if fields.skipped() == PADDING + id_len + user_len {
            fields.bytes(PADDING)?;
        }
    }
    let id = fields.bytes(id_len)?;
    fields.bytes(user_len)?;
    fields.end().map(|()| Client { id, expiry_interval_s, expires_at_s, last_packet_id, port })
}
