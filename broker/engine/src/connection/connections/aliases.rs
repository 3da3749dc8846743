//! Topic aliases of one connection [MQTT 5.0 section 3.3.2.3.4].

use std::collections::HashMap;
use std::sync::Arc;

use tautwire_memory::{Charge, Kind, MemoryLedger};

/// How a PUBLISH names its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TopicAlias {
    /// By name only.
    None,
    /// By name, and sets the alias.
    Set(u16),
    /// By the alias only.
    Use(u16),
}

/// The aliases of both directions.
#[derive(Debug, Default)]
pub(super) struct TopicAliases {
    /// Set by the client [MQTT-3.3.2-12].
    incoming: HashMap<u16, Box<str>>,
    /// Set by the broker [MQTT-3.3.2-11].
    outgoing: HashMap<Box<str>, u16>,
    bytes: usize,
    charge: Option<Charge>,
}

/// Bytes of one alias besides its topic: its slot in a table that is half full.
const ALIAS_BYTES: usize = 64;

impl TopicAliases {
    /// Takes out the topic for which the client has set `alias`.
    pub(super) fn take_incoming(&mut self, alias: u16) -> Option<Box<str>> {
        let topic = self.incoming.remove(&alias)?;
        self.bytes -= ALIAS_BYTES + topic.len();
        Some(topic)
    }

    pub(super) fn store_incoming(&mut self, alias: u16, topic: Box<str>, ledger: &Arc<MemoryLedger>) {
        self.bytes += ALIAS_BYTES + topic.len();
        if let Some(replaced) = self.incoming.insert(alias, topic) {
            self.bytes -= ALIAS_BYTES + replaced.len();
        }
        self.update_charge(ledger);
    }

    fn update_charge(&mut self, ledger: &Arc<MemoryLedger>) {
        let bytes = self.bytes;
        self.charge.get_or_insert_with(|| Charge::new(ledger, Kind::Alias)).set(bytes);
    }

    /// The memory of all aliases.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How to name `topic` to a client that accepts aliases up to `maximum`.
    pub(super) fn outgoing_for(&self, topic: &str, maximum: u16) -> TopicAlias {
        if let Some(alias) = self.outgoing.get(topic) {
            return TopicAlias::Use(*alias);
        }
        let next = self.outgoing.len() + 1;
        if next <= usize::from(maximum) { TopicAlias::Set(next as u16) } else { TopicAlias::None }
    }

    pub(super) fn store_outgoing(&mut self, topic: &str, alias: u16, ledger: &Arc<MemoryLedger>) {
        self.outgoing.insert(topic.into(), alias);
        self.bytes += ALIAS_BYTES + topic.len();
        self.update_charge(ledger);
    }
}
