//! All state, from the records of a log alone.

use std::collections::BTreeMap;
use std::fmt;

use tautwire_message::Message;

use crate::journal::{Record, RetainedChange, SessionNumber};
use crate::session::Session;

/// A session as the log has it.
#[derive(Debug, PartialEq)]
pub struct ReplayedSession {
    /// What the session is called in the log.
    pub number: SessionNumber,
    /// Its state.
    pub session: Session,
    /// Since when its client has been away, in milliseconds of Unix time; `None` where it was connected when the log ended.
    pub left_at_ms: Option<u64>,
}

/// The retained message of a topic as the log has it.
#[derive(Debug, PartialEq)]
pub struct ReplayedMessage {
    /// What the topic holds.
    pub message: Message,
    /// The number of the change that brought it.
    pub sequence: u64,
}

/// Records that do not belong together: the log is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayError {
    /// A record speaks of a session that has not begun, or has ended.
    UnknownSession(SessionNumber),
    /// A session begins under a number that another one has.
    NumberTaken(SessionNumber),
    /// A message of a session has another Packet Identifier than the records before it give.
    OtherIdentifier(SessionNumber),
}

impl ReplayError {
    /// A code that stays the same.
    pub fn code(&self) -> &'static str {
        match self {
            ReplayError::UnknownSession(_) => "replay-unknown-session",
            ReplayError::NumberTaken(_) => "replay-number-taken",
            ReplayError::OtherIdentifier(_) => "replay-other-identifier",
        }
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::UnknownSession(SessionNumber(number)) => {
                write!(f, "a record speaks of session {number}, which is not there; part of the log is missing")
            }
            ReplayError::NumberTaken(SessionNumber(number)) => {
                write!(f, "session {number} begins twice; part of the log is missing or there twice")
            }
            ReplayError::OtherIdentifier(SessionNumber(number)) => {
                write!(
                    f,
                    "a message of session {number} has an unexpected packet identifier; part of the log is missing"
                )
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// Takes records in the order of the log and puts the state together.
#[derive(Debug, Default, PartialEq)]
pub struct Replay {
    sessions: BTreeMap<SessionNumber, ReplayedSession>,
    /// By topic; without a message where it was cleared, since an older record may follow.
    retained: BTreeMap<Box<str>, (u64, Option<Message>)>,
    last_session: SessionNumber,
    last_sequence: u64,
}

impl Replay {
    /// Takes the next record.
    ///
    /// # Errors
    /// The record does not fit to those before it. The state is as it was.
    pub fn apply(&mut self, record: &Record<'_>) -> Result<(), ReplayError> {
        match *record {
            Record::Opened { session: number, client_id, .. } => {
                if self.sessions.contains_key(&number) {
                    return Err(ReplayError::NumberTaken(number));
                }
                self.last_session = self.last_session.max(number);
                let replayed = ReplayedSession { number, session: Session::new(client_id), left_at_ms: None };
                self.sessions.insert(number, replayed);
            }
            Record::Changed { session: number, change, packet_id } => {
                let session = &mut self.session(number)?.session;
                if packet_id.is_some() && session.next_packet_id() != packet_id {
                    return Err(ReplayError::OtherIdentifier(number));
                }
                session.apply(change.clone());
            }
            Record::Returned { session: number, .. } => self.session(number)?.left_at_ms = None,
            Record::Left { session: number, at_ms } => self.session(number)?.left_at_ms = Some(at_ms),
            Record::Ended(number) => {
                self.sessions.remove(&number).ok_or(ReplayError::UnknownSession(number))?;
            }
            Record::Counted { last_session, last_sequence } => {
                self.last_session = self.last_session.max(last_session);
                self.last_sequence = self.last_sequence.max(last_sequence);
            }
            Record::Retained { sequence, change } => {
                let (topic, message) = match change {
                    RetainedChange::Set(message) => (message.topic(), Some(message.clone())),
                    RetainedChange::Cleared(topic) => (&**topic, None),
                };
                self.last_sequence = self.last_sequence.max(sequence);
                let last = self.retained.entry(topic.into()).or_default();
                if sequence > last.0 {
                    *last = (sequence, message);
                }
            }
        }
        Ok(())
    }

    fn session(&mut self, number: SessionNumber) -> Result<&mut ReplayedSession, ReplayError> {
        self.sessions.get_mut(&number).ok_or(ReplayError::UnknownSession(number))
    }

    /// The highest number that a session has had.
    pub fn last_session(&self) -> SessionNumber {
        self.last_session
    }

    /// The number of the last change of the retained messages.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Tells `visit` the records that lead to this state.
    pub fn describe(&self, mut visit: impl FnMut(&Record<'_>)) {
        visit(&Record::Counted { last_session: self.last_session, last_sequence: self.last_sequence });
        for ReplayedSession { number, session, left_at_ms } in self.sessions.values() {
            let number = *number;
            // When it began is not known any more, and nobody asks.
            visit(&Record::Opened { session: number, client_id: session.client_id(), at_ms: 0 });
            session.describe(|change, packet_id| visit(&Record::Changed { session: number, change, packet_id }));
            if let Some(at_ms) = *left_at_ms {
                visit(&Record::Left { session: number, at_ms });
            }
        }
        for (sequence, message) in self.retained.values() {
            if let Some(message) = message {
                visit(&Record::Retained { sequence: *sequence, change: &RetainedChange::Set(message.clone()) });
            }
        }
    }

    /// All sessions, by number, and all retained messages, by topic.
    pub fn finish(self) -> (Vec<ReplayedSession>, Vec<ReplayedMessage>) {
        let retained = self.retained.into_values();
        let retained = retained.filter_map(|(sequence, message)| Some(ReplayedMessage { message: message?, sequence }));
        (self.sessions.into_values().collect(), retained.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use tautwire_message::{MessageId, MessageRef};
    use tautwire_protocol::QoS;

    fn message(topic: &str, payload: &[u8]) -> Message {
        let (id, properties, qos) = (MessageId::NONE, &[][..], QoS::AtLeastOnce);
        MessageRef { id, topic, properties, payload, qos, retain: true, expires_at_ms: None }.to_message()
    }

    #[test]
    fn sessions_are_put_together_from_their_records() {
        let (one, two) = (SessionNumber(1), SessionNumber(2));
        let mut replay = Replay::default();
        let records = [
            Record::Opened { session: one, client_id: "a", at_ms: 5 },
            Record::Changed { session: one, change: &Change::ExpiryInterval(60), packet_id: None },
            Record::Opened { session: two, client_id: "b", at_ms: 6 },
            Record::Left { session: one, at_ms: 700 },
            Record::Ended(two),
        ];
        records.iter().for_each(|record| replay.apply(record).expect("they belong together"));
        assert_eq!(replay.last_session(), two, "the number is not given again");
        let (sessions, _) = replay.finish();
        let [only] = &sessions[..] else { panic!("{sessions:?}") };
        assert_eq!((only.session.client_id(), only.session.expiry_interval_s()), ("a", 60));
        assert_eq!((only.number, only.left_at_ms), (one, Some(700)));
    }

    #[test]
    fn the_later_change_of_a_topic_counts_whichever_was_written_down_first() {
        let mut replay = Replay::default();
        let changes = [
            (3, RetainedChange::Set(message("t", b"new"))),
            (2, RetainedChange::Set(message("t", b"old"))),
            (5, RetainedChange::Cleared("u".into())),
            (4, RetainedChange::Set(message("u", b"gone"))),
        ];
        for (sequence, change) in &changes {
            replay.apply(&Record::Retained { sequence: *sequence, change }).expect("no session is concerned");
        }
        assert_eq!(replay.last_sequence(), 5);
        let (_, retained) = replay.finish();
        let [only] = &retained[..] else { panic!("{retained:?}") };
        assert_eq!((only.message.payload(), only.sequence), (&b"new"[..], 3));
    }

    #[test]
    fn records_that_do_not_belong_together_are_told_of() {
        let mut replay = Replay::default();
        let number = SessionNumber(7);
        let unknown = ReplayError::UnknownSession(number);
        assert_eq!(replay.apply(&Record::Returned { session: number, at_ms: 0 }), Err(unknown));
        assert_eq!(replay.apply(&Record::Ended(number)), Err(unknown));
        let opened = Record::Opened { session: number, client_id: "a", at_ms: 0 };
        assert_eq!(replay.apply(&opened), Ok(()));
        assert_eq!(replay.apply(&opened), Err(ReplayError::NumberTaken(number)));
        assert_eq!(unknown.code(), "replay-unknown-session");
    }
}
