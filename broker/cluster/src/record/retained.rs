//! What a topic retains: the value of its subject in the stream of retained messages.

use crate::bytes::{Reader, Writer};
use crate::operation::Sequence;

use super::{Place, Publisher, RecordError, VERSION, read};

const KEPT: u8 = 1;
const KEPT_FOR: u8 = 2;
const CLEARED: u8 = 3;

/// Where the stream of retained messages has its [mark](RetainedRecord::mark). No topic has this subject, since none is empty [MQTT-4.7.3-1].
pub const MARK_SUBJECT: &str = "=";

/// How a message with RETAIN is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retain {
    /// Until another one comes.
    Always,
    /// So long, by its Message Expiry Interval [MQTT-3.3.2-5].
    Seconds(u32),
    /// Not at all: its payload is empty, and the topic retains nothing any more [MQTT-3.3.1-6].
    Clear,
}

/// What the stream of retained messages has for one topic.
#[derive(Clone, PartialEq, Eq)]
pub struct RetainedRecord {
    /// Where the message stands in the log. A record is only ever replaced by one of a later place.
    pub place: Place,
    /// How it is kept.
    pub retain: Retain,
    /// The topic, since a subject may be a digest.
    pub topic: String,
    /// The message, as the engine of its publisher gave it; empty where the topic has been cleared.
    pub message: Vec<u8>,
}

impl std::fmt::Debug for RetainedRecord {
    /// Without topic and message.
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
    /// What is written to learn where the stream ends: whoever writes it knows by the answer that a quorum is that far. It says nothing, and a broker
    /// that does not know of marks takes it for that.
    pub fn mark() -> RetainedRecord {
        RetainedRecord { place: Place::START, retain: Retain::Clear, topic: String::new(), message: Vec::new() }
    }

    /// Whether it is that.
    pub fn is_mark(&self) -> bool {
        self.topic.is_empty()
    }

    /// What a message of a group becomes, whose block this is. Of one that clears its topic, only the place is kept.
    pub(crate) fn of(place: Place, retain: Retain, topic: String, block: &[u8]) -> RetainedRecord {
        let stored = Publisher::split(block).filter(|_| retain != Retain::Clear).map(|(_, stored)| stored);
        let message = stored.unwrap_or_default().to_vec();
        RetainedRecord { place, retain, topic, message }
    }

    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(VERSION).u64(self.place.sequence.0).u32(self.place.index);
        self.retain.write(&mut writer);
        writer.block(self.topic.as_bytes()).block(&self.message);
        writer.0
    }

    /// The record of these bytes.
    ///
    /// # Errors
    /// They are none of this version.
    pub fn decode(bytes: &[u8]) -> Result<RetainedRecord, RecordError> {
        read(bytes, "retained record", |reader| {
            let place = Place { sequence: Sequence(reader.u64()?), index: reader.u32()? };
            let retain = Retain::read(reader)?;
            Some(RetainedRecord { place, retain, topic: reader.text()?.to_owned(), message: reader.block()?.to_vec() })
        })
    }
}
