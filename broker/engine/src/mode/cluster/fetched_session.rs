//! A session that was just claimed, while its in-flight messages are read from the log.

use std::collections::HashMap;
use std::sync::Arc;

use tautwire_cluster::delivery::Span;
use tautwire_memory::MemoryLedger;
use tautwire_message::{Message, MessageRef};
use tautwire_protocol::PacketId;

use super::cluster_state::LogPlace;
use super::session_state::SessionState;

/// A session whose in-flight messages are being read from the log.
#[derive(Debug)]
pub(crate) struct SessionFetch {
    /// The encoded state, as the cluster sent it.
    pub(super) bytes: Vec<u8>,
    pub(super) taken: Vec<PacketId>,
    pub(super) state: SessionState,
    /// Messages that have not been read yet; the next one to read is the last.
    pub(super) wanted: Vec<LogPlace>,
    pub(super) found: HashMap<LogPlace, Message>,
}

impl SessionFetch {
    pub(super) fn into_bytes(self: Box<SessionFetch>) -> Vec<u8> {
        self.bytes
    }

    /// Takes the wanted messages from a part of the log. Those missing from it are lost and no longer wanted.
    pub(super) fn take(&mut self, span: &Span, ledger: &Arc<MemoryLedger>) {
        let Some(first) = self.wanted.last().copied() else { return };
        let is_covered =
            |at: &LogPlace| at.partition == span.partition && first.place <= at.place && at.place.sequence < span.until;
        for (place, message) in span.messages_from(first.place) {
            let at = LogPlace { partition: span.partition, place };
            if self.wanted.binary_search_by(|wanted| at.cmp(wanted)).is_ok()
                && let Some(message) = read_message(at, message.stored)
            {
                self.found.insert(at, message.to_message_in(ledger));
            }
        }
        self.wanted.retain(|at| !is_covered(at));
    }
}

/// Reads a message of the log, whose identity is its place; `None` if it is invalid.
pub(super) fn read_message(at: LogPlace, stored: &[u8]) -> Option<MessageRef<'_>> {
    let Some(parts) = MessageRef::read_stored(stored) else {
        log::error!("skipped an unreadable message in the log of the cluster at {at:?}");
        return None;
    };
    Some(MessageRef { id: at.to_id(), ..parts })
}
