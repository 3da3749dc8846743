//! The cluster state of a shard: claims, served sessions, its position in the log, and pending requests.
//!
//! This module does not import other state types. Steps that need several of them are in the folder above.

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

/// A session is saved after this many acknowledgements of its client.
const CHECKPOINT_ACKS: u32 = 256;
/// The highest byte of a ticket is the number of the shard.
const SHARD_SHIFT: u32 = 56;

/// The state of the node's incarnation, as reported to this shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeState {
    /// No incarnation has begun.
    None,
    /// It has begun, and has no lease yet.
    Beginning,
    Serving,
    /// The lease has expired.
    Suspended,
}

/// The reason why a part of the log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPurpose {
    /// Lagging sessions: the number of the read.
    CatchUp(u64),
    /// A session whose client waits for it.
    Claim(ConnectionId),
}

/// The cluster state of a shard. For `F`, see [`Step`].
#[derive(Debug)]
pub(crate) struct ClusterState<F> {
    seed: Seed,
    settings: ClusterSettings,
    node_state: NodeState,
    /// The number of the current incarnation.
    incarnation: u64,
    /// The last request number; each is used once.
    last_number: u64,
    pub(super) claims: Claims<F>,
    pub(super) retained_searches: RetainedSearches,
    pub(super) stalled: StalledSearches,
    /// By session index.
    served: Vec<Option<Box<ServedSession>>>,
    directory: SessionDirectory,
    /// The maximum size of a session's state in the cluster.
    state_max_bytes: usize,
    /// The places at which the log began in this incarnation.
    log_start: Places,
    pub(super) log: LogConsumer,
    pub(super) homes: GroupHomes,
    pub(super) joining: PendingJoins,
    interest_syncs: InterestSyncs,
    pub(super) nodes: NodeReports,
    /// The number of live spans that were routed.
    routed_spans: u64,
    requests: VecDeque<ClusterRequest>,
    /// Messages of QoS 0 of this turn.
    broadcasts: Broadcasts,
    /// Bytes of such messages of earlier turns.
    broadcast_bytes: usize,
    /// Pending messages of operators.
    operator_publishes: OperatorPublishes,
    publishing_bytes: usize,
    /// Publishers that wait until fewer bytes are being stored.
    paused_publishers: Vec<ConnectionId>,
    /// Sessions with a requested save.
    to_save: Vec<SessionIndex>,
    /// Sessions with unsaved acknowledgements, by the time of their save.
    checkpoints: DueQueue,
    /// The scan for sessions whose position only advanced past messages for others.
    session_scan: SessionScan,
    reads: HashMap<u64, ReadPurpose>,
}

impl<F> ClusterState<F> {
    pub(crate) fn new(seed: Seed, shard: u8, settings: ClusterSettings) -> ClusterState<F> {
        ClusterState {
            seed,
            settings,
            node_state: NodeState::None,
            incarnation: 0,
            last_number: u64::from(shard) << SHARD_SHIFT,
            claims: Claims::default(),
            retained_searches: RetainedSearches::default(),
            stalled: StalledSearches::default(),
            served: Vec::new(),
            directory: SessionDirectory::default(),
            state_max_bytes: usize::MAX,
            log_start: [Place::START; PARTITIONS as usize],
            log: LogConsumer::new(&[Place::START; PARTITIONS as usize]),
            homes: GroupHomes::default(),
            joining: PendingJoins::default(),
            interest_syncs: InterestSyncs::default(),
            nodes: NodeReports::default(),
            routed_spans: 0,
            requests: VecDeque::new(),
            broadcasts: Broadcasts::default(),
            broadcast_bytes: 0,
            operator_publishes: OperatorPublishes::default(),
            publishing_bytes: 0,
            paused_publishers: Vec::new(),
            to_save: Vec::new(),
            checkpoints: DueQueue::default(),
            session_scan: SessionScan::default(),
            reads: HashMap::new(),
        }
    }

    // The node's incarnation.

    pub(crate) fn begin_incarnation(&mut self, next: [Place; PARTITIONS as usize], state_max_bytes: usize) {
        self.node_state = NodeState::Beginning;
        self.state_max_bytes = state_max_bytes;
        self.incarnation += 1;
        self.publishing_bytes -= self.operator_publishes.end_incarnation();
        self.log_start = next;
        self.log = LogConsumer::new(&next);
    }

    /// Ends the incarnation and drops its state.
    pub(crate) fn end_incarnation(&mut self) {
        let requests = std::mem::take(&mut self.requests);
        let nodes = std::mem::take(&mut self.nodes);
        let fresh = ClusterState::new(self.seed, 0, self.settings.clone());
        let mut operator_publishes = std::mem::take(&mut self.operator_publishes);
        let _ = operator_publishes.end_incarnation();
        *self = ClusterState {
            last_number: self.last_number,
            incarnation: self.incarnation,
            nodes,
            operator_publishes,
            ..fresh
        };
        // Changes of filters outlive an incarnation; waiting clients do not.
        let is_interest_change = |request: &ClusterRequest| {
            matches!(request, ClusterRequest::AddInterest(_) | ClusterRequest::RemoveInterest(_))
        };
        self.requests.extend(requests.into_iter().filter(is_interest_change));
    }

    /// Suspends or resumes service; returns whether that is a change.
    pub(crate) fn suspend(&mut self, is_suspended: bool) -> bool {
        let node_state = match self.node_state {
            NodeState::None => NodeState::None,
            NodeState::Beginning if is_suspended => NodeState::Beginning,
            NodeState::Serving | NodeState::Suspended if is_suspended => NodeState::Suspended,
            NodeState::Beginning | NodeState::Serving | NodeState::Suspended => NodeState::Serving,
        };
        std::mem::replace(&mut self.node_state, node_state) != node_state
    }

    #[inline]
    pub(crate) fn is_suspended(&self) -> bool {
        self.node_state == NodeState::Suspended
    }

    /// Whether the lease is valid. Without one, nothing is claimed: a node that the others do not know could not be removed.
    pub(crate) fn is_serving(&self) -> bool {
        self.node_state == NodeState::Serving
    }

    pub(crate) fn is_started(&self) -> bool {
        self.node_state != NodeState::None
    }

    /// Whether a message was in the log before this incarnation began, and becomes retained while clients are served.
    pub(crate) fn predates_incarnation(&self, at: LogPlace) -> bool {
        matches!(self.node_state, NodeState::Serving | NodeState::Suspended)
            && at.place < self.log_start[at.partition.index()]
    }

    /// The number of the current incarnation in this shard.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The seed of the cluster's keys and partitions.
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

    pub(crate) fn push_request(&mut self, request: ClusterRequest) {
        self.requests.push_back(request);
    }

    /// The requests of this turn, after those that were not sent before.
    pub(crate) fn requests(&mut self) -> &mut VecDeque<ClusterRequest> {
        // Behind the filters that it covers.
        if let Some(ticket) = self.interest_syncs.take_next() {
            self.push_request(ClusterRequest::InterestSync { ticket });
        }
        self.broadcast_bytes += self.broadcasts.bytes();
        let batches = self.broadcasts.take();
        let broadcast = |Batch { topic, messages, .. }| ClusterRequest::Broadcast { topic, messages };
        self.requests.extend(batches.into_iter().map(broadcast));
        &mut self.requests
    }

    /// Queues a message of QoS 0 for other nodes until the end of the turn; returns false if the queue is full.
    pub(crate) fn broadcast(&mut self, message: &MessageRef<'_>) -> bool {
        let waiting_bytes = self.broadcast_bytes + self.broadcasts.bytes();
        let has_room = waiting_bytes + message.stored_bytes() <= self.settings.broadcasts_max_bytes;
        if has_room {
            self.broadcasts.add(message);
        }
        has_room
    }

    /// Updates the byte count after some requests were sent.
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

    /// Starts to serve a session of this shard. `claimed_by` is the connection and the epoch of its claim.
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
        served.saving.routed_spans = self.routed_spans;
        if self.served.len() <= session.number() {
            self.served.resize_with(session.number() + 1, || None);
        }
        self.session_scan.begin(now_ms, self.settings.idle_save_ms);
        self.served[session.number()] = Some(served);
        self.directory.insert(client, session, &self.served);
    }

    /// Stops serving a session.
    pub(crate) fn stop_serving(&mut self, session: SessionIndex) -> Option<Box<ServedSession>> {
        let served = self.served.get_mut(session.number())?.take()?;
        self.directory.remove(served.client, session);
        self.log.remove_follower(served.slot);
        self.joining.remove_client(served.client);
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

    /// Whether a session outlives its connection, so that its changes must be saved before they are acknowledged.
    pub(crate) fn is_persisted(&self, session: SessionIndex) -> bool {
        self.served(session).is_some_and(|served| served.is_persisted)
    }

    pub(crate) fn set_persistent(&mut self, session: SessionIndex, is_persisted: bool) {
        if let Some(served) = self.served_mut(session) {
            served.is_persisted = is_persisted;
        }
    }

    /// Marks the settings for the end of the connection as changed. An acknowledgement of that must also wait for a save.
    pub(crate) fn record_disconnect_settings(&mut self, session: SessionIndex) {
        if let Some(served) = self.served_mut(session) {
            served.are_disconnect_settings_changed = true;
        }
    }

    /// Returns and clears whether the settings for the end of the connection must be sent.
    pub(crate) fn take_disconnect_settings_changed(&mut self, session: SessionIndex) -> bool {
        self.served_mut(session).is_some_and(|served| std::mem::take(&mut served.are_disconnect_settings_changed))
    }

    /// The bytes of the session's filters in its state; calls `count` if they are not known.
    pub(crate) fn filter_bytes(&mut self, session: SessionIndex, count: impl FnOnce() -> usize) -> usize {
        self.served_mut(session).map_or(0, |served| served.filter_bytes(count))
    }

    /// Counts a new filter, or one that was removed.
    pub(crate) fn count_filter(&mut self, session: SessionIndex, bytes: usize, has_come: bool) {
        if let Some(served) = self.served_mut(session) {
            served.count_filter(bytes, has_come);
        }
    }

    /// Ends the claim of a session, whose client is accepted.
    pub(crate) fn clear_claim(&mut self, session: SessionIndex) {
        if let Some(served) = self.served_mut(session) {
            served.clear_claim();
        }
    }

    /// The connection whose CONNECT waits for a session.
    pub(crate) fn claimed_by(&self, session: SessionIndex) -> Option<ConnectionId> {
        self.served(session)?.claimed_by()
    }

    // Messages of clients.

    /// Whether too many bytes are being stored in the log.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.publishing_bytes >= self.settings.publishing_max_bytes
    }

    /// Adds a publisher that waits for room.
    pub(crate) fn add_paused_publisher(&mut self, id: ConnectionId) {
        self.paused_publishers.push(id);
    }

    /// The waiting publishers, if there is room again.
    pub(crate) fn take_unblocked(&mut self) -> Vec<ConnectionId> {
        if self.paused_publishers.is_empty() || self.publishing_bytes > self.settings.publishing_max_bytes / 2 {
            return Vec::new();
        }
        std::mem::take(&mut self.paused_publishers)
    }

    /// Publishes a message to the log; one of QoS 2 with its packet identifier.
    pub(crate) fn publish(
        &mut self,
        session: SessionIndex,
        topic: &str,
        ack_timing: AckTiming,
        packet_id: Option<PacketId>,
        retain: Option<RetainInfo>,
        message: Vec<u8>,
    ) -> bool {
        let Some(served) = self.served_mut(session) else { return false };
        let (client, ticket, bytes) = (served.client, served.next_ticket(), message.len());
        // A message that was acknowledged at once is not sent again, nor are those before it.
        let refusal_seen = if ack_timing == AckTiming::Immediate { ticket } else { served.last_refused() };
        served.push_pending(PendingEvent::Stored { ticket, bytes, ack_timing });
        self.publishing_bytes += bytes;
        self.push_request(ClusterRequest::Publish {
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

    /// Publishes a message of an operator to the log. Returns a handle for its outcome.
    pub(crate) fn publish_as_operator(
        &mut self,
        topic: &str,
        retain: Option<RetainInfo>,
        message: Vec<u8>,
    ) -> PublishRange {
        let ticket = self.next_number();
        self.publishing_bytes += message.len();
        let range = self.operator_publishes.begin(ticket, message.len());
        self.push_request(ClusterRequest::PublishFromOperator { ticket, topic: topic.into(), retain, message });
        range
    }

    /// Records that a message of an operator was stored, or never will be.
    pub(crate) fn record_operator_publish(&mut self, ticket: u64, is_stored: bool) {
        self.publishing_bytes -= self.operator_publishes.end(ticket, is_stored);
    }

    pub(crate) fn operator_publish_outcome(&self, range: PublishRange) -> OperatorPublishOutcome {
        self.operator_publishes.outcome(range)
    }

    /// Forgets outcomes that were reported to the operator.
    pub(crate) fn remove_operator_publish(&mut self, range: PublishRange) {
        self.operator_publishes.remove_reported(range);
    }

    /// Releases a packet identifier after PUBREL.
    pub(crate) fn release(&mut self, session: SessionIndex, packet_id: PacketId) {
        if let Some(served) = self.served_mut(session) {
            served.push_pending(PendingEvent::Completed(packet_id));
            let client = served.client;
            self.push_request(ClusterRequest::Release { client, packet_id });
        }
    }

    pub(crate) fn record_stored(&mut self, client: ClientKey, ticket: u64) -> Option<SessionIndex> {
        let session = self.session_of(client)?;
        let bytes = self.served_mut(session)?.record_stored(ticket);
        self.publishing_bytes -= bytes;
        Some(session)
    }

    /// Records that a message will never be in the log; returns its publisher's session, and when it is or was acknowledged.
    pub(crate) fn record_not_stored(&mut self, client: ClientKey, ticket: u64) -> Option<(SessionIndex, AckTiming)> {
        let session = self.session_of(client)?;
        let (bytes, ack_timing) = self.served_mut(session)?.record_not_stored(ticket);
        self.publishing_bytes -= bytes;
        Some((session, ack_timing))
    }

    /// The number of messages of all served clients that were acknowledged and may not be in the log.
    pub(crate) fn acknowledged_before_stored(&self) -> u64 {
        self.served.iter().flatten().map(|served| served.acknowledged_before_stored()).sum()
    }

    /// Whether a message was refused.
    pub(crate) fn take_refused(&mut self, session: SessionIndex, until: LogPosition) -> bool {
        self.served_mut(session).is_some_and(|served| served.take_refused(until))
    }

    pub(crate) fn record_completed(&mut self, client: ClientKey, packet_id: PacketId) -> Option<SessionIndex> {
        let session = self.session_of(client)?;
        self.served_mut(session)?.record_completed(packet_id);
        Some(session)
    }

    // Saves.

    /// Requests a save of a session, which later acknowledgements wait for.
    pub(crate) fn await_save(&mut self, session: SessionIndex) {
        if let Some(served) = self.served_mut(session) {
            served.await_save();
            self.to_save.push(session);
        }
    }

    /// Counts an acknowledgement of a client, and schedules a save.
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

    /// Delays later acknowledgements until a session has joined a group.
    pub(crate) fn await_join(&mut self, session: SessionIndex, group: GroupKey) {
        if let Some(served) = self.served_mut(session) {
            served.push_pending(PendingEvent::Joined(group));
        }
    }

    /// Ends the wait for a join, which succeeded or failed.
    pub(crate) fn end_join(&mut self, client: ClientKey, group: GroupKey) -> Option<SessionIndex> {
        let session = self.session_of(client)?;
        self.served_mut(session)?.record_joined(group);
        Some(session)
    }

    /// Settles a message of a member of a group. A message that was not acknowledged goes to another member.
    pub(crate) fn settle(&mut self, slot: Slot, at: LogPlace, member: SessionKey, is_done: bool, now_ms: u64) {
        let Some(group) = self.homes.get_mut(slot) else { return };
        if !group.settle(at, member, is_done) {
            return;
        }
        let resumes = group.can_resume_reading(&member, &self.settings);
        if is_done {
            self.log.complete(slot, at, now_ms);
        } else {
            self.log.requeue(slot, at);
        }
        if resumes {
            self.log.unblock(slot);
        }
        self.remove_group_if_idle(slot);
    }

    /// Removes a group with which this node has nothing more to do.
    pub(crate) fn remove_group_if_idle(&mut self, slot: Slot) {
        if self.homes.remove_if_idle(slot) {
            self.log.remove_follower(slot);
        }
    }

    /// Requests a save of a session that nothing waits for.
    pub(crate) fn request_save(&mut self, session: SessionIndex) {
        if let Some(served) = self.served_mut(session) {
            served.saving.is_wanted = true;
            self.to_save.push(session);
        }
    }

    /// Requests the saves that are due.
    pub(crate) fn collect_due(&mut self, now_ms: u64) {
        while let Some((session, epoch)) = self.checkpoints.next(now_ms) {
            let is_due = |served: &&ServedSession| served.epoch() == epoch && served.saving.unsaved > 0;
            if self.served(session).filter(is_due).is_some() {
                self.request_save(session);
            }
        }
        let places = if self.directory.is_empty() { 0 } else { self.served.len() };
        let places = self.session_scan.next(places, now_ms, self.settings.idle_save_ms);
        for session in places.filter_map(SessionIndex::new) {
            let has_unsaved_position =
                |served: &&ServedSession| served.is_persisted && served.saving.routed_spans < self.routed_spans;
            if self.served(session).filter(has_unsaved_position).is_some() {
                self.request_save(session);
            }
        }
    }

    /// When the next task is due.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        let sessions = [self.checkpoints.first_ms(), self.session_scan.next_ms()].into_iter().flatten();
        let groups = self.log.next_due_ms().into_iter().chain(self.homes.next_due_ms());
        sessions.chain(groups).chain(self.retained_searches.next_due_ms()).chain(self.stalled.next_due_ms()).min()
    }

    /// The next session to save, and the number of the save.
    pub(crate) fn next_save(&mut self) -> Option<(SessionIndex, ClientKey, u64)> {
        let routed_spans = self.routed_spans;
        while let Some(session) = self.to_save.pop() {
            if let Some(served) = self.served_mut(session)
                && served.saving.is_wanted
                && !served.saving.is_under_way
            {
                return Some((session, served.client, served.begin_save(routed_spans)));
            }
        }
        None
    }

    pub(crate) fn has_saves(&self) -> bool {
        !self.to_save.is_empty()
    }

    pub(crate) fn record_saved(&mut self, client: ClientKey, number: u64) -> Option<SessionIndex> {
        let session = self.session_of(client)?;
        let served = self.served_mut(session)?;
        served.record_saved(number);
        if served.saving.is_wanted {
            self.to_save.push(session);
        }
        Some(session)
    }

    // Messages from the log.

    /// Finishes the current span. Returns how many messages were lost.
    pub(crate) fn finish_span(&mut self) -> u64 {
        let Some((RoutingSpan { source, span, .. }, lost)) = self.log.finish_span() else { return 0 };
        if source == DeliverySource::Live {
            self.routed_spans += 1;
            self.push_request(ClusterRequest::Received { partition: span.partition, until: span.until });
        }
        span.lost + lost as u64
    }

    /// Everything before these places was routed.
    pub(crate) fn positions(&self) -> Places {
        self.log.positions()
    }

    /// Whether a session needs this copy of a message.
    pub(crate) fn wants(&self, session: SessionIndex, at: LogPlace) -> bool {
        self.served(session).is_some_and(|served| self.log.wants(served.slot, at))
    }

    /// Whether a session's position is past this message.
    pub(crate) fn is_ahead_of(&self, session: SessionIndex, at: LogPlace) -> bool {
        self.served(session).is_some_and(|served| at.place < self.log.next_place(served.slot, at.partition))
    }

    /// The first place in a partition that was not offered to a session.
    pub(crate) fn next_place(&self, session: SessionIndex, partition: Partition) -> Place {
        self.served(session).map_or(Place::START, |served| self.log.next_place(served.slot, partition))
    }

    /// Blocks a session without room at a message; it reads on from there later.
    pub(crate) fn block(&mut self, session: SessionIndex, at: LogPlace) {
        if let Some(slot) = self.served(session).map(|served| served.slot) {
            self.log.block(slot, at);
        }
    }

    /// Unblocks a session that has room.
    pub(crate) fn unblock(&mut self, session: SessionIndex) {
        if let Some(slot) = self.served(session).map(|served| served.slot) {
            self.log.unblock(slot);
        }
    }

    /// Records that a session gets a copy of the current message.
    pub(crate) fn record_delivery(&mut self, session: SessionIndex, at: LogPlace) {
        let number = self.log.current_number();
        if let Some(served) = self.served_mut(session) {
            served.last_delivered = number;
            let slot = served.slot;
            self.log.take(slot, at);
        }
    }

    /// Whether a session got a copy of the current message: a session accepts either all copies of a message or none.
    pub(crate) fn was_already_delivered(&self, session: SessionIndex) -> bool {
        self.served(session).is_some_and(|served| served.last_delivered == self.log.current_number())
    }
}
