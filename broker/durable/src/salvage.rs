//! Recovery from a log with lost parts: skips and reports inconsistent records.

use tautwire_journal::SessionId;
use tautwire_journal::record::{Record, RecordError};
use tautwire_protocol::PacketId;
use tautwire_session::{Change, Record as SessionRecord, ReplayError, ReplayedSession, Session, SessionNumber};

use crate::error::RecoveryError;
use crate::recovery::Recovery;
use crate::skipped_records::{LISTED_MAX, SalvageState, SkippedRecords};

impl Recovery<'_> {
    /// Makes the recovery skip inconsistent records instead of failing. The state stays consistent: a client has one session besides those
    /// that are ending, Packet Identifiers continue where the log says, and no message is held for a missing session.
    pub fn skip_inconsistent_records(&mut self) {
        self.salvage.get_or_insert_default();
    }

    /// Returns what was skipped.
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
            self.handle_error(&record, &error);
        }
    }

    /// Removes the previous session of a client, because a client has one session [MQTT-3.1.4-3]. If the log begins another one, the end of
    /// the previous one is lost, unless that has ended except for messages it leaves to others.
    fn replace(&mut self, session: SessionNumber, client_id: &str) {
        let Some(salvage) = &mut self.salvage else { return };
        let older = salvage.clients.insert(client_id.into(), session);
        // A duplicate number comes from a log that was assembled by hand.
        let taken = self.replay.session_of(session).map(|_| session);
        for older in [older, taken].into_iter().flatten() {
            let is_lost = |found: &ReplayedSession| found.session.name() == client_id && !is_ending(&found.session);
            if self.replay.session_of(older).is_some_and(|found| Some(older) == taken || is_lost(found)) {
                let error = RecoveryError::Replay(ReplayError::DuplicateSession(older));
                self.skip(Some(older), &error, |skipped| &mut skipped.replaced);
                let _ = self.replay.apply(&SessionRecord::Ended(older));
            }
        }
    }

    fn handle_error(&mut self, record: &Record<'_>, error: &RecoveryError) {
        let session = record.session().map(number);
        match error {
            RecoveryError::Replay(ReplayError::UnknownSession(session)) => {
                // Reserve its number, so that it is not assigned again.
                let _ = self.replay.apply(&SessionRecord::Counted { last_session: *session, last_sequence: 0 });
                self.skip(Some(*session), error, |skipped| &mut skipped.unknown_session);
            }
            RecoveryError::Replay(ReplayError::PacketIdMismatch(session)) => {
                self.skip(Some(*session), error, |skipped| &mut skipped.mismatched_packet_id);
                self.continue_with(*session, record);
            }
            RecoveryError::Replay(ReplayError::DuplicateSession(session)) => {
                self.skip(Some(*session), error, |skipped| &mut skipped.replaced);
            }
            RecoveryError::MessageMissing(_) => self.skip(session, error, |skipped| &mut skipped.message_missing),
            _ => self.skip(session, error, |skipped| &mut skipped.undecodable),
        }
    }

    /// Continues the identifiers as the record implies. The identifier was free when it was assigned, so its previous use was complete; the
    /// record of that is lost.
    fn continue_with(&mut self, session: SessionNumber, record: &Record<'_>) {
        let Some(id) = packet_id(record) else { return };
        for change in [Change::Completed(id), Change::NextPacketId(id)] {
            let _ = self.replay.apply(&SessionRecord::Changed { session, change: &change, packet_id: None });
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

/// Whether the session has ended except for messages it leaves to others. Its will was published or discarded before.
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
