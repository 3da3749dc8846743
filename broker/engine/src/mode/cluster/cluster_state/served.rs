//! A session that this shard serves, with its pending events and saves.

use std::collections::VecDeque;

use tautwire_cluster::delivery::Slot;
use tautwire_cluster::names::{ClientKey, GroupKey};
use tautwire_protocol::PacketId;
use tautwire_session::LogPosition;

use super::queue::pop_front_if;
use crate::index::ConnectionId;

/// An event that acknowledgements wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingEvent {
    /// The message with this ticket and size is in the log.
    Stored { ticket: u64, bytes: usize, ack_timing: AckTiming },
    /// The packet identifier of a QoS 2 message is free.
    Completed(PacketId),
    /// The save with this number is complete.
    Saved(u64),
    /// The session is a member of a group.
    Joined(GroupKey),
    /// The request with this ticket is answered: all nodes know the announced filters.
    InterestSync(u64),
}

/// When a message is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AckTiming {
    /// A message of QoS 0.
    Never,
    /// Before the log has stored it.
    Immediate,
    /// Likewise, but after the acknowledgements of earlier messages. If one of these is refused, a client of 3.1.1 is disconnected, and
    /// sends both again.
    InOrder,
    WhenStored,
}

impl PendingEvent {
    fn bytes(self) -> usize {
        if let PendingEvent::Stored { bytes, .. } = self { bytes } else { 0 }
    }
}

/// A session of this shard whose record in the store names this node. There are many, and most are idle.
#[derive(Debug)]
pub(crate) struct ServedSession {
    pub(super) client: ClientKey,
    /// The epoch of the claim, which increases with each claim of the session.
    epoch: u64,
    /// Its slot among the followers of the log.
    pub(super) slot: Slot,
    /// The session outlives its connection.
    pub(super) is_persisted: bool,
    /// The settings for the end of the connection have changed since they were sent.
    pub(super) are_disconnect_settings_changed: bool,
    /// Bytes of its filters in its state, once they were counted. The store's servers limit the size of a state.
    filter_bytes: Option<u32>,
    /// The number of the last pending event.
    last: u64,
    /// State that few sessions have at a time.
    pending_state: Option<Box<PendingState>>,
    pub(super) saving: SaveState,
    /// The number of the last message that the session got.
    pub(super) last_delivered: u64,
}

const _: () = assert!(size_of::<ServedSession>() <= 88);

/// The state of a session while its client waits for CONNACK or events are pending.
#[derive(Debug, Default)]
struct PendingState {
    /// The connection whose CONNECT waits for the session.
    claimed_by: Option<ConnectionId>,
    /// Pending events in order, and whether each has occurred. The first has not.
    awaited: VecDeque<(u64, PendingEvent, bool)>,
    /// Messages that will never be in the log, and whose refusal was not sent to the publisher.
    refused: VecDeque<u64>,
    /// The ticket of the last such message.
    last_refused: u64,
}

/// The state of a session's saves.
#[derive(Debug, Default)]
pub(super) struct SaveState {
    /// The number of the last `Save` that was sent.
    last: u64,
    pub(super) is_under_way: bool,
    /// A save is requested.
    pub(super) is_wanted: bool,
    /// Makes later acknowledgements wait for the next `Save`.
    is_awaited: bool,
    /// Acknowledgements of the client since the last save.
    pub(super) unsaved: u32,
    /// The number of live spans that this shard had routed at the last save.
    pub(super) routed_spans: u64,
}

impl ServedSession {
    pub(super) fn new(client: ClientKey, (connection, epoch): (ConnectionId, u64), slot: Slot) -> ServedSession {
        ServedSession {
            client,
            epoch,
            slot,
            is_persisted: false,
            are_disconnect_settings_changed: false,
            filter_bytes: None,
            last: 0,
            pending_state: Some(Box::new(PendingState { claimed_by: Some(connection), ..PendingState::default() })),
            saving: SaveState::default(),
            last_delivered: 0,
        }
    }

    pub(crate) fn client(&self) -> ClientKey {
        self.client
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The bytes of its filters in its state; calls `count` if they are not known.
    pub(super) fn filter_bytes(&mut self, count: impl FnOnce() -> usize) -> usize {
        let count = || u32::try_from(count()).unwrap_or(u32::MAX);
        *self.filter_bytes.get_or_insert_with(count) as usize
    }

    /// Counts a new filter, or one that was removed.
    pub(super) fn count_filter(&mut self, bytes: usize, has_come: bool) {
        if let Some(known) = &mut self.filter_bytes {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            *known = if has_come { known.saturating_add(bytes) } else { known.saturating_sub(bytes) };
        }
    }

    /// The connection whose CONNECT waits for the session.
    pub(super) fn claimed_by(&self) -> Option<ConnectionId> {
        self.pending_state.as_ref()?.claimed_by
    }

    /// Clears the connection whose CONNECT waited.
    pub(super) fn clear_claim(&mut self) {
        if let Some(pending_state) = &mut self.pending_state {
            pending_state.claimed_by = None;
            self.settle();
        }
    }

    // Pending events.

    fn awaited(&self) -> impl Iterator<Item = &(u64, PendingEvent, bool)> {
        self.pending_state.iter().flat_map(|pending_state| &pending_state.awaited)
    }

    /// The position that a new acknowledgement waits for.
    pub(crate) fn last_position(&self) -> LogPosition {
        LogPosition(self.last)
    }

    /// All events up to this position have occurred.
    pub(crate) fn reached(&self) -> LogPosition {
        LogPosition(self.awaited().next().map_or(self.last, |(number, ..)| number - 1))
    }

    /// The number of events that have not occurred, or follow one that has not.
    pub(crate) fn pending_events(&self) -> usize {
        self.pending_state.as_ref().map_or(0, |pending_state| pending_state.awaited.len())
    }

    /// The ticket of the next message.
    pub(super) fn next_ticket(&self) -> u64 {
        self.last + 1
    }

    /// The last ticket that was refused.
    pub(super) fn last_refused(&self) -> u64 {
        self.pending_state.as_ref().map_or(0, |pending_state| pending_state.last_refused)
    }

    pub(super) fn push_pending(&mut self, awaited: PendingEvent) {
        self.last += 1;
        self.pending_state.get_or_insert_default().awaited.push_back((self.last, awaited, false));
    }

    /// Records that the message with this ticket is in the log; returns its size in bytes.
    pub(super) fn record_stored(&mut self, stored: u64) -> usize {
        self.complete_pending(|awaited| matches!(awaited, PendingEvent::Stored { ticket, .. } if *ticket == stored))
            .map_or(0, |awaited| awaited.bytes())
    }

    /// Records that the message with this ticket will never be in the log; returns its size in bytes, and when it is or was acknowledged.
    pub(super) fn record_not_stored(&mut self, refused: u64) -> (usize, AckTiming) {
        let found = self.awaited().find_map(|(number, awaited, has_occurred)| match awaited {
            PendingEvent::Stored { ticket, ack_timing, .. } if *ticket == refused && !has_occurred => {
                Some((*number, *ack_timing))
            }
            _ => None,
        });
        let pending_state = self.pending_state.get_or_insert_default();
        let sends_refusal = found.filter(|(_, ack_timing)| *ack_timing == AckTiming::WhenStored);
        pending_state.refused.extend(sends_refusal.map(|(number, _)| number));
        pending_state.last_refused = pending_state.last_refused.max(refused);
        (self.record_stored(refused), found.map_or(AckTiming::Never, |(_, ack_timing)| ack_timing))
    }

    /// The number of messages that were acknowledged and may not be in the log.
    pub(crate) fn acknowledged_before_stored(&self) -> u64 {
        let is_match = |(_, awaited, has_occurred): &&(u64, PendingEvent, bool)| {
            !has_occurred
                && matches!(awaited, PendingEvent::Stored { ack_timing: AckTiming::Immediate | AckTiming::InOrder, .. })
        };
        self.awaited().filter(is_match).count() as u64
    }

    /// Returns once whether the message with this position was refused.
    pub(super) fn take_refused(&mut self, until: LogPosition) -> bool {
        let Some(pending_state) = &mut self.pending_state else { return false };
        pop_front_if(&mut pending_state.refused, |number| LogPosition(*number) == until).is_some()
    }

    /// Records that a packet identifier is free.
    pub(super) fn record_completed(&mut self, packet_id: PacketId) {
        self.complete_pending(|awaited| *awaited == PendingEvent::Completed(packet_id));
    }

    /// Records that the save with this number is complete, and all earlier ones.
    pub(super) fn record_saved(&mut self, number: u64) {
        self.saving.is_under_way = false;
        let is_saved = |awaited: &PendingEvent| matches!(awaited, PendingEvent::Saved(saved) if *saved <= number);
        while self.complete_pending(is_saved).is_some() {}
        self.settle();
    }

    /// Records that the session is a member of a group, for all pending joins of it.
    pub(super) fn record_joined(&mut self, group: GroupKey) {
        while self.complete_pending(|awaited| *awaited == PendingEvent::Joined(group)).is_some() {}
        self.settle();
    }

    /// Waits for the answer to a request, once. Returns whether it did not wait before.
    pub(super) fn await_interest_sync(&mut self, ticket: u64) -> bool {
        let is_awaited = self.awaited().any(|(_, awaited, _)| *awaited == PendingEvent::InterestSync(ticket));
        if !is_awaited {
            self.push_pending(PendingEvent::InterestSync(ticket));
        }
        !is_awaited
    }

    /// Records the answer to a request.
    pub(super) fn sync_interest(&mut self, ticket: u64) {
        self.complete_pending(|awaited| *awaited == PendingEvent::InterestSync(ticket));
        self.settle();
    }

    /// Frees the pending state: most sessions have none after their first save.
    fn settle(&mut self) {
        let is_settled = |pending_state: &mut Box<PendingState>| {
            let PendingState { claimed_by, awaited, refused, last_refused } = &**pending_state;
            claimed_by.is_none() && awaited.is_empty() && refused.is_empty() && *last_refused == 0
        };
        self.pending_state.take_if(is_settled);
    }

    /// Marks the first matching event as occurred.
    fn complete_pending(&mut self, is_match: impl Fn(&PendingEvent) -> bool) -> Option<PendingEvent> {
        let events = &mut self.pending_state.as_mut()?.awaited;
        let found = events.iter_mut().find(|(_, awaited, has_occurred)| !*has_occurred && is_match(awaited))?;
        found.2 = true;
        let awaited = found.1;
        while pop_front_if(events, |(_, _, has_occurred)| *has_occurred).is_some() {}
        Some(awaited)
    }

    /// Bytes of messages that are not in the log yet.
    pub(super) fn publishing_bytes(&self) -> usize {
        self.awaited().filter(|(_, _, has_occurred)| !has_occurred).map(|(_, awaited, _)| awaited.bytes()).sum()
    }

    // Saves.

    /// An acknowledgement waits for the next `Save`.
    pub(super) fn await_save(&mut self) {
        self.saving.is_wanted = true;
        if !std::mem::replace(&mut self.saving.is_awaited, true) {
            self.push_pending(PendingEvent::Saved(self.saving.last + 1));
        }
    }

    /// Begins a `Save` and returns its number.
    pub(super) fn begin_save(&mut self, routed_spans: u64) -> u64 {
        let last = self.saving.last + 1;
        self.saving = SaveState { last, is_under_way: true, routed_spans, ..SaveState::default() };
        last
    }
}
