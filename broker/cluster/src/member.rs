//! One node of a cluster.

use std::num::NonZeroU16;

use crate::delivery::{DeliveryCounters, Log, ReadRequest};
use crate::groups::{GroupMessage, GroupSurroundings, Groups};
use crate::interest::Interest;
use crate::lanes::{LaneEvent, Lanes};
use crate::lease::{Lease, LeaseEvent};
use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, GroupKey, Incarnation, Partition, Seed};
use crate::nodes::Nodes;
use crate::operation::{Answer, Decision, OperationId, Output, Revision, Sequence, Start};
use crate::outbox::{Outbox, Purpose};
use crate::peer_message::{PeerMessage, PeerMessageKind};
use crate::record::{NodeRecord, NodeState, Place};
use crate::sessions::{Request, Sessions, Surroundings};
use crate::settings::Settings;

/// [`Member::advance`] is to be called so often, in milliseconds. What is safe does not depend on it.
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
    /// What the engine has been told last.
    is_serving: bool,
    is_over: bool,
    nodes: Nodes,
    lanes: Lanes,
    sessions: Sessions,
    log: Log,
    interest: Interest,
    groups: Groups,
    out: Outbox,
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
            nodes.bury_at_once(former, &mut out);
        }
        let mut lease = Lease::new(me, name.to_owned());
        lease.advance(now_ms, &mut out);
        let mut log = Log::new(&settings);
        log.advance(now_ms, &settings, &mut out);
        Member {
            me,
            seed,
            settings,
            lease,
            last_renewal_ms: None,
            is_serving: false,
            is_over: false,
            nodes,
            lanes: Lanes::new(me),
            sessions: Sessions::default(),
            log,
            interest: Interest::default(),
            groups: Groups::default(),
            out,
        }
    }

    /// Which life this is.
    pub fn incarnation(&self) -> Incarnation {
        self.me
    }

    /// Whether clients may be read from and written to at this moment. To be asked at the beginning of each turn.
    pub fn is_serving(&self, now_ms: u64) -> bool {
        !self.is_over && self.log.has_begun() && self.lease.holds(now_ms)
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
        self.look_at_lease(now_ms);
        self.lease.advance(now_ms, &mut self.out);
        if self.is_serving {
            self.nodes.advance(now_ms, &self.settings, &mut self.out);
        }
        self.with_sessions(now_ms, Sessions::advance);
        self.log.advance(now_ms, &self.settings, &mut self.out);
        self.with_groups(now_ms, Groups::advance);
    }

    /// The record of a node has been seen, as the store reports changes.
    pub fn saw_node(&mut self, now_ms: u64, node: Incarnation, revision: Revision, record: &[u8]) {
        let Ok(record) = NodeRecord::decode(record) else { return };
        let is_alive = matches!(record.state, NodeState::Alive { .. });
        if self.is_over {
            return;
        }
        if node == self.me && !is_alive && !is(Mutant::IgnoresDeath) {
            return self.end();
        }
        self.nodes.saw(now_ms, node, revision, record);
    }

    /// Another node has sent something.
    pub fn heard(&mut self, now_ms: u64, bytes: &[u8]) {
        if self.is_over {
            return;
        }
        if let Some(message) = GroupMessage::decode(bytes) {
            self.with_groups(now_ms, |groups, cx| groups.heard(message, cx));
        }
        if let Some(PeerMessage { from, client, epoch, kind }) = PeerMessage::decode(bytes) {
            self.with_sessions(now_ms, |sessions, cx| match kind {
                PeerMessageKind::Release => sessions.wanted(client, from, epoch, cx),
                PeerMessageKind::Released => sessions.released(client, from, epoch, cx),
            });
        }
    }

    /// The store has answered. An answer that comes twice counts once.
    pub fn answer(&mut self, now_ms: u64, id: OperationId, answer: &Answer) {
        if self.is_over {
            return;
        }
        self.look_at_lease(now_ms);
        match self.out.answered(id) {
            None => {}
            Some(Purpose::Lease) => match self.lease.answer(now_ms, id, answer, &self.settings, &mut self.out) {
                LeaseEvent::Nothing => {}
                LeaseEvent::Renewed => self.renewed(now_ms),
                LeaseEvent::Over => self.end(),
            },
            Some(Purpose::Look(node)) => {
                match answer {
                    Answer::Got(Some((revision, record))) => self.saw_node(now_ms, node, *revision, record),
                    // Whoever owns something had a record before.
                    Answer::Got(None) => self.nodes.forget(node),
                    _ => {}
                }
            }
            Some(Purpose::Burial(node)) => self.nodes.answer(now_ms, node, id, answer, &mut self.out),
            Some(Purpose::Lane(partition)) => {
                match self.lanes.answer(partition, id, answer, &self.settings, &mut self.out) {
                    LaneEvent::Nothing => {}
                    LaneEvent::Stored { origins, ordinal } => self.with_sessions(now_ms, |sessions, cx| {
                        sessions.stored(partition, ordinal, &origins, cx);
                    }),
                    LaneEvent::Fenced => self.end(),
                }
            }
            Some(Purpose::Session(key)) => {
                self.with_sessions(now_ms, |sessions, cx| sessions.answer(key, id, answer, cx));
            }
            Some(Purpose::Log(partition)) => {
                self.log.answer(now_ms, partition, id, answer, &self.settings, &mut self.out);
                self.look_whether_to_serve(now_ms);
            }
            Some(Purpose::Group(key)) => self.with_groups(now_ms, |groups, cx| groups.answer(key, id, answer, cx)),
            Some(Purpose::Read) => self.log.read_answer(now_ms, id, answer, &self.settings, &mut self.out),
        }
    }

    /// A client has sent CONNECT. The answer is `Serve` or `Refuse` with this ticket. If this node serves the client already, the engine gets
    /// `Surrender` first.
    pub fn claim(&mut self, now_ms: u64, ticket: u64, client_id: &str, start: Start) {
        if self.is_over {
            return;
        }
        let deadline_ms = now_ms + self.settings.claim_timeout_ms;
        let (key, request) = (self.seed.client(client_id), Request::new(ticket, client_id, start, deadline_ms));
        self.with_sessions(now_ms, |sessions, cx| sessions.claim(key, request, cx));
    }

    /// The client that has asked with this ticket is gone, and nothing has been answered. Its session stays where it is, if it can. Nothing
    /// is answered any more.
    pub fn abandon(&mut self, now_ms: u64, client: ClientKey, ticket: u64) {
        self.with_sessions(now_ms, |sessions, cx| sessions.abandon(client, ticket, cx));
    }

    /// A client that is served has published: with a Packet Identifier for QoS 2, without one for QoS 1. `ticket` comes back with `Stored`, and
    /// is another one for each message of a service.
    ///
    /// # Errors
    /// There is no room for it now.
    pub fn publish(
        &mut self,
        now_ms: u64,
        client: ClientKey,
        ticket: u64,
        topic: &str,
        packet_id: Option<NonZeroU16>,
        message: Vec<u8>,
    ) -> Result<(), Full> {
        let partition = self.seed.partition(topic);
        if !self.lanes.has_room(partition, &self.settings) {
            return Err(Full(message));
        }
        self.with_sessions(now_ms, |sessions, cx| sessions.publish(client, partition, ticket, packet_id, &message, cx));
        Ok(())
    }

    /// PUBREL has come from a client that is served. The answer is `Completed`.
    pub fn release(&mut self, now_ms: u64, client: ClientKey, packet_id: NonZeroU16) {
        self.with_sessions(now_ms, |sessions, cx| sessions.release(client, packet_id, cx));
    }

    /// The state of a session that is served has changed. It is safe after `Saved` with this number or a later one.
    pub fn save(&mut self, now_ms: u64, client: ClientKey, number: u64, state: Vec<u8>) {
        self.with_sessions(now_ms, |sessions, cx| sessions.save(client, number, state, cx));
    }

    /// The connection of a client that was served has ended, by itself or by `Surrender`. With an empty state, so has the session.
    pub fn left(&mut self, now_ms: u64, client: ClientKey, state: Vec<u8>) {
        self.with_sessions(now_ms, |sessions, cx| sessions.leave(client, state, cx));
    }

    /// A shard has taken what has arrived of a partition, up to a sequence: more may come.
    pub fn took(&mut self, now_ms: u64, shard: usize, partition: Partition, until: Sequence) {
        if !self.is_over {
            self.log.took(now_ms, shard, partition, until, &self.settings, &mut self.out);
        }
    }

    /// A shard wants to read for sessions that are behind. The answer is [`Decision::Read`].
    pub fn read(&mut self, shard: usize, request: ReadRequest) {
        if !self.is_over {
            self.log.read(shard, request, &self.settings, &mut self.out);
        }
    }

    /// A session that this node serves has subscribed to `$share/name/filter`, or comes with that subscription. The answer is
    /// [`Decision::Joined`]. The epoch is that of [`Decision::Serve`].
    pub fn join(&mut self, now_ms: u64, client: ClientKey, epoch: u64, share: &str) {
        let group = self.seed.group(share);
        self.with_groups(now_ms, |groups, cx| groups.join(group, share, client, epoch, cx));
    }

    /// A session with the subscription `$share/name/filter` is not served here any more. It stays a member.
    pub fn leave(&mut self, now_ms: u64, client: ClientKey, share: &str) {
        let group = self.seed.group(share);
        self.with_groups(now_ms, |groups, cx| groups.leave(group, client, cx));
    }

    /// A session has unsubscribed from `$share/name/filter`, or has ended.
    pub fn part(&mut self, now_ms: u64, client: ClientKey, epoch: u64, share: &str) {
        let group = self.seed.group(share);
        self.with_groups(now_ms, |groups, cx| groups.part(group, share, client, epoch, cx));
    }

    /// How far a group has come, as [`Receivers::leases`](crate::delivery::Receivers::leases) says.
    pub fn checkpoint(&mut self, now_ms: u64, group: GroupKey, leases: Vec<(Partition, Place, Vec<Place>)>) {
        self.with_groups(now_ms, |groups, cx| groups.checkpoint(group, leases, cx));
    }

    /// The engine has stopped to deliver a partition of a group: how far it has come, and what is open.
    pub fn returned(&mut self, now_ms: u64, group: GroupKey, partition: Partition, next: Place, open: Vec<Place>) {
        let open = open.into_iter().collect();
        self.with_groups(now_ms, |groups, cx| groups.returned(group, partition, next, open, cx));
    }

    /// How many groups this node has to do with.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// A connected client of this node has subscribed to a filter, whose share is not part of it. Each one is counted.
    pub fn listen(&mut self, filter: &str) {
        if !self.is_over {
            let changes = self.interest.add(filter);
            self.out.change_interest(changes);
        }
    }

    /// A connected client of this node does not subscribe to a filter any more.
    pub fn unlisten(&mut self, filter: &str) {
        if !self.is_over {
            let changes = self.interest.remove(filter);
            self.out.change_interest(changes);
        }
    }

    /// The bus brings what matches a pattern from now on.
    pub fn listening(&mut self, pattern: &str) {
        if !self.is_over {
            let changes = self.interest.confirm(pattern);
            self.out.change_interest(changes);
        }
    }

    /// Whether this copy of a message of QoS 0 is for the engine: of those that came by several patterns, one is.
    pub fn counts(&self, pattern: &str, subject: &str) -> bool {
        self.interest.counts(pattern, subject)
    }

    /// To how many patterns of subjects the node listens, and whether they are shortened because there were too many.
    pub fn patterns(&self) -> (usize, bool) {
        (self.interest.len(), self.interest.is_coarse())
    }

    /// What delivery has done so far.
    pub fn delivery_counters(&self) -> DeliveryCounters {
        self.log.counters
    }

    fn with_sessions(&mut self, now_ms: u64, act: impl FnOnce(&mut Sessions, &mut Surroundings<'_>)) {
        if self.is_over {
            return;
        }
        self.look_at_lease(now_ms);
        let Member { me, is_serving, settings, nodes, lanes, sessions, out, .. } = self;
        act(sessions, &mut Surroundings { me: *me, now_ms, is_serving: *is_serving, settings, nodes, lanes, out });
    }

    fn with_groups(&mut self, now_ms: u64, act: impl FnOnce(&mut Groups, &mut GroupSurroundings<'_>)) {
        if self.is_over {
            return;
        }
        let position = self.log.position();
        let Member { me, is_serving, settings, nodes, groups, out, .. } = self;
        let ask_again_ms = settings.ask_again_ms;
        act(
            groups,
            &mut GroupSurroundings { me: *me, now_ms, is_serving: *is_serving, ask_again_ms, position, nodes, out },
        );
    }

    /// Tells the engine if the lease has run out.
    fn look_at_lease(&mut self, now_ms: u64) {
        if self.is_serving && !self.lease.holds(now_ms) {
            self.is_serving = false;
            self.out.decide(Decision::Suspended);
        }
    }

    fn renewed(&mut self, now_ms: u64) {
        let was_late = self.last_renewal_ms.is_none_or(|last_ms| last_ms + 2 * self.settings.beat_ms < now_ms);
        if was_late {
            self.nodes.count_anew(now_ms);
        }
        self.last_renewal_ms = Some(now_ms);
        self.look_whether_to_serve(now_ms);
    }

    /// Tells the engine if clients may be served now.
    fn look_whether_to_serve(&mut self, now_ms: u64) {
        if !self.is_serving && self.log.has_begun() && self.lease.holds(now_ms) {
            self.is_serving = true;
            self.out.decide(Decision::Resumed);
            self.with_sessions(now_ms, Sessions::resume);
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        self.lease.end();
        self.out.clear();
        self.out.decide(Decision::Fenced);
    }
}
