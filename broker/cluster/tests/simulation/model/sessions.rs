//! Checks the sequence of session records: no due will and no unexpired session is dropped.

use std::collections::{BTreeMap, BTreeSet};

use tautwire_cluster::names::ClientKey;
use tautwire_cluster::record::{NEVER_EXPIRES, SessionRecord, Will};

use crate::ledger::Message;

/// The speed difference of the nodes' clocks, in thousandths; and how late a session may expire, in milliseconds.
const SPEED: u64 = 960;
const EXPIRY_LATE_MS: u64 = 6000;

#[derive(Default)]
pub(crate) struct Sessions {
    records: BTreeMap<ClientKey, (SessionRecord, u64)>,
    wills: BTreeMap<(usize, u64), Given>,
    /// The will of each service.
    services: BTreeMap<(usize, u64), u64>,
    /// The last time at which the client of a session was served.
    served_at_ms: BTreeMap<usize, u64>,
    /// Clients whose sessions have ended.
    pub(crate) ended: BTreeSet<usize>,
    pub(crate) published: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
}

/// A will that a client has set.
struct Given {
    delay_ms: u64,
    served_at_ms: u64,
    is_published: bool,
    /// The client has sent DISCONNECT.
    is_disconnected: bool,
}

fn client_of(record: &SessionRecord) -> usize {
    record.client_id.strip_prefix("client-").and_then(|number| number.parse().ok()).expect("a name of the world")
}

fn number(will: &Will) -> u64 {
    Message::decode(&will.message).number
}

fn due(record: &SessionRecord) -> BTreeSet<u64> {
    record.due.iter().map(|due| number(&due.will)).collect()
}

fn pending(record: &SessionRecord) -> BTreeSet<u64> {
    record.will.iter().map(number).chain(due(record)).collect()
}

impl Sessions {
    pub(crate) fn given(&mut self, client: usize, claim: u64, number: u64, delay_ms: u64, now_ms: u64) {
        let given = Given { delay_ms, served_at_ms: now_ms, is_published: false, is_disconnected: false };
        self.wills.insert((client, number), given);
        self.services.insert((client, claim), number);
    }

    pub(crate) fn served(&mut self, client: usize, claim: u64, now_ms: u64) {
        self.served_at_ms.insert(client, now_ms);
        if let Some(given) =
            self.services.get(&(client, claim)).and_then(|number| self.wills.get_mut(&(client, *number)))
        {
            given.served_at_ms = now_ms;
        }
    }

    pub(crate) fn disconnected(&mut self, client: usize, claim: u64) {
        if let Some(given) =
            self.services.get(&(client, claim)).and_then(|number| self.wills.get_mut(&(client, *number)))
        {
            given.is_disconnected = true;
        }
    }

    /// A will was appended to the log.
    pub(crate) fn published(&mut self, client: usize, number: u64, key: ClientKey) {
        let is_due = self.records.get(&key).is_some_and(|(record, _)| due(record).contains(&number));
        assert!(is_due, "will {number} of client {client} is published, and the record does not say so");
        let given = self.wills.get_mut(&(client, number)).expect("an operator");
        assert!(!given.is_published, "will {number} of client {client} is published twice");
        given.is_published = true;
        self.published += 1;
    }

    /// A record was written. Returns the client whose session has ended by that, if any.
    pub(crate) fn written(&mut self, key: ClientKey, value: &[u8], now_ms: u64) -> Option<usize> {
        let record = SessionRecord::decode(value).expect("a session record");
        let client = client_of(&record);
        let before = self.records.remove(&key);
        // A claim that was written without its node noticing may be written again.
        let is_other = |old: &SessionRecord| (old.owner, old.epoch) != (record.owner, record.epoch);
        let is_claim = record.owner.is_some() && before.as_ref().is_none_or(|(old, _)| is_other(old));
        let is_clean = is_claim && record.state.is_empty();
        if let Some((old, written_at_ms)) = &before {
            let left: BTreeSet<_> = pending(old).difference(&pending(&record)).copied().collect();
            for number in left {
                let given = &self.wills[&(client, number)];
                let is_cancelled = given.is_disconnected
                    || old.will.as_ref().map(self::number) == Some(number)
                        && is_claim
                        && !is_clean
                        && given.delay_ms > 0;
                assert!(given.is_published || is_cancelled, "will {number} of client {client} is dropped");
                self.cancelled += u64::from(!given.is_published);
            }
            if old.owner.is_none() && is_claim && !is_clean && old.expiry_s != NEVER_EXPIRES && old.will.is_none() {
                let late_ms = now_ms.saturating_sub(written_at_ms + u64::from(old.expiry_s) * 1000);
                assert!(
                    late_ms < EXPIRY_LATE_MS,
                    "client {client} resumes a session that has expired {late_ms} ms ago"
                );
            }
        }
        let known = before.as_ref().map(|(old, _)| due(old)).unwrap_or_default();
        for number in due(&record).difference(&known) {
            let given = &self.wills[&(client, *number)];
            let due_at_ms = given.served_at_ms + given.delay_ms * SPEED / 1000;
            assert!(is_clean || due_at_ms <= now_ms, "will {number} of client {client} does not wait for its delay");
        }
        self.records.insert(key, (record, now_ms));
        let has_ended = is_clean && before.is_some_and(|(old, _)| old.expiry_s == 0);
        has_ended.then(|| self.ended.insert(client)).map(|_| client)
    }

    /// The store has removed a record, on request or because it has expired.
    pub(crate) fn removed(&mut self, key: ClientKey, has_expired: bool, now_ms: u64) -> usize {
        let (record, _) = self.records.remove(&key).expect("existed");
        let client = client_of(&record);
        for number in pending(&record) {
            let given = &self.wills[&(client, number)];
            let is_settled = given.is_published || given.is_disconnected;
            assert!(is_settled, "will {number} of client {client} is lost with its session");
        }
        if has_expired {
            assert_eq!(record.owner, None, "client {client} is served, and its session expires");
            let served_at_ms = self.served_at_ms.get(&client).copied().unwrap_or_default();
            let due_at_ms = served_at_ms + u64::from(record.expiry_s) * SPEED;
            assert!(due_at_ms <= now_ms + 1000, "the session of client {client} expires too early");
            self.expired += 1;
        } else {
            let has_ended = record.state.is_empty() || record.expiry_s == 0;
            assert!(has_ended, "the session of client {client} has not ended, and is removed");
        }
        self.ended.insert(client);
        client
    }

    /// In the end, no will is left to be published.
    pub(crate) fn settle(&self) {
        for (record, _) in self.records.values() {
            assert!(record.due.is_empty(), "wills of {} are due and not published", record.client_id);
            assert!(record.owner.is_some(), "{} is connected, but its session has no owner", record.client_id);
        }
    }
}
