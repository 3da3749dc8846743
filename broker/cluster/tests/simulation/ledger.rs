//! What a cluster promises, and whether it has kept it so far.

use std::collections::{BTreeMap, BTreeSet};

use tautwire_cluster::names::Incarnation;
use tautwire_cluster::record::{Body, Group};

use crate::world::Tally;

/// A message as it stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) client: usize,
    pub(crate) topic: u8,
    pub(crate) is_once: bool,
    /// Counts the client's messages.
    pub(crate) number: u64,
    /// By which claim of the session it was published.
    pub(crate) epoch: u64,
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.client as u8, self.topic, u8::from(self.is_once)];
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.epoch.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Message {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Message {
            client: bytes[0].into(),
            topic: bytes[1],
            is_once: bytes[2] == 1,
            number: number(3),
            epoch: number(11),
        }
    }
}

#[derive(Default)]
pub(crate) struct Ledger {
    /// Messages in the log, by client and number.
    logged: BTreeSet<(usize, u64)>,
    /// The last message of each client, topic and QoS in the log: epoch and number; and the highest number.
    order: BTreeMap<(usize, u8, bool), (u64, u64, u64)>,
    /// Who serves each client, by which epoch.
    served: BTreeMap<usize, (u64, Incarnation)>,
    /// State of each client's session that is safe.
    saved: BTreeMap<usize, u64>,
    /// Clients that have asked for a clean start and not heard that they have it: their state may go at any moment.
    cleaning: BTreeSet<usize>,
    pub(crate) tally: Tally,
}

impl Ledger {
    /// A group has come into the log.
    pub(crate) fn logged(&mut self, group: &[u8]) {
        let group = Group::decode(group).expect("a group");
        let Body::Messages(messages) = group.body else {
            self.tally.fences += 1;
            return;
        };
        for message in messages {
            self.message(Message::decode(&message));
        }
    }

    fn message(&mut self, message: Message) {
        self.tally.messages += 1;
        let Message { client, topic, is_once, number, epoch } = message;
        let is_new = self.logged.insert((client, number));
        assert!(is_new || !is_once, "{message:?} of QoS 2 is there twice");
        let order = self.order.entry((client, topic, is_once)).or_default();
        let (last_epoch, last, highest) = *order;
        assert!(last_epoch <= epoch, "{message:?} comes after one of epoch {last_epoch}");
        assert!(last_epoch < epoch || last < number, "{message:?} comes after {last} of the same epoch");
        assert!(!is_new || highest < number, "{message:?} comes after {highest} and is new");
        *order = (epoch, number, highest.max(number));
    }

    /// A node has read a packet of a client or sent one.
    pub(crate) fn served(&mut self, client: usize, epoch: u64, by: Incarnation) {
        let served = self.served.entry(client).or_insert((epoch, by));
        assert!(served.0 <= epoch, "client {client} is served by {by} in epoch {epoch} after {served:?}");
        assert!(
            served.0 < epoch || served.1 == by,
            "client {client} is served by {by} in epoch {epoch} beside {served:?}"
        );
        *served = (epoch, by);
    }

    /// A node tells a client that a message is safe.
    pub(crate) fn acknowledged(&mut self, client: usize, number: u64) {
        assert!(
            self.logged.contains(&(client, number)),
            "message {number} of client {client} is acknowledged and not in the log"
        );
        self.tally.acknowledged += 1;
    }

    /// A node has been told that this state of a session is safe.
    pub(crate) fn saved(&mut self, client: usize, state: u64) {
        if !self.cleaning.contains(&client) {
            let saved = self.saved.entry(client).or_default();
            *saved = (*saved).max(state);
        }
    }

    /// A client asks for a clean start.
    pub(crate) fn cleans(&mut self, client: usize) {
        self.cleaning.insert(client);
        self.saved.remove(&client);
    }

    /// A client has heard that it has its session.
    pub(crate) fn connected(&mut self, client: usize) {
        self.cleaning.remove(&client);
    }

    /// A client gets its session.
    pub(crate) fn resumed(&mut self, client: usize, is_clean: bool, state: Option<u64>) {
        if is_clean {
            assert_eq!(state, None, "client {client} starts clean and has state");
        }
        let saved = self.saved.get(&client).copied();
        assert!(state >= saved, "client {client} gets state {state:?}, and {saved:?} was safe");
        self.tally.sessions += 1;
        self.tally.resumed += u64::from(state.is_some());
    }
}
