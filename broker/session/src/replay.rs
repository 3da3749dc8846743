//! Rebuilds the state from the records of a log.

use std::collections::BTreeMap;
use std::fmt;

use tautwire_memory::MemoryFootprint;
use tautwire_message::{Body, Message, MessageId, Spilled};

use crate::change::Change;
use crate::forwarded::{ForwardedMessages, PendingForward};
use crate::journal::{Record, RetainedChange, SessionNumber, ShardNumber, ShardPlacement};
use crate::last_retained::LastRetained;
use crate::outbound::PendingMessage;
use crate::session::Session;

/// A session restored from the log.
#[derive(Debug, PartialEq)]
pub struct ReplayedSession {
    /// Its number in the log.
    pub number: SessionNumber,
    /// Its state.
    pub session: Session,
    /// When its client disconnected, in milliseconds of Unix time; `None` if it was connected when the log ended.
    pub disconnected_at_ms: Option<u64>,
}

/// The state restored from a log.
#[derive(Debug)]
pub struct ReplayedState {
    /// By number.
    pub sessions: Vec<ReplayedSession>,
    /// The retained messages.
    pub retained: LastRetained,
    /// Pending forwarded messages by receiving shard, in the order in which each sender forwarded them.
    pub pending_forwards: Vec<(ShardNumber, PendingForward)>,
    /// The placement of clients in the last run.
    pub homes: Option<ShardPlacement>,
    /// The sequence number of the last change of the retained messages.
    pub last_sequence: u64,
}

/// Inconsistent records: part of the log is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayError {
    /// A record refers to a session that has not begun, or has ended.
    UnknownSession(SessionNumber),
    /// A session begins with the number of another one.
    DuplicateSession(SessionNumber),
    /// A message of a session has another Packet Identifier than earlier records imply.
    PacketIdMismatch(SessionNumber),
}

impl ReplayError {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            ReplayError::UnknownSession(_) => "replay-unknown-session",
            ReplayError::DuplicateSession(_) => "replay-number-taken",
            ReplayError::PacketIdMismatch(_) => "replay-other-identifier",
        }
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::UnknownSession(SessionNumber(number)) => {
                write!(f, "a record refers to the unknown session {number}; part of the log is missing")
            }
            ReplayError::DuplicateSession(SessionNumber(number)) => {
                write!(f, "session {number} begins twice; part of the log is missing or duplicated")
            }
            ReplayError::PacketIdMismatch(SessionNumber(number)) => {
                write!(
                    f,
                    "a message of session {number} has an unexpected packet identifier; part of the log is missing"
                )
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// How many later changes may precede a change of the retained messages in the log, because shards write at the end of their turns.
pub const LATE_CHANGES_MAX: u64 = 1 << 20;

/// Applies records in the order of the log.
#[derive(Debug, Default, PartialEq)]
pub struct Replay {
    sessions: BTreeMap<SessionNumber, ReplayedSession>,
    retained: LastRetained,
    forwarded: ForwardedMessages,
    homes: Option<ShardPlacement>,
    last_session: SessionNumber,
    last_sequence: u64,
}

impl Replay {
    /// Applies the next record.
    ///
    /// # Errors
    /// The record is inconsistent with earlier ones. The state is unchanged.
    pub fn apply(&mut self, record: &Record<'_>) -> Result<(), ReplayError> {
        match *record {
            Record::Opened { session: number, client_id, .. } => {
                if self.sessions.contains_key(&number) {
                    return Err(ReplayError::DuplicateSession(number));
                }
                self.last_session = self.last_session.max(number);
                let replayed = ReplayedSession { number, session: Session::new(client_id), disconnected_at_ms: None };
                self.sessions.insert(number, replayed);
            }
            Record::Changed { session: number, change, packet_id } => {
                let session = &mut self.session(number)?.session;
                if packet_id.is_some() && session.next_packet_id() != packet_id {
                    return Err(ReplayError::PacketIdMismatch(number));
                }
                session.apply(change.clone());
            }
            Record::Returned { session: number, .. } => self.session(number)?.disconnected_at_ms = None,
            Record::Left { session: number, at_ms } => self.session(number)?.disconnected_at_ms = Some(at_ms),
            Record::Ended(number) => {
                self.sessions.remove(&number).ok_or(ReplayError::UnknownSession(number))?;
            }
            Record::Counted { last_session, last_sequence } => {
                self.last_session = self.last_session.max(last_session);
                self.last_sequence = self.last_sequence.max(last_sequence);
            }
            Record::RunStarted(homes) => {
                self.homes = Some(homes);
                self.forwarded.clear();
            }
            Record::Forwarded { from, to, sequence, message, receivers } => {
                self.forwarded.add((from, to), sequence, message, receivers);
            }
            Record::ForwardAccepted { from, to, sequence } => self.forwarded.take((from, to), sequence),
            Record::Retained { sequence, change } => {
                let (topic, message) = match change {
                    RetainedChange::Set(message) => (message.topic(), Some(message.clone().into())),
                    RetainedChange::Cleared(topic) => (&**topic, None),
                };
                self.last_sequence = self.last_sequence.max(sequence);
                self.retained.record(topic, sequence, message);
            }
        }
        Ok(())
    }

    fn session(&mut self, number: SessionNumber) -> Result<&mut ReplayedSession, ReplayError> {
        self.sessions.get_mut(&number).ok_or(ReplayError::UnknownSession(number))
    }

    /// Returns the highest session number so far.
    pub fn last_session(&self) -> SessionNumber {
        self.last_session
    }

    /// Returns the sequence number of the last change of the retained messages.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Returns the session with this number.
    pub fn session_of(&self, number: SessionNumber) -> Option<&ReplayedSession> {
        self.sessions.get(&number)
    }

    /// Returns all sessions, by number.
    pub fn sessions(&self) -> impl Iterator<Item = &ReplayedSession> {
        self.sessions.values()
    }

    /// Returns the approximate size of sessions and topics in bytes, without messages. Visits all sessions.
    pub fn held_bytes(&self) -> usize {
        let of_session = |session: &Session| session.footprint().iter().map(|(_, bytes)| bytes).sum::<usize>();
        let sessions = self.sessions.values();
        let of_sessions = sessions.map(|replayed| size_of::<ReplayedSession>() + of_session(&replayed.session));
        self.retained.held_bytes() + of_sessions.sum::<usize>()
    }

    /// Returns all retained messages.
    pub fn retained(&self) -> impl Iterator<Item = &Body> {
        self.retained.iter().map(|(_, _, body)| body)
    }

    /// Returns the number of the message appended last to a session's queue (see [`crate::Outbound::spill`]).
    pub fn last_queued(&self, number: SessionNumber) -> Option<u64> {
        let outbound = self.sessions.get(&number)?.session.outbound()?;
        (outbound.left_queue() + outbound.queued() as u64).checked_sub(1)
    }

    /// Replaces message `queued` of a session's queue by its spilled form.
    pub fn spill_queued(&mut self, number: SessionNumber, queued: u64, spilled: &Spilled) {
        let replayed = self.sessions.get_mut(&number);
        if let Some(outbound) = replayed.and_then(|replayed| replayed.session.outbound_mut()) {
            outbound.spill(queued, spilled);
        }
    }

    /// Returns the index of the topic whose retained message was changed last, for [`Replay::spill_retained`].
    pub fn last_retained(&self) -> usize {
        self.retained.last_recorded()
    }

    /// Replaces a retained message by its spilled form, if its topic still retains it.
    pub fn spill_retained(&mut self, place: usize, spilled: &Spilled) {
        self.retained.spill(place, spilled);
    }

    /// Passes the records that lead to this state to `visit`. All messages in them are in memory; `read` loads spilled ones.
    ///
    /// # Errors
    /// A message cannot be read. Not all records were visited.
    pub fn describe(
        &self,
        mut read: impl FnMut(&Spilled) -> Option<Message>,
        mut visit: impl FnMut(&Record<'_>),
    ) -> Result<(), UnreadableMessage> {
        let mut unread = None;
        visit(&Record::Counted { last_session: self.last_session, last_sequence: self.last_sequence });
        if let Some(homes) = self.homes {
            visit(&Record::RunStarted(homes));
        }
        for ReplayedSession { number, session, disconnected_at_ms } in self.sessions.values() {
            let number = *number;
            // The time when it began is not stored and not needed.
            visit(&Record::Opened { session: number, client_id: session.name(), at_ms: 0 });
            session.describe(|change, packet_id| match with_loaded_message(change, &mut read) {
                Ok(None) => visit(&Record::Changed { session: number, change, packet_id }),
                Ok(Some(change)) => visit(&Record::Changed { session: number, change: &change, packet_id }),
                Err(error) => unread = Some(error),
            });
            if let Some(at_ms) = *disconnected_at_ms {
                visit(&Record::Left { session: number, at_ms });
            }
        }
        for (topic, sequence, body) in self.retained.by_topic() {
            let change = match body {
                Some(body) => match loaded(body, &mut read) {
                    Ok(message) => RetainedChange::Set(message),
                    Err(error) => {
                        unread = Some(error);
                        continue;
                    }
                },
                None if self.last_sequence - sequence <= LATE_CHANGES_MAX => RetainedChange::Cleared(topic.into()),
                None => continue,
            };
            visit(&Record::Retained { sequence, change: &change });
        }
        self.forwarded.describe(&mut visit);
        unread.map_or(Ok(()), Err)
    }

    /// Returns a message that is being forwarded from one shard to another.
    pub fn forwarded_message(&self, id: MessageId) -> Option<&Message> {
        self.forwarded.message(id)
    }

    /// Returns the restored state.
    pub fn finish(self) -> ReplayedState {
        ReplayedState {
            sessions: self.sessions.into_values().collect(),
            retained: self.retained,
            pending_forwards: self.forwarded.finish(),
            homes: self.homes,
            last_sequence: self.last_sequence,
        }
    }
}

/// A spilled message that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadableMessage(pub MessageId);

impl fmt::Display for UnreadableMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read message {} from the spill directory; check the disk", self.0)
    }
}

impl std::error::Error for UnreadableMessage {}

fn loaded(body: &Body, read: &mut impl FnMut(&Spilled) -> Option<Message>) -> Result<Message, UnreadableMessage> {
    match body {
        Body::Loaded(message) => Ok(message.clone()),
        Body::Spilled(spilled) => read(spilled).ok_or(UnreadableMessage(spilled.id())),
    }
}

/// Returns the change with its message in memory, or `None` if it is already.
fn with_loaded_message(
    change: &Change,
    read: &mut impl FnMut(&Spilled) -> Option<Message>,
) -> Result<Option<Change>, UnreadableMessage> {
    let (Change::Queued(delivery) | Change::Started(delivery)) = change else { return Ok(None) };
    if delivery.message.spilled().is_none() {
        return Ok(None);
    }
    let delivery = PendingMessage { message: loaded(&delivery.message, read)?.into(), ..delivery.clone() };
    Ok(Some(match change {
        Change::Queued(_) => Change::Queued(delivery),
        _ => Change::Started(delivery),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Receivers;
    use tautwire_message::MessageRef;
    use tautwire_protocol::QoS;

    fn message(topic: &str, payload: &[u8]) -> Message {
        let (id, properties, qos) = (MessageId::NONE, &[][..], QoS::AtLeastOnce);
        MessageRef { id, topic, properties, payload, qos, retain: true, expires_at_ms: None }.to_message()
    }

    #[test]
    fn sessions_are_rebuilt_from_their_records() {
        let (one, two) = (SessionNumber(1), SessionNumber(2));
        let mut replay = Replay::default();
        let records = [
            Record::Opened { session: one, client_id: "a", at_ms: 5 },
            Record::Changed { session: one, change: &Change::ExpiryInterval(60), packet_id: None },
            Record::Opened { session: two, client_id: "b", at_ms: 6 },
            Record::Left { session: one, at_ms: 700 },
            Record::Ended(two),
        ];
        records.iter().for_each(|record| replay.apply(record).expect("consistent records"));
        assert_eq!(replay.last_session(), two, "the number is not reused");
        let sessions = replay.finish().sessions;
        let [only] = &sessions[..] else { panic!("{sessions:?}") };
        assert_eq!((only.session.client_id(), only.session.expiry_interval_s()), ("a", 60));
        assert_eq!((only.number, only.disconnected_at_ms), (one, Some(700)));
    }

    #[test]
    fn the_later_change_of_a_topic_wins_in_any_record_order() {
        let mut replay = Replay::default();
        let changes = [
            (3, RetainedChange::Set(message("t", b"new"))),
            (2, RetainedChange::Set(message("t", b"old"))),
            (5, RetainedChange::Cleared("u".into())),
            (4, RetainedChange::Set(message("u", b"gone"))),
        ];
        for (sequence, change) in &changes {
            replay.apply(&Record::Retained { sequence: *sequence, change }).expect("no session involved");
        }
        assert_eq!(replay.last_sequence(), 5);
        let retained = replay.finish().retained;
        let retained: Vec<_> = retained.iter().collect();
        let [("t", 3, body)] = retained[..] else { panic!("{retained:?}") };
        assert_eq!(body.loaded().map(Message::payload), Some(&b"new"[..]));
    }

    #[test]
    fn a_forwarded_message_is_pending_until_accepted_or_the_next_run() {
        let (one, two) = (ShardNumber(1), ShardNumber(2));
        let message = message("t", b"x");
        let forwarded = |from, to, sequence| Record::Forwarded {
            from,
            to,
            sequence,
            message: &message,
            receivers: Receivers::Subscribers,
        };
        let mut replay = Replay::default();
        let mut apply = |record: Record<'_>| replay.apply(&record).expect("no session involved");
        apply(Record::RunStarted(ShardPlacement { shards: 3, seed: 5 }));
        for sequence in 1..=3 {
            apply(forwarded(one, two, sequence));
        }
        apply(forwarded(two, one, 1));
        apply(Record::ForwardAccepted { from: one, to: two, sequence: 2 });
        let mut copy = Replay::default();
        let described = replay.describe(|_| None, |record| copy.apply(record).expect("consistent records"));
        assert_eq!(described, Ok(()));
        assert_eq!(copy, replay);
        let ReplayedState { pending_forwards, homes, .. } = copy.finish();
        let left: Vec<_> =
            pending_forwards.iter().map(|(to, pending_forwards)| (*to, pending_forwards.sequence)).collect();
        assert_eq!(left, [(two, 3), (one, 1)]);
        assert_eq!(homes, Some(ShardPlacement { shards: 3, seed: 5 }));
        replay.apply(&Record::RunStarted(ShardPlacement { shards: 1, seed: 6 })).expect("no session involved");
        assert_eq!(replay.finish().pending_forwards, []);
    }

    #[test]
    fn inconsistent_records_are_reported() {
        let mut replay = Replay::default();
        let number = SessionNumber(7);
        let unknown = ReplayError::UnknownSession(number);
        assert_eq!(replay.apply(&Record::Returned { session: number, at_ms: 0 }), Err(unknown));
        assert_eq!(replay.apply(&Record::Ended(number)), Err(unknown));
        let opened = Record::Opened { session: number, client_id: "a", at_ms: 0 };
        assert_eq!(replay.apply(&opened), Ok(()));
        assert_eq!(replay.apply(&opened), Err(ReplayError::DuplicateSession(number)));
        assert_eq!(unknown.code(), "replay-unknown-session");
    }
}
