//! A session that this shard serves: what its client is told later, and what is to be saved.

use std::collections::VecDeque;

use tautwire_cluster::delivery::Slot;
use tautwire_cluster::names::{ClientKey, GroupKey};
use tautwire_protocol::PacketId;
use tautwire_session::LogPosition;

use super::queue::pop_front_if;
use crate::index::ConnectionId;

/// Something that has to come true before the client is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingEvent {
    /// The message with this ticket is in the log. It has so many bytes.
    Stored { ticket: u64, bytes: usize, answering: AckTiming },
    /// The identifier of a QoS 2 message is free.
    Completed(PacketId),
    /// What was to be saved with this number is.
    Saved(u64),
    /// The session is a member of a group.
    Joined(GroupKey),
    /// The cluster has answered this question: all nodes know what is listened to.
    InterestSync(u64),
}

/// When the publisher of a message is told that it has been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AckTiming {
    /// It is of QoS 0.
    Never,
    /// Before the log has it.
    Immediate,
    /// Likewise, but behind answers to earlier messages. If one of these is refused, a client of 3.1.1 is disconnected, and sends both again.
    InOrder,
    WhenStored,
}

impl PendingEvent {
    fn bytes(self) -> usize {
        if let PendingEvent::Stored { bytes, .. } = self { bytes } else { 0 }
    }
}

/// A session of this shard that the record in the store says is this node's. There are many, and most do nothing.
#[derive(Debug)]
pub(crate) struct ServedSession {
    pub(super) client: ClientKey,
    /// Of the claim: it grows with each claim of the session.
    epoch: u64,
    /// What it is called among those who follow the log.
    pub(super) slot: Slot,
    /// The session outlives its connection.
    pub(super) is_persisted: bool,
    /// The cluster does not know what holds when the connection ends.
    pub(super) are_disconnect_settings_changed: bool,
    /// Bytes of its filters in its state, once somebody has asked. No state is larger than what the servers of the store take in one piece.
    filter_bytes: Option<u32>,
    /// Number of the last thing that was awaited.
    last: u64,
    /// Where there is something that few sessions have at a time.
    unsettled: Option<Box<PendingState>>,
    pub(super) saving: SaveState,
    /// The number of the message that was given to the session last.
    pub(super) last_given: u64,
}

const _: () = assert!(size_of::<ServedSession>() <= 88);

/// What a session has while its client is being let in, and while something is under way.
#[derive(Debug, Default)]
struct PendingState {
    /// The connection whose CONNECT waits for the session.
    claimed_by: Option<ConnectionId>,
    /// What is awaited, in order, and whether it has come true. The first has not.
    awaited: VecDeque<(u64, PendingEvent, bool)>,
    /// Messages that will never be in the log, and whose publisher has not been told so.
    refused: VecDeque<u64>,
    /// The ticket of the last such message.
    last_refused: u64,
}

/// What is to be saved.
#[derive(Debug, Default)]
pub(super) struct SaveState {
    /// The number of the last `Save` that went out.
    pub(super) last: u64,
    pub(super) is_under_way: bool,
    /// Something has changed that is to go out as soon as it can.
    pub(super) is_wanted: bool,
    /// An acknowledgement waits for the next one.
    is_awaited: bool,
    /// Acknowledgements of the client that are not saved.
    pub(super) unsaved: u32,
    /// Spans that this shard had passed when the session was saved last.
    pub(super) passed: u64,
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
            unsettled: Some(Box::new(PendingState { claimed_by: Some(connection), ..PendingState::default() })),
            saving: SaveState::default(),
            last_given: 0,
        }
    }

    pub(crate) fn client(&self) -> ClientKey {
        self.client
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Bytes of its filters in its state; `count` counts them where they are not known.
    pub(super) fn filter_bytes(&mut self, count: impl FnOnce() -> usize) -> usize {
        let count = || u32::try_from(count()).unwrap_or(u32::MAX);
        *self.filter_bytes.get_or_insert_with(count) as usize
    }

    /// A filter has come or gone.
    pub(super) fn count_filter(&mut self, bytes: usize, has_come: bool) {
        if let Some(known) = &mut self.filter_bytes {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            *known = if has_come { known.saturating_add(bytes) } else { known.saturating_sub(bytes) };
        }
    }

    /// The connection whose CONNECT waits for the session.
    pub(super) fn claimed_by(&self) -> Option<ConnectionId> {
        self.unsettled.as_ref()?.claimed_by
    }

    /// No CONNECT waits any more.
    pub(super) fn let_in(&mut self) {
        if let Some(unsettled) = &mut self.unsettled {
            unsettled.claimed_by = None;
            self.settle();
        }
    }

    // What is awaited.

    fn awaited(&self) -> impl Iterator<Item = &(u64, PendingEvent, bool)> {
        self.unsettled.iter().flat_map(|unsettled| &unsettled.awaited)
    }

    /// What an acknowledgement waits for that is made now.
    pub(crate) fn promise(&self) -> LogPosition {
        LogPosition(self.last)
    }

    /// Up to here all has come true.
    pub(crate) fn reached(&self) -> LogPosition {
        LogPosition(self.awaited().next().map_or(self.last, |(number, ..)| number - 1))
    }

    /// How much has not come true, or stands behind something that has not.
    pub(crate) fn awaits(&self) -> usize {
        self.unsettled.as_ref().map_or(0, |unsettled| unsettled.awaited.len())
    }

    /// The ticket that the next message gets.
    pub(super) fn next_ticket(&self) -> u64 {
        self.last + 1
    }

    /// The last ticket that is known to be refused.
    pub(super) fn last_refused(&self) -> u64 {
        self.unsettled.as_ref().map_or(0, |unsettled| unsettled.last_refused)
    }

    pub(super) fn push_pending(&mut self, awaited: PendingEvent) {
        self.last += 1;
        self.unsettled.get_or_insert_default().awaited.push_back((self.last, awaited, false));
    }

    /// The message with this ticket is in the log; gives its bytes.
    pub(super) fn stored(&mut self, stored: u64) -> usize {
        self.complete_pending(|awaited| matches!(awaited, PendingEvent::Stored { ticket, .. } if *ticket == stored))
            .map_or(0, |awaited| awaited.bytes())
    }

    /// The message with this ticket will never be in the log; gives its bytes, and when its publisher is told, or was.
    pub(super) fn not_stored(&mut self, refused: u64) -> (usize, AckTiming) {
        let found = self.awaited().find_map(|(number, awaited, is_true)| match awaited {
            PendingEvent::Stored { ticket, answering, .. } if *ticket == refused && !is_true => {
                Some((*number, *answering))
            }
            _ => None,
        });
        let unsettled = self.unsettled.get_or_insert_default();
        let is_told = found.filter(|(_, answering)| *answering == AckTiming::WhenStored);
        unsettled.refused.extend(is_told.map(|(number, _)| number));
        unsettled.last_refused = unsettled.last_refused.max(refused);
        (self.stored(refused), found.map_or(AckTiming::Never, |(_, answering)| answering))
    }

    /// How many messages have been acknowledged that may not be in the log.
    pub(crate) fn acknowledged_before_stored(&self) -> u64 {
        let is_meant = |(_, awaited, is_true): &&(u64, PendingEvent, bool)| {
            !is_true
                && matches!(awaited, PendingEvent::Stored { answering: AckTiming::Immediate | AckTiming::InOrder, .. })
        };
        self.awaited().filter(is_meant).count() as u64
    }

    /// Whether the answer to a message that has waited for this is that it is refused. It is given once.
    pub(super) fn take_refused(&mut self, until: LogPosition) -> bool {
        let Some(unsettled) = &mut self.unsettled else { return false };
        pop_front_if(&mut unsettled.refused, |number| LogPosition(*number) == until).is_some()
    }

    /// An identifier is free.
    pub(super) fn completed(&mut self, packet_id: PacketId) {
        self.complete_pending(|awaited| *awaited == PendingEvent::Completed(packet_id));
    }

    /// What was to be saved with this number is, and all before.
    pub(super) fn saved(&mut self, number: u64) {
        self.saving.is_under_way = false;
        let is_saved = |awaited: &PendingEvent| matches!(awaited, PendingEvent::Saved(saved) if *saved <= number);
        while self.complete_pending(is_saved).is_some() {}
        self.settle();
    }

    /// The session is a member of a group, however often that is awaited.
    pub(super) fn joined(&mut self, group: GroupKey) {
        while self.complete_pending(|awaited| *awaited == PendingEvent::Joined(group)).is_some() {}
        self.settle();
    }

    /// The answer to a question is awaited, once. Says whether it was not before.
    pub(super) fn await_interest_sync(&mut self, ticket: u64) -> bool {
        let is_awaited = self.awaited().any(|(_, awaited, _)| *awaited == PendingEvent::InterestSync(ticket));
        if !is_awaited {
            self.push_pending(PendingEvent::InterestSync(ticket));
        }
        !is_awaited
    }

    /// A question is answered.
    pub(super) fn sync_interest(&mut self, ticket: u64) {
        self.complete_pending(|awaited| *awaited == PendingEvent::InterestSync(ticket));
        self.settle();
    }

    /// Most sessions await nothing after what is saved when they begin.
    fn settle(&mut self) {
        let is_settled = |unsettled: &mut Box<PendingState>| {
            let PendingState { claimed_by, awaited, refused, last_refused } = &**unsettled;
            claimed_by.is_none() && awaited.is_empty() && refused.is_empty() && *last_refused == 0
        };
        self.unsettled.take_if(is_settled);
    }

    /// The first that is meant has come true.
    fn complete_pending(&mut self, is_meant: impl Fn(&PendingEvent) -> bool) -> Option<PendingEvent> {
        let line = &mut self.unsettled.as_mut()?.awaited;
        let found = line.iter_mut().find(|(_, awaited, is_true)| !*is_true && is_meant(awaited))?;
        found.2 = true;
        let awaited = found.1;
        while pop_front_if(line, |(_, _, is_true)| *is_true).is_some() {}
        Some(awaited)
    }

    /// Bytes of messages that are not in the log.
    pub(super) fn publishing_bytes(&self) -> usize {
        self.awaited().filter(|(_, _, is_true)| !is_true).map(|(_, awaited, _)| awaited.bytes()).sum()
    }

    // What is saved.

    /// An acknowledgement waits for the next `Save`.
    pub(super) fn await_save(&mut self) {
        self.saving.is_wanted = true;
        if !std::mem::replace(&mut self.saving.is_awaited, true) {
            self.push_pending(PendingEvent::Saved(self.saving.last + 1));
        }
    }

    /// The number of a `Save` that goes out now.
    pub(super) fn begin_save(&mut self, passed: u64) -> u64 {
        let last = self.saving.last + 1;
        self.saving = SaveState { last, is_under_way: true, passed, ..SaveState::default() };
        last
    }
}
