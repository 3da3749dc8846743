//! The guarantees of a cluster, checked continuously.

use std::collections::{BTreeMap, BTreeSet};

use tautwire_cluster::Sequence;
use tautwire_cluster::names::{Incarnation, Partition};
use tautwire_cluster::record::{Body, Group, Place, Publisher, Retain};

use crate::engine::{ConnectionId, OPERATOR, key_of};
use crate::model::{Configurations, OperatorPublishes, PeerCommands, Retaining, Sessions};
use crate::plan::Plan;
use crate::shard::is_for_group;
use crate::tally::Tally;

/// A message in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) client: usize,
    pub(crate) topic: u8,
    pub(crate) is_once: bool,
    /// Counts the client's messages.
    pub(crate) number: u64,
    /// The claim of the session that has published it.
    pub(crate) epoch: u64,
    /// How it is retained: 0 not at all, 1 until it is replaced, 2 for some seconds, 3 it clears the topic.
    pub(crate) retain: u8,
    pub(crate) is_will: bool,
}

/// For how long some messages are retained.
const RETAIN_S: u32 = 5;

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.client as u8, self.topic, u8::from(self.is_once)];
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend([self.retain, u8::from(self.is_will)]);
        bytes
    }

    pub(crate) fn retain(&self) -> Option<Retain> {
        [None, Some(Retain::Always), Some(Retain::Seconds(RETAIN_S)), Some(Retain::Clear)][usize::from(self.retain)]
    }

    pub(crate) fn decode(bytes: &[u8]) -> Message {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Message {
            client: bytes[0].into(),
            topic: bytes[1],
            is_once: bytes[2] == 1,
            number: number(3),
            epoch: number(11),
            retain: bytes[19],
            is_will: bytes[20] == 1,
        }
    }
}

/// A client with a session that has subscribed.
#[derive(Default)]
struct Subscriber {
    /// As a bit mask.
    topics: u8,
    /// The end of each partition at the time of SUBACK.
    since: BTreeMap<Partition, Place>,
    got: BTreeSet<(Partition, Place)>,
}

/// The members of a shared subscription.
#[derive(Default)]
struct GroupMembers {
    /// Clients with a session that has subscribed.
    members: BTreeSet<usize>,
    /// The end of each partition at the time of their first SUBACK.
    since: Option<BTreeMap<Partition, Place>>,
    got: BTreeSet<(Partition, Place)>,
    /// The node that delivers each partition.
    holders: BTreeMap<Partition, Incarnation>,
}

#[derive(Default)]
pub(crate) struct Ledger {
    /// Messages in the log, by client and number.
    logged: BTreeSet<(usize, u64)>,
    /// The last message of each client, topic and QoS in the log: epoch and number; and the highest number.
    order: BTreeMap<(usize, u8, bool), (u64, u64, u64)>,
    /// The node that serves each client, and the epoch.
    served: BTreeMap<usize, (u64, Incarnation)>,
    /// The persisted state of each client's session.
    saved: BTreeMap<usize, u64>,
    /// Clients that have requested a clean start and got no answer: their state may be dropped at any moment.
    cleaning: BTreeSet<usize>,
    /// All messages, in the order of the log.
    log: BTreeMap<(Partition, Place), Message>,
    subscribers: BTreeMap<usize, Subscriber>,
    sharers: GroupMembers,
    /// The last message on a connection, by publisher, topic and QoS.
    last_on: BTreeMap<(ConnectionId, usize, u8, bool), Place>,
    /// Messages that were refused, by client, number and epoch.
    refused: BTreeSet<(usize, u64, u64)>,
    /// Messages that were pending when some were refused: these may be among them, and their clients may never be notified.
    withdrawn: BTreeSet<(usize, u64)>,
    pub(crate) retaining: Retaining,
    pub(crate) own: OperatorPublishes,
    /// Operators publish messages, too.
    pub(crate) has_operators: bool,
    pub(crate) sessions: Sessions,
    pub(crate) configurations: Configurations,
    pub(crate) peer_commands: PeerCommands,
    pub(crate) now_ms: u64,
    pub(crate) tally: Tally,
}

impl Ledger {
    pub(crate) fn of(plan: &Plan) -> Ledger {
        Ledger { has_operators: plan.has_operators, ..Ledger::default() }
    }

    /// A group was appended to the log.
    pub(crate) fn logged(&mut self, partition: Partition, sequence: Sequence, group: &[u8]) {
        let group = Group::decode(group).expect("a group");
        let Body::Messages { messages, .. } = group.body else {
            self.tally.fences += 1;
            return;
        };
        for (index, block) in (0..).zip(messages) {
            let (publisher, stored) = Publisher::split(&block).expect("a publisher");
            let (message, place) = (Message::decode(stored), Place { sequence, index });
            let key = key_of(message.client);
            let is_own = message.client == OPERATOR;
            assert_eq!((publisher.client, publisher.packet_id.is_some()), (key, message.is_once && !is_own));
            // A will may be published by a node that has taken the session over.
            assert!(publisher.epoch == message.epoch || message.is_will && message.epoch < publisher.epoch);
            self.log.insert((partition, place), message);
            self.retaining.logged(&message, place);
            if is_own {
                self.own.logged(message.number);
            } else if message.is_will {
                self.sessions.published(message.client, message.number, key);
            } else {
                self.message(message);
            }
        }
    }

    fn message(&mut self, message: Message) {
        self.tally.messages += 1;
        let Message { client, topic, is_once, number, epoch, .. } = message;
        assert!(!self.refused.contains(&(client, number, epoch)), "{message:?} was refused");
        let is_new = self.logged.insert((client, number));
        assert!(is_new || !is_once, "duplicate QoS 2 message {message:?}");
        // The refusal of a message of an MQTT 5.0 client may get lost. Then the message is sent again, after later ones.
        if self.withdrawn.contains(&(client, number)) {
            return;
        }
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
        self.sessions.served(client, epoch, self.now_ms);
    }

    /// A client was notified that a message will never be in the log.
    pub(crate) fn refused(&mut self, message: &Message) {
        self.refused.insert((message.client, message.number, message.epoch));
        self.tally.keeping.timeouts += 1;
    }

    /// A message may have been refused.
    pub(crate) fn may_be_withdrawn(&mut self, message: &Message) {
        self.withdrawn.insert((message.client, message.number));
    }

    /// A session has ended with all its state.
    pub(crate) fn session_ended(&mut self, client: usize) {
        self.saved.remove(&client);
        self.subscribes_anew(client);
    }

    fn subscribes_anew(&mut self, client: usize) {
        self.subscribers.remove(&client);
        self.sharers.members.remove(&client);
        if self.sharers.members.is_empty() {
            self.sharers.since = None;
        }
    }

    /// A client learns that its session is new.
    pub(crate) fn session_is_new(&mut self, client: usize) {
        self.subscribes_anew(client);
    }

    /// A node has acknowledged a message.
    pub(crate) fn acknowledged(&mut self, message: &Message) {
        let Message { client, number, .. } = *message;
        assert!(
            self.logged.contains(&(client, number)),
            "message {number} of client {client} is acknowledged and not in the log"
        );
        self.retaining.acknowledged(message);
        self.tally.acknowledged += 1;
    }

    /// A node has persisted this state of a session.
    pub(crate) fn saved(&mut self, client: usize, state: u64) {
        if !self.cleaning.contains(&client) {
            let saved = self.saved.entry(client).or_default();
            *saved = (*saved).max(state);
        }
    }

    /// A client requests a clean start.
    pub(crate) fn cleans(&mut self, client: usize) {
        self.cleaning.insert(client);
        self.saved.remove(&client);
        self.subscribes_anew(client);
    }

    /// A client has received CONNACK.
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

    /// A client has received SUBACK: from now on it gets all messages.
    pub(crate) fn subscribed(&mut self, client: usize, topics: u8, is_member: bool) {
        let end = |partition| {
            let last = self.log.range(..=(partition, LAST)).next_back().filter(|((of, _), _)| *of == partition);
            (partition, last.map_or(Place::START, |((_, place), _)| place.behind()))
        };
        let since: BTreeMap<_, _> = Partition::all().map(end).collect();
        if is_member {
            self.sharers.members.insert(client);
            self.sharers.since.get_or_insert_with(|| since.clone());
        }
        let subscriber = self.subscribers.entry(client).or_default();
        // A client without SUBACK may subscribe again.
        if subscriber.topics == 0 {
            (subscriber.topics, subscriber.since) = (topics, since);
        }
    }

    /// A node delivers a partition of the group from now on.
    pub(crate) fn leased(&mut self, partition: Partition, node: Incarnation) {
        self.sharers.holders.insert(partition, node);
        self.tally.leases += 1;
    }

    /// A node delivers a message of the group to one of its members.
    pub(crate) fn dispatched(&mut self, partition: Partition, node: Incarnation) {
        let holder = self.sharers.holders.get(&partition);
        assert_eq!(holder, Some(&node), "{node} delivers partition {partition} of the group beside another node");
    }

    /// A member gets a message.
    pub(crate) fn shared(&mut self, partition: Partition, place: Place, message: &Message) {
        assert_eq!(self.log.get(&(partition, place)), Some(message), "a delivered message is in the log");
        let is_first = self.sharers.got.insert((partition, place));
        self.tally.shared += u64::from(is_first);
        self.tally.shared_again += u64::from(!is_first);
    }

    /// A client receives a message; at QoS 2, as a new one or as a duplicate.
    pub(crate) fn delivered(
        &mut self,
        client: usize,
        connection: ConnectionId,
        partition: Partition,
        place: Place,
        message: &Message,
        is_new: bool,
    ) {
        assert_eq!(self.log.get(&(partition, place)), Some(message), "a delivered message is in the log");
        let Message { topic, is_once, .. } = *message;
        let last = self.last_on.insert((connection, message.client, topic, is_once), place);
        assert!(last < Some(place), "client {client} gets {message:?} at {place:?} after {last:?}");
        let subscriber = self.subscribers.entry(client).or_default();
        let is_first = subscriber.got.insert((partition, place));
        assert!(is_first || !is_once || !is_new, "client {client} gets {message:?} of QoS 2 twice");
        self.tally.delivered += 1;
        self.tally.delivered_once += u64::from(is_once && is_new);
        self.tally.delivered_again += u64::from(!is_first);
    }

    /// After a long time without faults, each subscriber must have all messages.
    pub(crate) fn finish(&self) {
        for ((partition, place), message) in &self.log {
            let is_due = self.sharers.since.as_ref().is_some_and(|since| since[partition] <= *place);
            let has_it = !is_for_group(message) || self.sharers.got.contains(&(*partition, *place));
            assert!(has_it || !is_due, "no member gets {message:?} at {place:?} of {partition}");
        }
        for (client, Subscriber { topics, since, got }) in &self.subscribers {
            for ((partition, place), message) in &self.log {
                let is_due = topics & 1 << message.topic != 0 && since[partition] <= *place;
                let has_it = got.contains(&(*partition, *place));
                assert!(has_it || !is_due, "client {client} never gets {message:?} at {place:?} of {partition}");
            }
        }
    }

    /// Returns the events of the run.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = self.tally;
        let kept = &mut tally.keeping;
        (kept.wills, kept.cancelled, kept.expired) =
            (self.sessions.published, self.sessions.cancelled, self.sessions.expired);
        kept.configured = self.configurations.accepted();
        kept.own = self.own.stored();
        tally
    }
}

const LAST: Place = Place { sequence: Sequence(u64::MAX), index: u32::MAX };
