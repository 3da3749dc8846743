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
use crate::operation::{Answer, Decision, Operation, OperationId, Output, Revision, Sequence, Start};
use crate::outbox::{Outbox, Purpose};
use crate::peer_commands::{PeerCommandMessage, PeerCommands};
use crate::peer_message::{PeerMessage, PeerMessageKind};
use crate::producers::{Entry, MessageOrigin, MessageSource, PartitionProducers, ProducerEvent, RetainRequest};
use crate::record::{Load, NodeRecord, NodeState, Publisher, Retain};
use crate::retained::{Mirror, Writer};
use crate::sessions::{ClaimRequest, PublishRequest, SessionContext, Sessions};
use crate::settings::Settings;
use crate::status::Counters;

/// [`Member::advance`] is to be called so often, in milliseconds. MessageSource is safe does not depend on it.
pub const TICK_MS: u64 = 100;

/// One life of a node: what it decides. Its surroundings tell it what happens, and after each call carry out what
/// [`next_output`](Member::next_output) gives.
///
/// Moments are milliseconds of a clock that never goes back and also counts while the machine is suspended. Clocks of different nodes need
/// not agree.
#[derive(Debug)]
pub struct Member {
    me: Incarnation,
    seed: Seed,
    settings: Settings,
    lease: Lease,
    last_renewal_ms: Option<u64>,
    /// MessageSource the engine has been told last.
    is_serving: bool,
    /// Whether it has ever been told that clients may be served.
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

/// MessageSource a client that is served has published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Comes back with the answer, and is a higher one for each message of a service.
    pub ticket: u64,
    /// The ticket of the last message of this service that the engine knows to be refused; 0 where there is none. Whoever does not know of a
    /// refusal hands over what its client has sent before it could be told, and that is refused as well.
    pub refusal_seen: u64,
    /// Where it goes.
    pub topic: &'a str,
    /// For QoS 2, its Packet Identifier. A message with RETAIN comes here even with QoS 0, since it needs a place in the log; nobody is told then.
    pub packet_id: Option<NonZeroU16>,
    /// With RETAIN: how it is kept, and where in their stream the retained messages of this node's own store have what the topic has so far.
    pub retain: Option<(Retain, Option<Sequence>)>,
    /// The message, as the log is to have it.
    pub message: Vec<u8>,
}

/// MessageSource those who run the broker have published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorPublish<'a> {
    /// Where it goes.
    pub topic: &'a str,
    /// With RETAIN: as [`Publish::retain`].
    pub retain: Option<(Retain, Option<Sequence>)>,
    /// The message, as the log is to have it.
    pub message: Vec<u8>,
}

/// There is no room for the message now: its publisher is not to be read from, and it is given back.
#[derive(Debug, PartialEq, Eq)]
pub struct Full(pub Vec<u8>);

impl Member {
    /// A node begins a life. `former` is the life before in the same data directory: whoever has its lock knows that it is over.
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

    /// Which life this is.
    pub fn incarnation(&self) -> Incarnation {
        self.me
    }

    /// Whether clients may be read from and written to at this moment. To be asked at the beginning of each turn.
    pub fn is_serving(&self, now_ms: u64) -> bool {
        !self.is_over && self.is_ready() && self.lease.holds(now_ms)
    }

    /// Until when clients may be served, unless something happens: for those who cannot ask [`is_serving`](Self::is_serving) at each moment.
    /// 0 after `Suspended`, before `Resumed`.
    pub fn serves_until_ms(&self) -> u64 {
        if self.is_serving && !self.is_over { self.lease.until_ms() } else { 0 }
    }

    /// The next thing that is to be done.
    pub fn next_output(&mut self) -> Option<Output> {
        self.out.next()
    }

    /// Time has passed.
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

    /// The record of a node has been seen, as the store reports changes.
    pub fn observe_node(&mut self, now_ms: u64, node: Incarnation, revision: Revision, record: &[u8]) {
        let record = match NodeRecord::decode(record) {
            Ok(record) => record,
            // Whose own record says something new is told by its next beat, which fails.
            Err(error) if node != self.me && !self.is_over => {
                return self.nodes.observe_unreadable(node, revision, error, &mut self.out);
            }
            Err(_) => return,
        };
        let is_alive = matches!(record.state, NodeState::Alive { .. });
        if self.is_over {
            return;
        }
        if node == self.me && !is_alive && !is(Mutant::IgnoresDeath) {
            let is_retired = self.drain.is_retiring && matches!(record.state, NodeState::Removed { .. });
            return self.end(if is_retired { Decision::Drained } else { Decision::Fenced });
        }
        self.nodes.observe(now_ms, node, revision, record);
    }

    /// Another node has sent something.
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
                PeerMessageKind::Release => sessions.wanted(client, from, claim, cx),
                PeerMessageKind::Released => sessions.released(client, from, claim, cx),
            });
        }
    }

    /// The store has answered. An answer that comes twice counts once.
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

    /// A client has sent CONNECT. The answer is `Serve` or `Refuse` with this ticket. If this node serves the client already, the engine gets
    /// `SessionTakenOver` first.
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

    /// The client that has asked with this ticket is gone, and nothing has been answered. Its session stays where it is, if it can. Nothing
    /// is answered any more.
    pub fn abandon(&mut self, now_ms: u64, client: ClientKey, ticket: u64) {
        self.with_sessions(now_ms, |sessions, cx| sessions.abandon(client, ticket, cx));
    }

    /// A client that is served has published. The answer is `Stored` or `NotStored`.
    ///
    /// # Errors
    /// There is no room for it now.
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

    /// Those who run the broker have published a message. The answer is `Published`; at once, where there is no room.
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

    /// PUBREL has come from a client that is served. The answer is `Completed`.
    pub fn release(&mut self, now_ms: u64, client: ClientKey, packet_id: NonZeroU16) {
        self.with_sessions(now_ms, |sessions, cx| sessions.release(client, packet_id, cx));
    }

    /// The state of a session that is served has changed. It is safe after `Saved` with this number or a later one.
    pub fn save(&mut self, now_ms: u64, client: ClientKey, number: u64, state: Vec<u8>) {
        self.with_sessions(now_ms, |sessions, cx| sessions.save(client, number, state, cx));
    }

    /// The connection of a client that was served has ended, by itself or by `SessionTakenOver`. With an empty state, so has the session.
    pub fn left(&mut self, now_ms: u64, client: ClientKey, state: Vec<u8>) {
        self.with_sessions(now_ms, |sessions, cx| sessions.leave(client, state, cx));
    }

    /// These messages are safe.
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

    /// The connection of a client that was served has ended, and what its session has cannot be written. MessageSource was saved last holds, as if the
    /// node had died then.
    pub fn disconnected_as_saved(&mut self, now_ms: u64, client: ClientKey) {
        self.with_sessions(now_ms, |sessions, cx| sessions.disconnect_as_saved(client, cx));
    }

    fn with_sessions(&mut self, now_ms: u64, act: impl FnOnce(&mut Sessions, &mut SessionContext<'_>)) {
        // Whoever buries itself has nothing to do with sessions any more.
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

    /// Tells the engine if the lease has run out.
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

    /// Whether the node knows what it needs before it serves anybody: where the log goes on, once all retained messages, and the configuration.
    fn is_ready(&self) -> bool {
        self.has_begun || self.log.has_begun() && self.mirror.is_caught_up() && self.config.is_ready()
    }

    /// Tells the engine if clients may be served from now on.
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
