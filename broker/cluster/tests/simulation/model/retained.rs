//! Retained messages: each topic has one order, that of the log.

use std::collections::BTreeMap;

use tautwire_cluster::record::{Place, Retain, RetainedRecord};

use crate::ledger::Message;

/// The tolerance for the expiry time of a copy, in milliseconds: the clock of the store jumps, and an answer takes time.
const EXPIRY_TOLERANCE_MS: i64 = 3500;

/// The content of the log and of the stream of retained messages.
#[derive(Default)]
pub(crate) struct Retaining {
    /// For each message, the position of its first copy in the log.
    places: BTreeMap<(usize, u64, u64), Place>,
    /// The last message with RETAIN that the log has for each topic.
    logged: BTreeMap<String, Place>,
    /// The content of the stream, with the time of each change.
    kept: BTreeMap<String, (Place, u64)>,
    /// The last acknowledged position of each topic.
    acknowledged: BTreeMap<String, Place>,
}

/// What a scan of the retained messages must see at least.
pub(crate) type Floor = BTreeMap<String, Place>;

fn name(topic: u8) -> String {
    format!("topic/{topic}")
}

impl Retaining {
    pub(crate) fn logged(&mut self, message: &Message, place: Place) {
        if message.retain().is_some() {
            self.places.entry((message.client, message.number, message.epoch)).or_insert(place);
            self.logged.insert(name(message.topic), place);
        }
    }

    /// The stream has a new entry.
    pub(crate) fn kept(&mut self, value: &[u8], now_ms: u64) {
        let record = RetainedRecord::decode(value).expect("a retained record");
        let before = self.kept.insert(record.topic.clone(), (record.place, now_ms)).map(|(place, _)| place);
        assert!(before < Some(record.place), "{record:?} replaces a record with position {before:?}");
        let is_logged = self.logged.get(&record.topic).is_some_and(|last| record.place <= *last);
        assert!(is_logged, "{record:?} is retained and not in the log");
    }

    /// A publisher has received the acknowledgement of its message.
    pub(crate) fn acknowledged(&mut self, message: &Message) {
        if message.retain().is_none() {
            return;
        }
        let topic = name(message.topic);
        let Some(place) = self.places.get(&(message.client, message.number, message.epoch)) else { return };
        let kept = self.kept.get(&topic).map(|(place, _)| *place);
        assert!(kept >= Some(*place), "{message:?} is acknowledged, but {topic} retains position {kept:?}");
        let acknowledged = self.acknowledged.entry(topic).or_insert(*place);
        *acknowledged = (*acknowledged).max(*place);
    }

    pub(crate) fn floor(&self) -> Floor {
        self.acknowledged.clone()
    }

    /// In the end, the retained message is the last one in the log.
    pub(crate) fn settle(&self) {
        for (topic, place) in &self.logged {
            let kept = self.kept.get(topic).map(|(place, _)| *place);
            assert_eq!(kept, Some(*place), "{topic} does not retain the last message that the log has for it");
        }
    }
}

/// A node's own copy.
#[derive(Default)]
pub(crate) struct Mirrored {
    topics: BTreeMap<String, (Place, tautwire_cluster::Sequence)>,
    floors: BTreeMap<u64, Floor>,
    last_ticket: u64,
}

impl Mirrored {
    pub(crate) fn apply(
        &mut self,
        record: &RetainedRecord,
        sequence: tautwire_cluster::Sequence,
        remaining_ms: Option<i64>,
        retaining: &Retaining,
        now_ms: u64,
    ) {
        let before = self.topics.insert(record.topic.clone(), (record.place, sequence)).map(|(place, _)| place);
        assert!(before < Some(record.place), "a copy with {before:?} applies {record:?}");
        let expected = match (record.retain, retaining.kept.get(&record.topic)) {
            (Retain::Seconds(seconds), Some((place, since_ms))) if *place == record.place => {
                Some(*since_ms as i64 + i64::from(seconds) * 1000 - now_ms as i64)
            }
            (Retain::Seconds(_), _) => return,
            (Retain::Always | Retain::Clear, _) => None,
        };
        let is_right = match (expected, remaining_ms) {
            (None, None) => true,
            // How long ago it has expired does not matter.
            (Some(expected), Some(remaining)) => (expected.max(0) - remaining.max(0)).abs() <= EXPIRY_TOLERANCE_MS,
            _ => false,
        };
        assert!(is_right, "{record:?} expires in {remaining_ms:?} ms instead of {expected:?}");
    }

    pub(crate) fn known(&self, topic: &str) -> Option<tautwire_cluster::Sequence> {
        self.topics.get(topic).map(|(_, sequence)| *sequence)
    }

    /// A scan begins: it sees at least everything acknowledged so far.
    pub(crate) fn begin(&mut self, retaining: &Retaining) -> u64 {
        self.last_ticket += 1;
        self.floors.insert(self.last_ticket, retaining.floor());
        self.last_ticket
    }

    pub(crate) fn sync_retained(&mut self, ticket: u64) {
        let floor = self.floors.remove(&ticket).expect("a request");
        self.has(&floor);
    }

    pub(crate) fn has(&self, floor: &Floor) {
        for (topic, place) in floor {
            let found = self.topics.get(topic).map(|(place, _)| *place);
            assert!(found >= Some(*place), "{topic} has {found:?}, and {place:?} was acknowledged before the scan");
        }
    }
}
