//! A session that this shard serves: what its client is told later, and what is to be saved.

use std::collections::VecDeque;

use tautwire_cluster::delivery::Slot;
use tautwire_cluster::names::{ClientKey, GroupKey};
use tautwire_protocol::PacketId;
use tautwire_session::LogPosition;

use super::queue::pop_front_if;
use crate::place::ConnectionId;

/// Something that has to come true before the client is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The message with this ticket is in the log. It has so many bytes.
    Stored { ticket: u64, bytes: usize, answering: Answering },
    /// The identifier of a QoS 2 message is free.
    Completed(PacketId),
    /// What was to be saved with this number is.
    Saved(u64),
    /// The session is a member of a group.
    Joined(GroupKey),
    /// The cluster has answered this question: all nodes know what is listened to.
    Spread(u64),
}

/// When the publisher of a message is told that it has been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answering {
    /// It is of QoS 0.
    Never,
    /// Before the log has it.
    AtOnce,
    WhenStored,
}

impl Awaited {
    fn bytes(self) -> usize {
        if let Awaited::Stored { bytes, .. } = self { bytes } else { 0 }
    }
}

/// A session of this shard that the record in the store says is this node's.
#[derive(Debug)]
pub(crate) struct Served {
    pub(super) client: ClientKey,
    /// Of the claim: it grows with each claim of the session.
    epoch: u64,
    /// What it is called among those who follow the log.
    pub(super) slot: Slot,
    /// The session outlives its connection.
    pub(super) is_kept: bool,
    /// Bytes of its filters in its state, once somebody has asked.
    pub(super) filter_bytes: Option<usize>,
    /// The cluster does not know what holds when the connection ends.
    pub(super) are_terms_changed: bool,
    /// The connection whose CONNECT waits for the session.
    pub(super) claimed_by: Option<ConnectionId>,
    /// Number of the last thing that was awaited.
    last: u64,
    /// What is awaited, in order, and whether it has come true. The first has not.
    awaited: VecDeque<(u64, Awaited, bool)>,
    /// Messages that will never be in the log, and whose publisher has not been told so.
    refused: VecDeque<u64>,
    /// The ticket of the last such message.
    last_refused: u64,
    pub(super) saving: Saving,
    /// The number of the message that was given to the session last.
    pub(super) last_given: u64,
}

/// What is to be saved.
#[derive(Debug, Default)]
pub(super) struct Saving {
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

impl Served {
    pub(super) fn new(client: ClientKey, (connection, epoch): (ConnectionId, u64), slot: Slot) -> Served {
        Served {
            client,
            epoch,
            slot,
            is_kept: false,
            filter_bytes: None,
            are_terms_changed: false,
            claimed_by: Some(connection),
            last: 0,
            awaited: VecDeque::new(),
            refused: VecDeque::new(),
            last_refused: 0,
            saving: Saving::default(),
            last_given: 0,
        }
    }

    pub(crate) fn client(&self) -> ClientKey {
        self.client
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    // What is awaited.

    /// What an acknowledgement waits for that is made now.
    pub(crate) fn promise(&self) -> LogPosition {
        LogPosition(self.last)
    }

    /// Up to here all has come true.
    pub(crate) fn reached(&self) -> LogPosition {
        LogPosition(self.awaited.front().map_or(self.last, |(number, ..)| number - 1))
    }

    /// How much has not come true, or stands behind something that has not.
    pub(crate) fn awaits(&self) -> usize {
        self.awaited.len()
    }

    /// The ticket that the next message gets.
    pub(super) fn next_ticket(&self) -> u64 {
        self.last + 1
    }

    /// The last ticket that is known to be refused.
    pub(super) fn last_refused(&self) -> u64 {
        self.last_refused
    }

    pub(super) fn await_this(&mut self, awaited: Awaited) {
        self.last += 1;
        self.awaited.push_back((self.last, awaited, false));
    }

    /// The message with this ticket is in the log; gives its bytes.
    pub(super) fn stored(&mut self, stored: u64) -> usize {
        self.comes_true(|awaited| matches!(awaited, Awaited::Stored { ticket, .. } if *ticket == stored))
            .map_or(0, |awaited| awaited.bytes())
    }

    /// The message with this ticket will never be in the log; gives its bytes, and when its publisher is told, or was.
    pub(super) fn not_stored(&mut self, refused: u64) -> (usize, Answering) {
        let found = self.awaited.iter().find_map(|(number, awaited, is_true)| match awaited {
            Awaited::Stored { ticket, answering, .. } if *ticket == refused && !is_true => Some((*number, *answering)),
            _ => None,
        });
        self.refused
            .extend(found.filter(|(_, answering)| *answering == Answering::WhenStored).map(|(number, _)| number));
        self.last_refused = self.last_refused.max(refused);
        (self.stored(refused), found.map_or(Answering::Never, |(_, answering)| answering))
    }

    /// How many messages have been acknowledged that may not be in the log.
    pub(crate) fn answered_too_early(&self) -> u64 {
        let is_meant = |(_, awaited, is_true): &&(u64, Awaited, bool)| {
            !is_true && matches!(awaited, Awaited::Stored { answering: Answering::AtOnce, .. })
        };
        self.awaited.iter().filter(is_meant).count() as u64
    }

    /// Whether the answer to a message that has waited for this is that it is refused. It is given once.
    pub(super) fn take_refused(&mut self, until: LogPosition) -> bool {
        pop_front_if(&mut self.refused, |number| LogPosition(*number) == until).is_some()
    }

    /// An identifier is free.
    pub(super) fn completed(&mut self, packet_id: PacketId) {
        self.comes_true(|awaited| *awaited == Awaited::Completed(packet_id));
    }

    /// What was to be saved with this number is, and all before.
    pub(super) fn saved(&mut self, number: u64) {
        self.saving.is_under_way = false;
        let is_saved = |awaited: &Awaited| matches!(awaited, Awaited::Saved(saved) if *saved <= number);
        while self.comes_true(is_saved).is_some() {}
        self.shrink();
    }

    /// The session is a member of a group, however often that is awaited.
    pub(super) fn joined(&mut self, group: GroupKey) {
        while self.comes_true(|awaited| *awaited == Awaited::Joined(group)).is_some() {}
        self.shrink();
    }

    /// The answer to a question is awaited, once. Says whether it was not before.
    pub(super) fn await_spread(&mut self, ticket: u64) -> bool {
        let is_awaited = self.awaited.iter().any(|(_, awaited, _)| *awaited == Awaited::Spread(ticket));
        if !is_awaited {
            self.await_this(Awaited::Spread(ticket));
        }
        !is_awaited
    }

    /// A question is answered.
    pub(super) fn spread(&mut self, ticket: u64) {
        self.comes_true(|awaited| *awaited == Awaited::Spread(ticket));
        self.shrink();
    }

    /// Most sessions await nothing after what is saved when they begin.
    fn shrink(&mut self) {
        if self.awaited.is_empty() {
            self.awaited = VecDeque::new();
        }
    }

    /// The first that is meant has come true.
    fn comes_true(&mut self, is_meant: impl Fn(&Awaited) -> bool) -> Option<Awaited> {
        let found = self.awaited.iter_mut().find(|(_, awaited, is_true)| !*is_true && is_meant(awaited))?;
        found.2 = true;
        let awaited = found.1;
        while self.awaited.front().is_some_and(|(_, _, is_true)| *is_true) {
            self.awaited.pop_front();
        }
        Some(awaited)
    }

    /// Bytes of messages that are not in the log.
    pub(super) fn publishing_bytes(&self) -> usize {
        self.awaited.iter().filter(|(_, _, is_true)| !is_true).map(|(_, awaited, _)| awaited.bytes()).sum()
    }

    // What is saved.

    /// An acknowledgement waits for the next `Save`.
    pub(super) fn await_save(&mut self) {
        self.saving.is_wanted = true;
        if !std::mem::replace(&mut self.saving.is_awaited, true) {
            self.await_this(Awaited::Saved(self.saving.last + 1));
        }
    }

    /// The number of a `Save` that goes out now.
    pub(super) fn begin_save(&mut self, passed: u64) -> u64 {
        let last = self.saving.last + 1;
        self.saving = Saving { last, is_under_way: true, passed, ..Saving::default() };
        last
    }
}
