//! A will in the record of its session. Any node that reads the record can publish it without further data.

use crate::bytes::{Reader, Writer};

use super::Retain;
use super::intent::{Intent, read_intent, write_intent};

/// A message to be published when the client's connection ends without DISCONNECT.
#[derive(Clone, PartialEq, Eq)]
pub struct Will {
    /// Will Delay Interval, in seconds [MQTT 5.0 section 3.1.3.2.2].
    pub delay_s: u32,
    /// The topic.
    pub topic: String,
    /// How to retain it, for a retained message.
    pub retain: Option<Retain>,
    /// The message in the form of the log.
    pub message: Vec<u8>,
}

/// A will to be published, whatever its client does from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueWill {
    /// The will.
    pub will: Will,
    /// Where the owner of the record will write it; `None` until the owner has chosen that.
    pub intent: Option<Intent>,
}

impl std::fmt::Debug for Will {
    /// Omits topic and message.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Will({} bytes, after {} s)", self.message.len(), self.delay_s)
    }
}

impl Will {
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.delay_s).block(self.topic.as_bytes());
        writer.option(self.retain, |writer, retain| retain.write(writer)).block(&self.message);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Will> {
        Some(Will {
            delay_s: reader.u32()?,
            topic: reader.text()?.to_owned(),
            retain: reader.option(Retain::read)?,
            message: reader.block()?.to_vec(),
        })
    }
}

impl DueWill {
    pub(super) fn write(&self, writer: &mut Writer) {
        self.will.write(writer);
        write_intent(self.intent, writer);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<DueWill> {
        Some(DueWill { will: Will::read(reader)?, intent: read_intent(reader)? })
    }
}
