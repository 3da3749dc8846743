//! The retained message of a topic: the value of its subject in the stream of retained messages.

use crate::bytes::{Reader, Writer};
use crate::numbers::Sequence;

use super::{Place, Publisher, RecordError, VERSION, read};

const KEPT: u8 = 1;
const KEPT_FOR: u8 = 2;
const CLEARED: u8 = 3;

/// The subject of the [mark](RetainedRecord::mark) in the stream of retained messages. Topics are not empty [MQTT-4.7.3-1], so none has
/// this subject.
pub const MARK_SUBJECT: &str = "=";

/// How to retain a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retain {
    /// Until it is replaced.
    Always,
    /// For this time, given by its Message Expiry Interval [MQTT-3.3.2-5].
    Seconds(u32),
    /// Not at all: its payload is empty, which removes the retained message of the topic [MQTT-3.3.1-6].
    Clear,
}

/// The entry of a topic in the stream of retained messages.
#[derive(Clone, PartialEq, Eq)]
pub struct RetainedRecord {
    /// The position of the message in the log. A record is only replaced by one with a later position.
    pub place: Place,
    /// How the message is retained.
    pub retain: Retain,
    /// The topic, because the subject may be a digest.
    pub topic: String,
    /// The message, as its publisher's engine has stored it; empty if the topic was cleared.
    pub message: Vec<u8>,
}

impl std::fmt::Debug for RetainedRecord {
    /// Omits topic and message.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RetainedRecord({:?}, {:?}, {} bytes)", self.place, self.retain, self.message.len())
    }
}

impl Retain {
    pub(super) fn write(self, writer: &mut Writer) {
        match self {
            Retain::Always => writer.u8(KEPT),
            Retain::Seconds(seconds) => writer.u8(KEPT_FOR).u32(seconds),
            Retain::Clear => writer.u8(CLEARED),
        };
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Retain> {
        match reader.u8()? {
            KEPT => Some(Retain::Always),
            KEPT_FOR => Some(Retain::Seconds(reader.u32()?)),
            CLEARED => Some(Retain::Clear),
            _ => None,
        }
    }
}

impl RetainedRecord {
    /// Returns the record that is written to find the end of the stream: the answer proves that a quorum has everything before it. It has
    /// no content, and a broker that does not know marks ignores it.
    pub fn mark() -> RetainedRecord {
        RetainedRecord { place: Place::START, retain: Retain::Clear, topic: String::new(), message: Vec::new() }
    }

    /// Whether it is a mark.
    pub fn is_mark(&self) -> bool {
        self.topic.is_empty()
    }

    /// Creates the record for a message of a group with this block. If it clears its topic, only the position is kept.
    pub(crate) fn of(place: Place, retain: Retain, topic: String, block: &[u8]) -> RetainedRecord {
        let stored = Publisher::split(block).filter(|_| retain != Retain::Clear).map(|(_, stored)| stored);
        let message = stored.unwrap_or_default().to_vec();
        RetainedRecord { place, retain, topic, message }
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(VERSION).u64(self.place.sequence.0).u32(self.place.index);
        self.retain.write(&mut writer);
        writer.block(self.topic.as_bytes()).block(&self.message);
        writer.0
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// The bytes are not a record of this version.
    pub fn decode(bytes: &[u8]) -> Result<RetainedRecord, RecordError> {
        read(bytes, "retained record", |reader| {
            let place = Place { sequence: Sequence(reader.u64()?), index: reader.u32()? };
            let retain = Retain::read(reader)?;
            Some(RetainedRecord { place, retain, topic: reader.text()?.to_owned(), message: reader.block()?.to_vec() })
        })
    }
}
