//! A message on its way to a target.

use std::time::SystemTime;

use tautwire_client::Message;

use super::Identity;

/// A received message, encoded for its target.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) message: Message,
    pub(crate) identity: Option<Identity>,
    pub(crate) received_at: SystemTime,
    /// What the target gets: a row, a JSON object, or nothing if it gets the payload itself.
    pub(crate) encoded: Vec<u8>,
}

impl Record {
    pub(crate) fn new(message: Message) -> Record {
        let identity = Identity::of(&message);
        Record { message, identity, received_at: SystemTime::now(), encoded: Vec::new() }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.message.payload().len() + self.encoded.len()
    }
}
