//! One node of a cluster.

mod delivery;
mod storage;

use std::num::NonZeroU16;

use crate::config::Config;
use crate::delivery::LogReader;
use crate::drain::Drain;
use crate::garbage::GarbageCollector;
use crate::groups::{GroupMessage, Groups, HealthCheck};
use crate::interest::{Interest, InterestSync, ProbeMessage};
use crate::lease::{Lease, LeaseEvent};
use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Incarnation, Key, Seed};
use crate::nodes::Nodes;
use crate::numbers::{Revision, Sequence};
use crate::operation::{Answer, Decision, Operation, OperationId, Output, Start};
use crate::outbox::{Outbox, Purpose};
use crate::peer_commands::{PeerCommandMessage, PeerCommands};
use crate::peer_message::{PeerMessage, PeerMessageKind};
use crate::producers::{Entry, MessageOrigin, MessageSource, PartitionProducers, ProducerEvent, RetainRequest};
use crate::record::{Load, NodeRecord, NodeState, Publisher, Retain};
use crate::retained::{Mirror, Writer};
use crate::sessions::{ClaimRequest, PublishRequest, SessionContext, Sessions};
use crate::settings::Settings;
use crate::status::Counters;

/// The interval at which [`Member::advance`] must be called, in milliseconds. Safety does not depend on it.
pub const TICK_MS: u64 = 100;

/// One incarnation of a cluster node: makes its decisions.
///
/// The caller reports events, and after each call executes the results of [`next_output`](Member::next_output).
///
/// Times are milliseconds of a clock that never goes back and also counts while the machine is suspended. Clocks of different nodes need
/// not agree.
#[derive(Debug)]
pub struct Member {
    me: Incarnation,
    seed: Seed,
    settings: Settings,
    lease: Lease,
    last_renewal_ms: Option<u64>,
    /// What the engine was told last.
    is_serving: bool,
    /// Whether the engine was ever told that clients may be served.
    has_begun: bool,
    is_over: bool,
    nodes: Nodes,
    producers: PartitionProducers,
    sessions: Sessions,
    log: LogReader,
    interest: Interest,
    interest_sync: InterestSync,
    groups: Groups,
    health_check: HealthCheck,
    retained: Writer,
    mirror: Mirror,
    config: Config,
    drain: Drain,
    peer_commands: PeerCommands,
    garbage_collector: GarbageCollector,
    counters: Counters,
    out: Outbox,
}

/// A message that a client of this node has published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Returned with the answer. Increases with each message of a session service.
    pub ticket: u64,
    /// The ticket of the last message of this service that the engine knows to be refused; 0 if there is none. Messages that the client
    /// sent before the engine learned of a refusal are refused as well.
    pub refusal_seen: u64,
    /// The topic.
    pub topic: &'a str,
    /// The Packet Identifier, for QoS 2. A retained message is passed here even with QoS 0, because it needs a position in the log; it is
    /// not answered then.
    pub packet_id: Option<NonZeroU16>,
    /// For a retained message: how to retain it, and the sequence of the topic's retained message in this node's mirror.
    pub retain: Option<(Retain, Option<Sequence>)>,
    /// The message in the form of the log.
    pub message: Vec<u8>,
}

/// A message that an operator has published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorPublish<'a> {
    /// The topic.
    pub topic: &'a str,
    /// For a retained message, as in [`Publish::retain`].
    pub retain: Option<(Retain, Option<Sequence>)>,
    /// The message in the form of the log.
    pub message: Vec<u8>,
}

/// The queue is full: the message is returned, and its publisher must not be read from.
#[derive(Debug, PartialEq, Eq)]
pub struct Full(pub Vec<u8>);

impl Member {
    /// Starts an incarnation. `former` is the previous one in the same data directory, whose lock proves that it has ended.
    pub fn new(
        now_ms: u64,
        me: Incarnation,
        name: &str,
        former: Option<Incarnation>,
        seed: Seed,
        settings: Settings,
    ) -> Member {
        let mut out = Outbox::default();
        let mut nodes = Nodes::new(me);
        if let Some(former) = former {
            nodes.remove_now(former, &mut out);
        }
        let mut lease = Lease::new(me, name.to_owned(), settings.reference.clone());
        lease.advance(now_ms, Load::default(), &mut out);
        let garbage_collector = GarbageCollector::new(now_ms, settings.collection_interval_ms);
        let health_check = HealthCheck::new(now_ms, settings.group_check_interval_ms);
        let (mut log, mirror, mut config) = (LogReader::new(&settings), Mirror::default(), Config::new(me));
        log.advance(now_ms, &settings, &mut out);
        config.advance(now_ms, &settings, &mut out);
        Member {
            me,
            seed,
            settings,
            lease,
            last_renewal_ms: None,
            is_serving: false,
            has_begun: false,
            is_over: false,
            nodes,
            producers: PartitionProducers::new(me),
            sessions: Sessions::default(),
            log,
            interest: Interest::default(),
            interest_sync: InterestSync::default(),
            groups: Groups::default(),
            health_check,
            retained: Writer::default(),
            mirror,
            config,
            drain: Drain::default(),
            peer_commands: PeerCommands::default(),
            garbage_collector,
            counters: Counters::default(),
            out,
        }
    }

    /// Returns the incarnation of this node.
    pub fn incarnation(&self) -> Incarnation {
        self.me
    }

    /// Whether clients may be read from and written to now. Call it at the beginning of each turn.
    pub fn is_serving(&self, now_ms: u64) -> bool {
        !self.is_over && self.is_ready() && self.lease.holds(now_ms)
    }

    /// Returns until when clients may be served unless something happens, for callers that cannot call [`is_serving`](Self::is_serving) all
    /// the time. 0 between `Suspended` and `Resumed`.
    pub fn serves_until_ms(&self) -> u64 {
        if self.is_serving && !self.is_over { self.lease.until_ms() } else { 0 }
    }

    /// Returns the next output.
    pub fn next_output(&mut self) -> Option<Output> {
        self.out.next()
    }

    /// Handles timeouts.
    pub fn advance(&mut self, now_ms: u64) {
        if self.is_over {
            return;
        }
        self.check_lease(now_ms);
        let load = self.load();
        self.lease.advance(now_ms, load, &mut self.out);
        if self.is_serving {
            self.nodes.advance(now_ms, &self.settings, &mut self.out);
        }
        self.with_sessions(now_ms, Sessions::advance);
        self.log.advance(now_ms, &self.settings, &mut self.out);
        self.with_groups(now_ms, Groups::advance);
        self.with_health_check(now_ms, HealthCheck::advance);
        self.with_interest_sync(now_ms, InterestSync::advance);
        self.run_housekeeping(now_ms);
        self.begin_to_serve(now_ms);
    }

    /// Observes the record of a node, as reported by the store.
    pub fn observe_node(&mut self, now_ms: u64, node: Incarnation, revision: Revision, record: &[u8]) {
        let record = match NodeRecord::decode(record) {
            Ok(record) => record,
            // If this node's own record has changed, its next heartbeat fails and tells.
            Err(error) if node != self.me && !self.is_over => {
                return self.nodes.observe_unreadable(node, revision, error, &mut self.out);
            }
            Err(_) => return,
        };
        let is_alive = matches!(record.state, NodeState::Alive { .. });
        if self.is_over {
            return;
        }
        if node == self.me && !is_alive && !is(Mutant::IgnoresOwnRemoval) {
            let is_retired = self.drain.is_retiring && matches!(record.state, NodeState::Removed { .. });
            return self.end(if is_retired { Decision::Drained } else { Decision::Fenced });
        }
        self.nodes.observe(now_ms, node, revision, record);
    }

    /// Handles a message of another node.
    pub fn receive_peer(&mut self, now_ms: u64, bytes: &[u8]) {
        if self.is_over {
            return;
        }
        if let Some(message) = GroupMessage::decode(bytes) {
            self.with_groups(now_ms, |groups, cx| groups.receive_peer(message, cx));
        }
        if let Some(message) = PeerCommandMessage::decode(bytes) {
            self.receive_peer_command(now_ms, message);
        }
        if let Some(message) = ProbeMessage::decode(bytes) {
            self.with_interest_sync(now_ms, |interest_sync, cx| interest_sync.receive_peer(message, cx));
        }
        if let Some(PeerMessage { from, client, claim, kind }) = PeerMessage::decode(bytes) {
            self.with_sessions(now_ms, |sessions, cx| match kind {
                PeerMessageKind::Release => sessions.requested(client, from, claim, cx),
                PeerMessageKind::Released => sessions.released(client, from, claim, cx),
            });
        }
    }

    /// Handles an answer of the store. A repeated answer is ignored.
    pub fn answer(&mut self, now_ms: u64, id: OperationId, answer: &Answer) {
        if self.is_over {
            return;
        }
        self.check_lease(now_ms);
        match self.out.answered(id) {
            None => {}
            Some(Purpose::Lease) => match self.lease.answer(now_ms, id, answer, &self.settings, &mut self.out) {
                LeaseEvent::Nothing => {}
                LeaseEvent::Renewed => self.renewed(now_ms),
                LeaseEvent::Over => self.end(Decision::Fenced),
                LeaseEvent::Retired => self.end(Decision::Drained),
            },
            Some(Purpose::NodeCheck(node)) => self.last_check(now_ms, node, answer),
            Some(Purpose::Removal(node)) => {
                self.nodes.answer(now_ms, node, id, answer, &mut self.out);
                self.repair();
            }
            Some(Purpose::PartitionProducer(partition)) => {
                match self.producers.answer(now_ms, partition, id, answer, &self.settings, &mut self.out) {
                    ProducerEvent::Nothing => {}
                    ProducerEvent::Stored { mut origins, ordinal, retaining } => {
                        if is(Mutant::AcknowledgesBeforeRetained) {
                            origins.extend(retaining.iter().map(|retaining| retaining.origin));
                        }
                        let in_log = origins.iter().chain(retaining.iter().map(|retaining| &retaining.origin));
                        self.sessions.settle(partition, ordinal, in_log.copied());
                        self.retain(partition, retaining);
                        self.stored(now_ms, &origins);
                    }
                    ProducerEvent::Fenced => self.end(Decision::Fenced),
                }
            }
            Some(Purpose::Session(key)) => {
                self.with_sessions(now_ms, |sessions, cx| sessions.answer(key, id, answer, cx));
            }
            Some(Purpose::Log(partition)) => {
                self.log.answer(now_ms, partition, id, answer, &self.settings, &mut self.out);
                self.copy_retained();
                self.begin_to_serve(now_ms);
            }
            Some(Purpose::Group(key)) => self.with_groups(now_ms, |groups, cx| groups.answer(key, id, answer, cx)),
            Some(Purpose::HealthCheck) => {
                self.with_health_check(now_ms, |health_check, groups, cx| health_check.answer(id, answer, groups, cx))
            }
            Some(Purpose::Read) => self.log.read_answer(now_ms, id, answer, &self.settings, &mut self.out),
            Some(Purpose::Retained(subject)) => self.answer_retained(now_ms, subject, id, answer),
            Some(Purpose::Mirror) => {
                self.mirror.answer(now_ms, id, answer, &self.settings, &mut self.out);
                self.begin_to_serve(now_ms);
            }
            Some(Purpose::Config) => {
                self.config.answer(id, answer, &mut self.out);
                self.begin_to_serve(now_ms);
            }
            Some(Purpose::Nodes) => {
                if let Answer::Nodes(nodes) = answer {
                    nodes
                        .iter()
                        .for_each(|(node, revision, record)| self.observe_node(now_ms, *node, *revision, record));
                }
            }
            Some(Purpose::GarbageCollection) => self.answer_garbage_collection(now_ms, id, None, answer),
            Some(Purpose::Freeing(client)) => self.answer_garbage_collection(now_ms, id, Some(client), answer),
            Some(Purpose::Forgetting(node)) => match answer {
                Answer::Removed => self.nodes.forget(node),
                _ => {
                    self.out.ask(Purpose::NodeCheck(node), Operation::Get(Key::Node(node)));
                }
            },
        }
    }

    fn last_check(&mut self, now_ms: u64, node: Incarnation, answer: &Answer) {
        match answer {
            Answer::Got(Some((revision, record))) => self.observe_node(now_ms, node, *revision, record),
            Answer::Got(None) if node != self.me => self.nodes.missed(node, &mut self.out),
            _ => {}
        }
    }

    /// A client has sent CONNECT. The answer is `Serve` or `Refuse` with this ticket. If this node already serves the client, the engine
    /// gets `SessionTakenOver` first.
    pub fn claim(&mut self, now_ms: u64, ticket: u64, client_id: &str, start: Start) {
        if self.is_over {
            return;
        }
        if self.is_closed() {
            return self.redirect_client(now_ms, ticket);
        }
        let deadline_ms = now_ms + self.settings.claim_timeout_ms;
        let (key, request) = (self.seed.client(client_id), ClaimRequest::new(ticket, client_id, start, deadline_ms));
        self.with_sessions(now_ms, |sessions, cx| sessions.claim(key, request, cx));
    }

    /// The client with this ticket is gone before an answer. Its session stays where it is, if possible, and no answer follows.
    pub fn abandon(&mut self, now_ms: u64, client: ClientKey, ticket: u64) {
        self.with_sessions(now_ms, |sessions, cx| sessions.abandon(client, ticket, cx));
    }

    /// A client of this node has published. The answer is `Stored` or `NotStored`.
    ///
    /// # Errors
    /// The queue is full.
    pub fn publish(&mut self, now_ms: u64, client: ClientKey, publish: Publish<'_>) -> Result<(), Full> {
        let Publish { ticket, refusal_seen, topic, packet_id, retain, message } = publish;
        let partition = self.seed.partition(topic);
        let is_full = retain.is_some() && !self.retained.has_room(&self.settings);
        if is_full || !self.producers.has_room(partition, &self.settings) {
            self.counters.full += 1;
            return Err(Full(message));
        }
        let to_retain = retain.map(|(retain, known)| RetainRequest { retain, topic: topic.to_owned(), known });
        let publishing = PublishRequest { partition, ticket, refusal_seen, packet_id, to_retain, message };
        self.with_sessions(now_ms, |sessions, cx| sessions.publish(client, publishing, cx));
        Ok(())
    }

    /// An operator has published a message. The answer is `Published`, immediately if the queue is full.
    pub fn publish_from_operator(&mut self, now_ms: u64, ticket: u64, own: OperatorPublish<'_>) {
        if self.is_over {
            return;
        }
        let OperatorPublish { topic, retain, message } = own;
        let partition = self.seed.partition(topic);
        let is_full = retain.is_some() && !self.retained.has_room(&self.settings);
        if is_full || self.drain.is_retiring || !self.producers.has_room(partition, &self.settings) {
            self.counters.full += 1;
            return self.out.decide(Decision::Published { ticket, is_stored: false });
        }
        let to_retain = retain.map(|(retain, known)| RetainRequest { retain, topic: topic.to_owned(), known });
        let message = Publisher::OPERATOR.sign(&message);
        let entry = Entry { message, origin: MessageOrigin::own(ticket), to_retain, since_ms: now_ms };
        self.producers.push(partition, entry, &self.settings, &mut self.out);
    }

    /// A client of this node has sent PUBREL. The answer is `Completed`.
    pub fn release(&mut self, now_ms: u64, client: ClientKey, packet_id: NonZeroU16) {
        self.with_sessions(now_ms, |sessions, cx| sessions.release(client, packet_id, cx));
    }

    /// The state of a session of this node has changed. It is persisted after `Saved` with this number or a later one.
    pub fn save(&mut self, now_ms: u64, client: ClientKey, number: u64, state: Vec<u8>) {
        self.with_sessions(now_ms, |sessions, cx| sessions.save(client, number, state, cx));
    }

    /// A client of this node has disconnected, by itself or after `SessionTakenOver`. If the state is empty, the session has ended too.
    pub fn left(&mut self, now_ms: u64, client: ClientKey, state: Vec<u8>) {
        self.with_sessions(now_ms, |sessions, cx| sessions.leave(client, state, cx));
    }

    /// These messages are persisted.
    fn stored(&mut self, now_ms: u64, origins: &[MessageOrigin]) {
        self.notify_operators(origins.iter(), true);
        self.with_sessions(now_ms, |sessions, cx| sessions.stored(origins, cx));
    }

    fn notify_operators<'a>(&mut self, origins: impl Iterator<Item = &'a MessageOrigin>, is_stored: bool) {
        for origin in origins {
            if let MessageSource::OperatorPublish { ticket } = origin.what {
                self.out.decide(Decision::Published { ticket, is_stored });
            }
        }
    }

    /// A client of this node has disconnected, and its session state cannot be written. The state saved last remains in effect, as if the
    /// node had died then.
    pub fn disconnected_as_saved(&mut self, now_ms: u64, client: ClientKey) {
        self.with_sessions(now_ms, |sessions, cx| sessions.disconnect_as_saved(client, cx));
    }

    fn with_sessions(&mut self, now_ms: u64, act: impl FnOnce(&mut Sessions, &mut SessionContext<'_>)) {
        // A retiring node does nothing with sessions any more.
        if self.is_over || self.drain.is_retiring && !is(Mutant::RetiresTooEarly) {
            return;
        }
        self.check_lease(now_ms);
        let Member { me, seed, is_serving, settings, nodes, producers, sessions, out, .. } = self;
        let (me, seed, is_serving) = (*me, *seed, *is_serving);
        act(sessions, &mut SessionContext { me, seed, now_ms, is_serving, settings, nodes, producers, out });
        if self.sessions.has_ended() {
            self.forget_members(now_ms);
        }
    }

    /// Notifies the engine if the lease has expired.
    fn check_lease(&mut self, now_ms: u64) {
        if self.is_serving && !self.lease.holds(now_ms) {
            self.is_serving = false;
            self.out.decide(Decision::Suspended);
        }
    }

    fn renewed(&mut self, now_ms: u64) {
        let was_late = self.last_renewal_ms.is_none_or(|last_ms| last_ms + 2 * self.settings.heartbeat_ms < now_ms);
        if was_late {
            self.nodes.reset_timers(now_ms);
        }
        self.last_renewal_ms = Some(now_ms);
        self.begin_to_serve(now_ms);
    }

    /// Whether the node has what it needs before it serves clients: the end of the log, all retained messages, and the configuration.
    fn is_ready(&self) -> bool {
        self.has_begun || self.log.has_begun() && self.mirror.is_caught_up() && self.config.is_ready()
    }

    /// Notifies the engine if clients may be served now.
    fn begin_to_serve(&mut self, now_ms: u64) {
        if !self.is_over && !self.is_serving && self.is_ready() && self.lease.holds(now_ms) {
            (self.is_serving, self.has_begun) = (true, true);
            self.out.decide(Decision::Resumed);
            self.with_sessions(now_ms, Sessions::resume);
            self.retained.resume(&mut self.out);
        }
    }

    fn end(&mut self, why: Decision) {
        self.is_over = true;
        self.lease.end();
        self.out.clear();
        self.out.decide(why);
    }
}
