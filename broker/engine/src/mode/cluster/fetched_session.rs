//! A session that has just become this node's, while its messages are read.

use std::collections::HashMap;
use std::sync::Arc;

use tautwire_cluster::delivery::Span;
use tautwire_memory::MemoryLedger;
use tautwire_message::{Message, MessageRef};
use tautwire_protocol::PacketId;

use super::cluster_state::LogPlace;
use super::session_state::SessionState;

/// A session whose messages are being read.
#[derive(Debug)]
pub(crate) struct SessionFetch {
    /// As it came.
    pub(super) bytes: Vec<u8>,
    pub(super) taken: Vec<PacketId>,
    pub(super) state: SessionState,
    /// Messages that have not been looked for; the next is the last.
    pub(super) wanted: Vec<LogPlace>,
    pub(super) found: HashMap<LogPlace, Message>,
}

impl SessionFetch {
    pub(super) fn into_bytes(self: Box<SessionFetch>) -> Vec<u8> {
        self.bytes
    }

    /// Takes the wanted messages from a part of the log. Messages that are missing there are lost, and are no longer wanted.
    pub(super) fn take(&mut self, span: &Span, ledger: &Arc<MemoryLedger>) {
        let Some(first) = self.wanted.last().copied() else { return };
        let is_looked_for =
            |at: &LogPlace| at.partition == span.partition && first.place <= at.place && at.place.sequence < span.until;
        for (place, message) in span.messages_from(first.place) {
            let at = LogPlace { partition: span.partition, place };
            if self.wanted.binary_search_by(|wanted| at.cmp(wanted)).is_ok()
                && let Some(message) = read(at, message.stored)
            {
                self.found.insert(at, message.to_message_in(ledger));
            }
        }
        self.wanted.retain(|at| !is_looked_for(at));
    }
}

/// A message of the log, named by its place; `None` for one that is none.
pub(super) fn read(at: LogPlace, stored: &[u8]) -> Option<MessageRef<'_>> {
    let Some(parts) = MessageRef::read_stored(stored) else {
        log::error!("the log of the cluster has something at {at:?} that is no message; it is passed over");
        return None;
    };
    Some(MessageRef { id: at.to_id(), ..parts })
}
