//! Retained messages: those of clients go to the log, changes from the cluster go into the store of all shards, and a SUBSCRIBE waits until
//! the store has everything that was acknowledged before.

use tautwire_cluster::record::Retain;
use tautwire_message::{Message, MessageId, MessageRef};
use tautwire_protocol::{RetainHandling, Subscribe};

use super::cluster_state::{LogPlace, Places};
use super::mirror::{CLEARED, RetainedVisibility, SharedRetainedStore, UnreadableMessage};
use super::port::{ClusterRequest, RetainInfo, RetainedChange};
use crate::connection::connections::{LiveStart, PauseReason};
use crate::index::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::mode::Clustered;
use crate::mutant::{Mutant, is};
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::{MessageSource, RouteError};
use crate::shard::Shard;
use crate::shard::ShardState;

/// The maximum time a SUBSCRIBE waits until the log has brought to its shard what the store already has. Later messages are delivered as
/// live ones.
const LOG_LAG_MAX_MS: u64 = 1_000;

impl Shard<Clustered> {
    /// Applies changes of retained messages from the cluster.
    pub(super) fn apply_retained(&mut self, changes: &[RetainedChange]) {
        let cluster = &self.state.mode.cluster;
        let at = |change: &RetainedChange| LogPlace {
            partition: cluster.partition(&change.record.topic),
            place: change.record.place,
        };
        let place = |change: &RetainedChange| (at(change), cluster.predates_incarnation(at(change)));
        let taken =
            self.state.mode.mirror.apply_changes(cluster.incarnation(), changes, place, &self.state.retained_store());
        for (index, outcome) in taken {
            let Some(change) = changes.get(index) else { return };
            let cluster = &self.state.mode.cluster;
            let at = LogPlace { partition: cluster.partition(&change.record.topic), place: change.record.place };
            match outcome {
                Ok(generation) => self.route_late(change, at, generation),
                Err(UnreadableMessage) => log::error!(
                    "skipped an unreadable retained message of the cluster at {} [cluster_retained]",
                    change.sequence.0
                ),
            }
        }
        let evicted = self.state.mode.mirror.take_evicted();
        self.state.counters().retained_tombstones_evicted.add(evicted);
        self.state.resume_replays();
    }

    /// Routes a retained message that was in the log before this incarnation of the node began. Subscriptions made on this node have found
    /// the topic's earlier retained message, and the log does not bring this one to them.
    #[cold]
    fn route_late(&mut self, change: &RetainedChange, at: LogPlace, generation: u64) {
        let cleared = MessageRef { topic: &change.record.topic, ..CLEARED };
        let message = MessageRef::read_stored(&change.record.message).unwrap_or(cleared);
        let message = MessageRef { id: at.to_retained_id(), expires_at_ms: change.expires_at_ms, ..message };
        if message.is_expired(self.state.clock.now_ms()) || is(Mutant::SkipsLateRetained) {
            return;
        }
        let cluster = &self.state.mode.cluster;
        let is_past = |session| at.place < cluster.next_place(session, at.partition);
        let matches = self.table.find_local(message.topic, generation, is_past);
        let contract = self.state.config.contracts().find(message.topic).cloned();
        let mut outgoing = OutgoingPublish { is_checked: true, is_admitted: true, ..OutgoingPublish::new(message) };
        self.state.deliver_to_all(&matches, contract.as_deref(), &mut outgoing, MessageSource::Log(None), 0);
        self.disconnect_overruns();
    }

    /// Whether a SUBSCRIBE has to wait until this node has all earlier retained messages.
    #[cold]
    #[inline(never)]
    pub(crate) fn needs_retained_sync(&mut self, index: ConnectionIndex, subscribe: &Subscribe<'_>) -> bool {
        let id = self.state.id(index);
        let cluster = &mut self.state.mode.cluster;
        if cluster.retained_searches.take_ready(id) || is(Mutant::ScansBeforeRetainedSync) {
            return false;
        }
        // Retained messages are not sent for shared subscriptions [MQTT 5.0 section 4.8.2], and topics below $SYS are local to each node.
        let is_mounted = self.state.connections[index].mount_point().is_some();
        let wants_retained = subscribe.requests.iter().any(|request| {
            request.filter.share().is_none()
                && request.options.retain_handling != RetainHandling::DoNotSend
                && (is_mounted || !request.filter.as_str().starts_with("$SYS/"))
        });
        if !wants_retained || !self.state.config.settings().retain_available {
            return false;
        }
        if !cluster.retained_searches.has(id) {
            let ticket = cluster.next_number();
            cluster.retained_searches.begin(id, ticket);
            cluster.push_request(ClusterRequest::RetainedSync { ticket });
        }
        self.state.connections[index].pause_reading(PauseReason::RetainedSync);
        true
    }

    /// The store has everything that was retained at the time of the request.
    pub(super) fn finish_retained_sync(&mut self, ticket: u64) {
        let until_ms = self.state.clock.now_ms() + LOG_LAG_MAX_MS;
        let reached = self.state.mode.mirror.reached();
        self.state.mode.cluster.retained_searches.record_reached(ticket, reached, until_ms);
        self.state.resume_retained_searches();
    }

    /// Removes the search of a closed connection.
    pub(super) fn remove_retained_search(&mut self, id: ConnectionId) {
        self.state.mode.cluster.retained_searches.remove(id);
    }
}

impl ShardState<Clustered> {
    /// Resumes the SUBSCRIBEs for which the log has brought enough.
    pub(super) fn resume_retained_searches(&mut self) {
        let cluster = &mut self.mode.cluster;
        if cluster.retained_searches.is_empty() {
            return;
        }
        let positions = cluster.positions();
        for (id, is_late) in cluster.retained_searches.release(&positions, self.clock.now_ms()) {
            self.counters().subscriptions_before_catch_up.add(u64::from(is_late));
            self.resume_reading(id, PauseReason::RetainedSync);
        }
    }

    /// How the cluster retains a message; `None` without RETAIN.
    pub(super) fn retain_info(&self, message: &MessageRef<'_>) -> Result<Option<RetainInfo>, RouteError> {
        if !message.retain {
            return Ok(None);
        }
        let retain = self.retain_for(message);
        self.check_retained_capacity(message).inspect_err(|_| self.counters().retained_refused.add(1))?;
        Ok(Some(RetainInfo { retain, known: self.mode.mirror.known(message.topic) }))
    }

    /// Checks whether the cluster's store has room for a retained message.
    pub(crate) fn check_retained_capacity(&self, message: &MessageRef<'_>) -> Result<(), RouteError> {
        if !message.retain || message.payload.is_empty() {
            return Ok(());
        }
        let admitted = self.context.exchange().check_retained(message.topic, message.allocated_bytes());
        admitted.map_err(RouteError::NotRetained)
    }

    fn retain_for(&self, message: &MessageRef<'_>) -> Retain {
        if message.payload.is_empty() {
            // [MQTT-3.3.1-6]
            return Retain::Clear;
        }
        // [MQTT-3.3.2-5]
        let left_ms = message.expires_at_ms.map(|at_ms| at_ms.saturating_sub(self.clock.now_ms()));
        left_ms.map_or(Retain::Always, |left_ms| Retain::Seconds(u32::try_from(left_ms / 1000).unwrap_or(u32::MAX)))
    }

    /// Stores a message with RETAIN from the log. Later subscribers get it from the store.
    pub(super) fn apply_retained_from_log(&self, message: &MessageRef<'_>) {
        if let Some(at) = LogPlace::of(message.id).filter(|_| !is(Mutant::IgnoresRetainFromLog)) {
            let is_remembered = self.mode.mirror.apply_from_log(at, message, &self.retained_store());
            self.counters().retained_messages_unconfirmed.add(u64::from(!is_remembered));
        }
    }

    /// Whether a message that a search has found must wait until the stream of retained messages confirms or replaces it.
    #[cold]
    pub(crate) fn awaits_confirmation(&mut self, index: ConnectionIndex, message: &Message) -> bool {
        if LogPlace::of_retained(message.id()).is_none() {
            // It is retained by this node only.
            return false;
        }
        let visibility = self.mode.mirror.retained_visibility(message.topic(), &self.retained_store());
        self.counters().retained_messages_unconfirmed.add(u64::from(visibility == RetainedVisibility::Overdue));
        let (id, now_ms) = (self.id(index), self.clock.now_ms());
        if visibility == RetainedVisibility::Unconfirmed {
            self.mode.cluster.stalled.add(id, now_ms);
        }
        visibility == RetainedVisibility::Unconfirmed
    }

    /// Continues searches that waited for the stream.
    pub(super) fn resume_replays(&mut self) {
        for id in self.mode.cluster.stalled.take() {
            if let Some(session) = self.connections.get(id).and_then(|connection| connection.session()) {
                self.send_pending(session);
            }
        }
    }

    fn retained_store(&self) -> SharedRetainedStore<'_> {
        SharedRetainedStore {
            exchange: self.context.exchange(),
            ledger: self.memory.ledger(),
            now_ms: self.clock.now_ms(),
        }
    }

    /// The places from which the log delivers messages to a new subscription of a session.
    #[cold]
    pub(super) fn next_places(&self, session: SessionIndex) -> Option<Box<dyn LiveStart>> {
        let cluster = &self.mode.cluster;
        cluster.served(session)?;
        let mut places = cluster.positions();
        for (partition, place) in tautwire_cluster::names::Partition::all().zip(places.iter_mut()) {
            *place = cluster.next_place(session, partition);
        }
        Some(Box::new(LogLiveStart(places)))
    }
}

/// The places from which the log delivers messages to a subscription.
#[derive(Debug)]
struct LogLiveStart(Places);

impl LiveStart for LogLiveStart {
    fn delivers(&self, retained: MessageId) -> bool {
        let LogLiveStart(places) = self;
        let at = LogPlace::of_retained(retained).filter(|_| !is(Mutant::ReplaysLiveMessages));
        at.is_some_and(|at| places[at.partition.index()] <= at.place)
    }
}
