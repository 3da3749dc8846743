//! What a shard knows of the cluster: claims, the sessions that it serves, its position in the log, and what it asks for.
//!
//! This room imports no other. What asks for several rooms is a step in the folder above.

mod broadcasts;
mod catch_up;
mod claims;
mod consumer;
mod directory;
mod due;
mod homes;
mod interest;
mod interest_sync;
mod joins;
mod log_place;
mod nodes;
mod operator;
mod queue;
mod retained_searches;
mod scan;
mod served;
mod stalled;

use std::collections::{HashMap, VecDeque};

use tautwire_cluster::delivery::{DeliverySource, Slot};
use tautwire_cluster::names::{ClientKey, GroupKey, PARTITIONS, Partition, Seed};
use tautwire_cluster::record::Place;
use tautwire_message::MessageRef;
use tautwire_protocol::PacketId;
use tautwire_router::SessionKey;
use tautwire_session::LogPosition;

pub use self::broadcasts::messages_of;
use self::broadcasts::{Batch, Broadcasts};
pub(crate) use self::claims::{Claim, Claims, Denial, Step};
pub(crate) use self::consumer::{LogConsumer, RoutingSpan};
use self::directory::SessionDirectory;
use self::due::DueQueue;
pub(crate) use self::homes::GroupHomes;
use self::interest_sync::InterestSyncs;
pub(crate) use self::joins::{PendingJoins, SubscribeFilter};
pub(crate) use self::log_place::{LogPlace, Places};
pub(crate) use self::nodes::{NodeReports, Values};
pub(crate) use self::operator::OperatorPublishOutcome;
use self::operator::OperatorPublishes;
pub(crate) use self::retained_searches::RetainedSearches;
use self::scan::SessionScan;
use self::served::PendingEvent;
pub(crate) use self::served::{AckTiming, ServedSession};
use self::stalled::StalledSearches;
use super::port::{ClusterRequest, RetainInfo};
use super::settings::ClusterSettings;
use crate::index::{ConnectionId, SessionIndex};
use crate::operations::publish_range::PublishRange;

/// Acknowledgements of a client after which its session is saved.
const CHECKPOINT_ACKS: u32 = 256;
/// The highest byte of a ticket is that of the shard.
const SHARD_SHIFT: u32 = 56;

/// How the node's life is, as this shard has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// It has not begun.
    None,
    /// It has, and has no lease yet.
    Beginning,
    Serving,
    /// The lease has run out.
    Suspended,
}

/// For whom a part of the log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPurpose {
    /// Sessions that are behind: the number of their walk.
    CatchUp(u64),
    /// A session whose client waits for it.
    Claim(ConnectionId),
}

/// `F`: see [`Step`].
#[derive(Debug)]
pub(crate) struct ClusterState<F> {
    seed: Seed,
    settings: ClusterSettings,
    life: Life,
    /// How many have begun.
    lives: u64,
    /// Names requests; none has been given twice.
    last_number: u64,
    pub(crate) claims: Claims<F>,
    pub(crate) retained_searches: RetainedSearches,
    pub(crate) stalled: StalledSearches,
    /// By the place of the session.
    served: Vec<Option<Box<ServedSession>>>,
    directory: SessionDirectory,
    /// The largest state of a session that the cluster takes.
    state_max_bytes: usize,
    /// Where the log began in this life.
    began: Places,
    pub(crate) log: LogConsumer,
    pub(crate) homes: GroupHomes,
    pub(crate) joining: PendingJoins,
    interest_syncs: InterestSyncs,
    pub(crate) nodes: NodeReports,
    /// How many spans have been passed.
    passed: u64,
    requests: VecDeque<ClusterRequest>,
    /// Of this turn.
    broadcasts: Broadcasts,
    /// Of turns before.
    broadcast_bytes: usize,
    /// Messages of operators.
    operator_publishes: OperatorPublishes,
    publishing_bytes: usize,
    /// Publishers who wait until fewer bytes are on their way.
    ahead: Vec<ConnectionId>,
    /// Sessions that are to be saved as soon as may be.
    to_save: Vec<SessionIndex>,
    /// Sessions with acknowledgements that are to be saved, by when.
    checkpoints: DueQueue,
    /// Which sessions are looked at next that may only be passed.
    rounds: SessionScan,
    reads: HashMap<u64, ReadPurpose>,
}

impl<F> ClusterState<F> {
    pub(crate) fn new(seed: Seed, shard: u8, settings: ClusterSettings) -> ClusterState<F> {
        ClusterState {
            seed,
            settings,
            life: Life::None,
            lives: 0,
            last_number: u64::from(shard) << SHARD_SHIFT,
            claims: Claims::default(),
            retained_searches: RetainedSearches::default(),
            stalled: StalledSearches::default(),
            served: Vec::new(),
            directory: SessionDirectory::default(),
            state_max_bytes: usize::MAX,
            began: [Place::START; PARTITIONS as usize],
            log: LogConsumer::new(&[Place::START; PARTITIONS as usize]),
            homes: GroupHomes::default(),
            joining: PendingJoins::default(),
            interest_syncs: InterestSyncs::default(),
            nodes: NodeReports::default(),
            passed: 0,
            requests: VecDeque::new(),
            broadcasts: Broadcasts::default(),
            broadcast_bytes: 0,
            operator_publishes: OperatorPublishes::default(),
            publishing_bytes: 0,
            ahead: Vec::new(),
            to_save: Vec::new(),
            checkpoints: DueQueue::default(),
            rounds: SessionScan::default(),
            reads: HashMap::new(),
        }
    }

    // The node's life.

    pub(crate) fn begin_life(&mut self, next: [Place; PARTITIONS as usize], state_max_bytes: usize) {
        self.life = Life::Beginning;
        self.state_max_bytes = state_max_bytes;
        self.lives += 1;
        self.publishing_bytes -= self.operator_publishes.end_life();
        self.began = next;
        self.log = LogConsumer::new(&next);
    }

    /// Nothing of this life counts any more.
    pub(crate) fn end_life(&mut self) {
        let requests = std::mem::take(&mut self.requests);
        let nodes = std::mem::take(&mut self.nodes);
        let fresh = ClusterState::new(self.seed, 0, self.settings.clone());
        let mut operator_publishes = std::mem::take(&mut self.operator_publishes);
        let _ = operator_publishes.end_life();
        *self = ClusterState { last_number: self.last_number, lives: self.lives, nodes, operator_publishes, ..fresh };
        // Who listens is not a matter of one life; who waits is gone with it.
        let stays = |request: &ClusterRequest| {
            matches!(request, ClusterRequest::AddInterest(_) | ClusterRequest::RemoveInterest(_))
        };
        self.requests.extend(requests.into_iter().filter(stays));
    }

    /// The lease holds, or does not; says whether that is news.
    pub(crate) fn suspend(&mut self, is_suspended: bool) -> bool {
        let life = match self.life {
            Life::None => Life::None,
            Life::Beginning if is_suspended => Life::Beginning,
            Life::Serving | Life::Suspended if is_suspended => Life::Suspended,
            Life::Beginning | Life::Serving | Life::Suspended => Life::Serving,
        };
        std::mem::replace(&mut self.life, life) != life
    }

    #[inline]
    pub(crate) fn is_suspended(&self) -> bool {
        self.life == Life::Suspended
    }

    /// Whether the lease holds. Nothing is claimed without one: a node that nobody knows of could not be buried.
    pub(crate) fn is_serving(&self) -> bool {
        self.life == Life::Serving
    }

    pub(crate) fn has_life(&self) -> bool {
        self.life != Life::None
    }

    /// Whether a message stood in the log before this life began, and comes to be retained although clients are served.
    pub(crate) fn is_from_before(&self, at: LogPlace) -> bool {
        matches!(self.life, Life::Serving | Life::Suspended) && at.place < self.began[at.partition.index()]
    }

    /// Which life this is, by those that this shard has been told of.
    pub(crate) fn lives(&self) -> u64 {
        self.lives
    }

    /// Seen by those who ask what a topic or a group is called.
    pub(crate) fn seed(&self) -> Seed {
        self.seed
    }

    pub(crate) fn state_max_bytes(&self) -> usize {
        self.state_max_bytes
    }

    pub(crate) fn settings(&self) -> &ClusterSettings {
        &self.settings
    }

    pub(crate) fn client(&self, name: &str) -> ClientKey {
        self.seed.client(name)
    }

    pub(crate) fn partition(&self, topic: &str) -> Partition {
        self.seed.partition(topic)
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    // Requests.

    pub(crate) fn ask(&mut self, request: ClusterRequest) {
        self.requests.push_back(request);
    }

    /// All that this turn asks for, and what was not taken before.
    pub(crate) fn requests(&mut self) -> &mut VecDeque<ClusterRequest> {
        // Behind all that it is about.
        if let Some(ticket) = self.interest_syncs.take_next() {
            self.ask(ClusterRequest::InterestSync { ticket });
        }
        self.broadcast_bytes += self.broadcasts.bytes();
        let batches = self.broadcasts.take();
        let broadcast = |Batch { topic, messages, .. }| ClusterRequest::Broadcast { topic, messages };
        self.requests.extend(batches.into_iter().map(broadcast));
        &mut self.requests
    }

    /// A message of QoS 0 goes to other nodes when the turn is over; false where too many wait.
    pub(crate) fn broadcast(&mut self, message: &MessageRef<'_>) -> bool {
        let waiting_bytes = self.broadcast_bytes + self.broadcasts.bytes();
        let has_room = waiting_bytes + message.stored_bytes() <= self.settings.broadcasts_max_bytes;
        if has_room {
            self.broadcasts.add(message);
        }
        has_room
    }

    /// Some requests have been taken.
    pub(crate) fn remove_sent_requests(&mut self) {
        if self.broadcast_bytes > 0 {
            let bytes = |request: &ClusterRequest| match request {
                ClusterRequest::Broadcast { messages, .. } => messages.len(),
                _ => 0,
            };
            self.broadcast_bytes = self.requests.iter().map(bytes).sum();
        }
    }

    // Sessions.

    /// A session of this shard is this node's from now on. `claimed_by`: the connection, and the epoch of its claim.
    pub(crate) fn serve(
        &mut self,
        session: SessionIndex,
        client: ClientKey,
        claimed_by: (ConnectionId, u64),
        next: Option<[Place; PARTITIONS as usize]>,
        now_ms: u64,
    ) {
        let slot = self.log.follow(next.as_ref());
        let mut served = Box::new(ServedSession::new(client, claimed_by, slot));
        served.saving.passed = self.passed;
        if self.served.len() <= session.number() {
            self.served.resize_with(session.number() + 1, || None);
        }
        self.rounds.begin(now_ms, self.settings.passed_save_ms);
        self.served[session.number()] = Some(served);
        self.directory.insert(client, session, &self.served);
    }

    /// The session is not served any more.
    pub(crate) fn leave(&mut self, session: SessionIndex) -> Option<Box<ServedSession>> {
        let served = self.served.get_mut(session.number())?.take()?;
        self.directory.remove(served.client, session);
        self.log.forget(served.slot);
        self.joining.leave(served.client);
        self.publishing_bytes -= served.publishing_bytes();
        Some(served)
    }

    #[inline]
    pub(crate) fn served(&self, session: SessionIndex) -> Option<&ServedSession> {
        self.served.get(session.number())?.as_deref()
    }

    fn served_mut(&mut self, session: SessionIndex) -> Option<&mut ServedSession> {
        self.served.get_mut(session.number())?.as_deref_mut()
    }

    pub(crate) fn session_of(&self, client: ClientKey) -> Option<SessionIndex> {
        self.directory.find(client, &self.served)
    }

    /// Whether a session outlives its connection, so that what its client is told has to be saved before.
    pub(crate) fn is_persisted(&self, session: SessionIndex) -> bool {
        self.served(session).is_some_and(|served| served.is_persisted)
    }

    pub(crate) fn keep(&mut self, session: SessionIndex, is_persisted: bool) {
        if let Some(served) = self.served_mut(session) {
            served.is_persisted = is_persisted;
        }
    }

    /// What holds when the connection ends has changed. Whoever is told of that has to wait until it is saved.
    pub(crate) fn record_disconnect_settings(&mut self, session: SessionIndex) {
        if let Some(served) = self.served_mut(session) {
            served.are_disconnect_settings_changed = true;
        }
    }

    /// Whether the cluster has to be told what holds when the connection ends. It is told then.
    pub(crate) fn take_disconnect_settings_changed(&mut self, session: SessionIndex) -> bool {
        self.served_mut(session).is_some_and(|served| std::mem::take(&mut served.are_disconnect_settings_changed))
    }

    /// Bytes of the session's filters in its state; `count` counts them where they are not known.
    pub(crate) fn filter_bytes(&mut self, session: SessionIndex, count: impl FnOnce() -> usize) -> usize {
        self.served_mut(session).map_or(0, |served| served.filter_bytes(count))
    }

    /// A filter has come or gone.
    pub(crate) fn count_filter(&mut self, session: SessionIndex, bytes: usize, has_come: bool) {
        if let Some(served) = self.served_mut(session) {
            served.count_filter(bytes, has_come);
        }
    }

    /// The client has been let in; or, with a connection, its CONNECT waits.
    pub(crate) fn let_in(&mut self, session: SessionIndex) {
        if let Some(served) = self.served_mut(session) {
            served.let_in();
        }
    }

    /// The connection whose CONNECT waits for a session.
    pub(crate) fn claimed_by(&self, session: SessionIndex) -> Option<ConnectionId> {
        self.served(session)?.claimed_by()
    }

    // What clients publish.

    /// Whether no more messages are taken on their way to the log.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.publishing_bytes >= self.settings.publishing_max_bytes
    }

    /// A client's publisher waits.
    pub(crate) fn wait_for_room(&mut self, id: ConnectionId) {
        self.ahead.push(id);
    }

    /// Those who wait, if there is room again.
    pub(crate) fn take_unblocked(&mut self) -> Vec<ConnectionId> {
        if self.ahead.is_empty() || self.publishing_bytes > self.settings.publishing_max_bytes / 2 {
            return Vec::new();
        }
        std::mem::take(&mut self.ahead)
    }

    /// A message goes to the log: one of QoS 2 with its Packet Identifier.
    pub(crate) fn publish(
        &mut self,
        session: SessionIndex,
        topic: &str,
        answering: AckTiming,
        packet_id: Option<PacketId>,
        retain: Option<RetainInfo>,
        message: Vec<u8>,
    ) -> bool {
        let Some(served) = self.served_mut(session) else { return false };
        let (client, ticket, bytes) = (served.client, served.next_ticket(), message.len());
        // Nobody sends again what was answered at once, nor anything before it because of it.
        let refusal_seen = if answering == AckTiming::Immediate { ticket } else { served.last_refused() };
        served.push_pending(PendingEvent::Stored { ticket, bytes, answering });
        self.publishing_bytes += bytes;
        self.ask(ClusterRequest::Publish {
            client,
            ticket,
            refusal_seen,
            topic: topic.into(),
            packet_id,
            retain,
            message,
        });
        true
    }

    /// A message of an operator goes to the log. Gives what its promise is known by.
    pub(crate) fn publish_as_operator(
        &mut self,
        topic: &str,
        retain: Option<RetainInfo>,
        message: Vec<u8>,
    ) -> PublishRange {
        let ticket = self.next_number();
        self.publishing_bytes += message.len();
        let range = self.operator_publishes.begin(ticket, message.len());
        self.ask(ClusterRequest::PublishFromOperator { ticket, topic: topic.into(), retain, message });
        range
    }

    /// The message of an operator is safe, or will never be in the log.
    pub(crate) fn was_published(&mut self, ticket: u64, is_stored: bool) {
        self.publishing_bytes -= self.operator_publishes.end(ticket, is_stored);
    }

    pub(crate) fn operator_publish_outcome(&self, range: PublishRange) -> OperatorPublishOutcome {
        self.operator_publishes.fate(range)
    }

    /// The operator has been told of that.
    pub(crate) fn remove_operator_publish(&mut self, range: PublishRange) {
        self.operator_publishes.remove_reported(range);
    }

    /// PUBREL has come.
    pub(crate) fn release(&mut self, session: SessionIndex, packet_id: PacketId) {
        if let Some(served) = self.served_mut(session) {
            served.push_pending(PendingEvent::Completed(packet_id));
            let client = served.client;
            self.ask(ClusterRequest::Release { client, packet_id });
        }
    }

    pub(crate) fn stored(&mut self, client: ClientKey, ticket: u64) -> Option<SessionIndex> {
        let session = self.session_of(client)?;
        let bytes = self.served_mut(session)?.stored(ticket);
        self.publishing_bytes -= bytes;
        Some(session)
    }

    /// A message will never be in the log; gives the session of its publisher, and when that is told, or was.
    pub(crate) fn not_stored(&mut self, client: ClientKey, ticket: u64) -> Option<(SessionIndex, AckTiming)> {
        let session = self.session_of(client)?;
        let (bytes, answering) = self.served_mut(session)?.not_stored(ticket);
        self.publishing_bytes -= bytes;
        Some((session, answering))
    }

    /// How many messages have been acknowledged that may not be in the log, of all clients that are here.
    pub(crate) fn acknowledged_before_stored(&self) -> u64 {
        self.served.iter().flatten().map(|served| served.acknowledged_before_stored()).sum()
    }

    /// Whether the answer to a message is that it is refused.
    pub(crate) fn take_refused(&mut self, session: SessionIndex, until: LogPosition) -> bool {
        self.served_mut(session).is_some_and(|served| served.take_refused(until))
    }

    pub(crate) fn completed(&mut self, client: ClientKey, packet_id: PacketId) -> Option<SessionIndex> {
        let session = self.session_of(client)?;
        self.served_mut(session)?.completed(packet_id);
        Some(session)
    }

    // What is saved.

    /// A session is to be saved, and what is acknowledged from now on waits for that.
    pub(crate) fn await_save(&mut self, session: SessionIndex) {
        if let Some(served) = self.served_mut(session) {
            served.await_save();
            self.to_save.push(session);
        }
    }

    /// The client has acknowledged something.
    pub(crate) fn record_acknowledged(&mut self, session: SessionIndex, now_ms: u64) {
        let checkpoint_ms = self.settings.checkpoint_ms;
        let Some(served) = self.served_mut(session).filter(|served| served.is_persisted) else { return };
        served.saving.unsaved += 1;
        let (unsaved, epoch) = (served.saving.unsaved, served.epoch());
        if unsaved == 1 {
            self.checkpoints.push(now_ms + checkpoint_ms, (session, epoch));
        } else if unsaved == CHECKPOINT_ACKS {
            self.request_save(session);
        }
    }

    /// A session joins a group, and what is acknowledged from now on waits for that.
    pub(crate) fn await_join(&mut self, session: SessionIndex, group: GroupKey) {
        if let Some(served) = self.served_mut(session) {
            served.push_pending(PendingEvent::Joined(group));
        }
    }

    /// It is a member, or never will be.
    pub(crate) fn end_join(&mut self, client: ClientKey, group: GroupKey) -> Option<SessionIndex> {
        let session = self.session_of(client)?;
        self.served_mut(session)?.joined(group);
        Some(session)
    }

    /// A member does not have a message of its group any more. What it has not acknowledged is for any other.
    pub(crate) fn settle(&mut self, slot: Slot, at: LogPlace, member: SessionKey, is_done: bool, now_ms: u64) {
        let Some(group) = self.homes.get_mut(slot) else { return };
        if !group.settle(at, member, is_done) {
            return;
        }
        let goes_on = group.has_much_room(&member, &self.settings);
        if is_done {
            self.log.complete(slot, at, now_ms);
        } else {
            self.log.requeue(slot, at);
        }
        if goes_on {
            self.log.unblock(slot);
        }
        self.remove_group_if_idle(slot);
    }

    /// A group that this node has nothing of any more is forgotten.
    pub(crate) fn remove_group_if_idle(&mut self, slot: Slot) {
        if self.homes.remove_if_idle(slot) {
            self.log.forget(slot);
        }
    }

    /// A session is to be saved, and nothing waits for that.
    pub(crate) fn request_save(&mut self, session: SessionIndex) {
        if let Some(served) = self.served_mut(session) {
            served.saving.is_wanted = true;
            self.to_save.push(session);
        }
    }

    /// Finds the sessions that are to be saved by now.
    pub(crate) fn collect_due(&mut self, now_ms: u64) {
        while let Some((session, epoch)) = self.checkpoints.next(now_ms) {
            let is_due = |served: &&ServedSession| served.epoch() == epoch && served.saving.unsaved > 0;
            if self.served(session).filter(is_due).is_some() {
                self.request_save(session);
            }
        }
        let places = if self.directory.is_empty() { 0 } else { self.served.len() };
        let places = self.rounds.next(places, now_ms, self.settings.passed_save_ms);
        for session in places.filter_map(SessionIndex::new) {
            let is_passed = |served: &&ServedSession| served.is_persisted && served.saving.passed < self.passed;
            if self.served(session).filter(is_passed).is_some() {
                self.request_save(session);
            }
        }
    }

    /// When that is to be done again.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        let sessions = [self.checkpoints.first_ms(), self.rounds.next_ms()].into_iter().flatten();
        let groups = self.log.next_due_ms().into_iter().chain(self.homes.next_due_ms());
        sessions.chain(groups).chain(self.retained_searches.next_due_ms()).chain(self.stalled.next_due_ms()).min()
    }

    /// A session whose state goes out now, and the number of that.
    pub(crate) fn next_save(&mut self) -> Option<(SessionIndex, ClientKey, u64)> {
        let passed = self.passed;
        while let Some(session) = self.to_save.pop() {
            if let Some(served) = self.served_mut(session)
                && served.saving.is_wanted
                && !served.saving.is_under_way
            {
                return Some((session, served.client, served.begin_save(passed)));
            }
        }
        None
    }

    pub(crate) fn has_saves(&self) -> bool {
        !self.to_save.is_empty()
    }

    pub(crate) fn saved(&mut self, client: ClientKey, number: u64) -> Option<SessionIndex> {
        let session = self.session_of(client)?;
        let served = self.served_mut(session)?;
        served.saved(number);
        if served.saving.is_wanted {
            self.to_save.push(session);
        }
        Some(session)
    }

    // What comes of the log.

    /// All of what is being routed has been routed. Gives how many messages have been lost on the way.
    pub(crate) fn finish_span(&mut self) -> u64 {
        let Some((RoutingSpan { walk, span, .. }, lost)) = self.log.finish_span() else { return 0 };
        if walk == DeliverySource::Live {
            self.passed += 1;
            self.ask(ClusterRequest::Received { partition: span.partition, until: span.until });
        }
        span.lost + lost as u64
    }

    /// All before these places has been routed.
    pub(crate) fn positions(&self) -> Places {
        self.log.positions()
    }

    /// Whether a session wants the copy of a message that is at hand.
    pub(crate) fn wants(&self, session: SessionIndex, at: LogPlace) -> bool {
        self.served(session).is_some_and(|served| self.log.wants(served.slot, at))
    }

    /// Whether a session stands behind this message already.
    pub(crate) fn is_ahead_of(&self, session: SessionIndex, at: LogPlace) -> bool {
        self.served(session).is_some_and(|served| at.place < self.log.next_place(served.slot, at.partition))
    }

    /// The first place in a partition that a session has not been offered.
    pub(crate) fn next_place(&self, session: SessionIndex, partition: Partition) -> Place {
        self.served(session).map_or(Place::START, |served| self.log.next_place(served.slot, partition))
    }

    /// A session has no room for a message now: it reads on from there when it has some.
    pub(crate) fn block(&mut self, session: SessionIndex, at: LogPlace) {
        if let Some(slot) = self.served(session).map(|served| served.slot) {
            self.log.block(slot, at);
        }
    }

    /// A session has room.
    pub(crate) fn unblock(&mut self, session: SessionIndex) {
        if let Some(slot) = self.served(session).map(|served| served.slot) {
            self.log.unblock(slot);
        }
    }

    /// The session gets a copy of the message at hand.
    pub(crate) fn count_deliveries(&mut self, session: SessionIndex, at: LogPlace) {
        let offer = self.log.offer();
        if let Some(served) = self.served_mut(session) {
            served.last_given = offer;
            let slot = served.slot;
            self.log.take(slot, at);
        }
    }

    /// The session has had a copy of the message at hand: all copies of one message are taken, or none is.
    pub(crate) fn was_already_given(&self, session: SessionIndex) -> bool {
        self.served(session).is_some_and(|served| served.last_given == self.log.offer())
    }
}
