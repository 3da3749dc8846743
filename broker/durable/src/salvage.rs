//! Recovery from a log of which a part is lost: what does not fit is passed over and named.

use std::collections::{BTreeMap, HashMap};

use tautwire_journal::SessionId;
use tautwire_journal::record::{Record, RecordError};
use tautwire_protocol::PacketId;
use tautwire_session::{Change, Record as Kept, ReplayError, ReplayedSession, Session, SessionNumber};

use crate::recovery::{Recovery, RecoveryError};

/// So many sessions are named, and so many messages.
pub const LISTED_MAX: usize = 100;

/// What a recovery has read and what of it did not fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedRecords {
    /// Records that were read.
    pub records: u64,
    /// Records that speak of a session that is not there: its beginning is lost.
    pub unknown_session: u64,
    /// Records that name a message that is not there.
    pub message_missing: u64,
    /// Frames of which a part is no record, or one that this version does not know. The rest of the frame is passed over.
    pub undecodable: u64,
    /// Messages that were sent with another Packet Identifier than the records before say: their place in the sequence is theirs.
    pub mismatched_packet_id: u64,
    /// Sessions that are there twice, since the end of the older one is lost. The older one is gone.
    pub replaced: u64,
    /// The sessions that this concerns, with their Client Identifiers where they are known; at most [`LISTED_MAX`].
    pub sessions: BTreeMap<u64, Option<String>>,
    /// There are more sessions than are listed.
    pub more_sessions: bool,
    /// The first thing that did not fit, in words.
    pub first: Option<String>,
}

impl SkippedRecords {
    /// Whether everything fits.
    pub fn is_none(&self) -> bool {
        self.first.is_none()
    }
}

#[derive(Debug, Default)]
pub(crate) struct SalvageState {
    skipped: SkippedRecords,
    /// The newest session of each client.
    clients: HashMap<Box<str>, SessionNumber>,
}

impl Recovery<'_> {
    /// From now on records that do not fit to those before are passed over, and no frame is refused. The state stays consistent:
    /// a client has one session besides those that are ending, identifiers go on where the log says, and nothing is held for a
    /// session that is not there.
    pub fn skip_inconsistent_records(&mut self) {
        self.salvage.get_or_insert_default();
    }

    /// What has been passed over.
    pub fn skipped_records(&self) -> Option<&SkippedRecords> {
        self.salvage.as_ref().map(|salvage| &salvage.skipped)
    }

    pub(crate) fn apply_or_skip(&mut self, record: Result<Record<'_>, RecordError>) {
        let record = match record {
            Ok(record) => record,
            Err(error) => return self.skip(None, &RecoveryError::Record(error), |skipped| &mut skipped.undecodable),
        };
        if let Some(salvage) = &mut self.salvage {
            salvage.skipped.records += 1;
        }
        if let Record::Opened { session, client_id, .. } = record {
            self.replace(SessionNumber(session.get()), client_id);
        }
        if let Err(error) = self.record(&record) {
            self.settle(&record, &error);
        }
    }

    /// A client has one session [MQTT-3.1.4-3]. Where the log begins another one, the end of the one before is lost, unless that has
    /// ended but for the messages it leaves to others.
    fn replace(&mut self, session: SessionNumber, client_id: &str) {
        let Some(salvage) = &mut self.salvage else { return };
        let older = salvage.clients.insert(client_id.into(), session);
        // A number that is given twice comes from a log that was put together by hand.
        let taken = self.replay.session_of(session).map(|_| session);
        for older in [older, taken].into_iter().flatten() {
            let is_lost = |found: &ReplayedSession| found.session.name() == client_id && !is_ending(&found.session);
            if self.replay.session_of(older).is_some_and(|found| Some(older) == taken || is_lost(found)) {
                let error = RecoveryError::Replay(ReplayError::DuplicateSession(older));
                self.skip(Some(older), &error, |skipped| &mut skipped.replaced);
                let _ = self.replay.apply(&Kept::Ended(older));
            }
        }
    }

    fn settle(&mut self, record: &Record<'_>, error: &RecoveryError) {
        let session = record.session().map(number);
        match error {
            RecoveryError::Replay(ReplayError::UnknownSession(session)) => {
                // Its number must not be given to another one.
                let _ = self.replay.apply(&Kept::Counted { last_session: *session, last_sequence: 0 });
                self.skip(Some(*session), error, |skipped| &mut skipped.unknown_session);
            }
            RecoveryError::Replay(ReplayError::PacketIdMismatch(session)) => {
                self.skip(Some(*session), error, |skipped| &mut skipped.mismatched_packet_id);
                self.go_on_with(*session, record);
            }
            RecoveryError::Replay(ReplayError::DuplicateSession(session)) => {
                self.skip(Some(*session), error, |skipped| &mut skipped.replaced);
            }
            RecoveryError::MessageMissing(_) => self.skip(session, error, |skipped| &mut skipped.message_missing),
            _ => self.skip(session, error, |skipped| &mut skipped.undecodable),
        }
    }

    /// The identifier was free when it was given, so whatever had it before was complete. What is lost says so.
    fn go_on_with(&mut self, session: SessionNumber, record: &Record<'_>) {
        let Some(id) = packet_id(record) else { return };
        for change in [Change::Completed(id), Change::NextPacketId(id)] {
            let _ = self.replay.apply(&Kept::Changed { session, change: &change, packet_id: None });
        }
        if let Err(error) = self.record(record) {
            self.skip(Some(session), &error, |skipped| &mut skipped.message_missing);
        }
    }

    fn skip(
        &mut self,
        session: Option<SessionNumber>,
        error: &RecoveryError,
        count: impl Fn(&mut SkippedRecords) -> &mut u64,
    ) {
        let Some(SalvageState { skipped, .. }) = &mut self.salvage else { return };
        *count(skipped) += 1;
        skipped.first.get_or_insert_with(|| format!("{error} [{}]", error.code()));
        let Some(session) = session else { return };
        let client_id = self.replay.session_of(session).map(|found| found.session.client_id().to_owned());
        let is_listed = skipped.sessions.contains_key(&session.0);
        if is_listed || skipped.sessions.len() < LISTED_MAX {
            skipped.sessions.entry(session.0).or_insert(client_id);
        } else {
            skipped.more_sessions = true;
        }
    }
}

/// Whether the session has ended, but for the messages that it leaves to others. Its will was published or discarded before.
fn is_ending(session: &Session) -> bool {
    session.expiry_interval_s() == 0 && session.will().is_none()
}

fn packet_id(record: &Record<'_>) -> Option<PacketId> {
    match *record {
        Record::Started { packet_id, .. }
        | Record::StartedQueued { packet_id, .. }
        | Record::AwaitingPubComp { packet_id, .. } => Some(packet_id),
        _ => None,
    }
}

fn number(session: SessionId) -> SessionNumber {
    SessionNumber(session.get())
}
