//! The state that an import builds.

use tautwire_protocol::PacketId;
use tautwire_session::{Change, PendingMessage, Record, Replay, RetainedChange, SessionNumber};

use crate::report::Report;

/// The imported state so far, and what was skipped.
#[derive(Default)]
pub(crate) struct ImportedState {
    pub(crate) replay: Replay,
    pub(crate) report: Report,
    /// The number of changes of retained messages.
    last_sequence: u64,
}

impl ImportedState {
    pub(crate) fn queue(&mut self, session: SessionNumber, pending: PendingMessage) {
        if self.change(session, Change::Queued(pending)) {
            self.report.queued += 1;
        }
    }

    pub(crate) fn sent(&mut self, session: SessionNumber, id: PacketId, pending: PendingMessage) {
        self.set_next_packet_id(session, id);
        if self.change_with(session, Change::Started(pending), Some(id)) {
            self.report.in_flight += 1;
        }
    }

    pub(crate) fn set_retained(&mut self, change: RetainedChange) {
        self.last_sequence += 1;
        let retained = Record::Retained { sequence: self.last_sequence, change: &change };
        let is_applied = self.replay.apply(&retained).is_ok();
        debug_assert!(is_applied, "the change concerns no session");
    }

    pub(crate) fn is_in_use(&self, session: SessionNumber, id: PacketId) -> bool {
        let outbound = self.replay.session_of(session).and_then(|replayed| replayed.session.outbound());
        outbound.is_some_and(|outbound| outbound.unacknowledged(id).is_some() || outbound.is_released(id))
    }

    /// Continues identifiers with `id`, which is free.
    pub(crate) fn set_next_packet_id(&mut self, session: SessionNumber, id: PacketId) {
        let next = self.replay.session_of(session).and_then(|replayed| replayed.session.next_packet_id());
        if next != Some(id) {
            self.change(session, Change::NextPacketId(id));
        }
    }

    pub(crate) fn change(&mut self, session: SessionNumber, change: Change) -> bool {
        self.change_with(session, change, None)
    }

    pub(crate) fn change_with(&mut self, session: SessionNumber, change: Change, packet_id: Option<PacketId>) -> bool {
        let is_applied = self.replay.apply(&Record::Changed { session, change: &change, packet_id }).is_ok();
        debug_assert!(is_applied, "the session exists, and the identifier is free");
        is_applied
    }
}
