//! Implements the mode of a clustered broker for the core.

use std::sync::Arc;

use tautwire_contracts::Contract;
use tautwire_message::{Message, MessageId, MessageRef};
use tautwire_protocol::{Connect, PacketId, Publish, QoS, Subscribe, Will};
use tautwire_router::{MemberUpdate, SessionKey, ShareGroup};
use tautwire_session::{AckLevel, Change, NoJournal, PendingMessage, split_session_name};

use super::cluster_state::{LogPlace, OperatorPublishOutcome};
use super::clustered::{ClusterMode, Clustered, ShardClusterState};
use super::log_routing::is_from_log;
use super::port::ClusterEvent;
use crate::connection::ack::Ack;
use crate::connection::connections::LiveStart;
use crate::counters::Totals;
use crate::index::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::mode::{Acceptance, Fit, Mode};
use crate::operations::operator::ConfirmStatus;
use crate::operations::publish_range::PublishRange;
use crate::routing::contracts::MessageRefusal;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::RouteError;
use crate::scheduling::io::Io;
use crate::shard::ShardState;
use crate::shard::{Handled, Shard};
use crate::shard_context::ShardContext;

#[expect(private_interfaces, reason = "modes are part of the engine")]
impl Mode for Clustered {
    type Journal = NoJournal;
    type State = ClusterMode;

    const QUEUES_SHARED: bool = false;
    const KNOWS_RECEIVERS: bool = false;
    // A message of QoS 2 would be bound to one member across nodes [MQTT-4.8.2-5].
    const SHARED_MAX_QOS: QoS = QoS::AtLeastOnce;
    const ACKS_WAIT_FOR: &'static str = "cluster_behind";
    const HAS_OTHER_NODES: bool = true;

    fn begin(self, context: &mut ShardContext) -> (NoJournal, ClusterMode) {
        let Clustered { seed, settings, mirror } = self;
        context.change_run(LogPlace::other_run);
        // The first generation is reserved for subscriptions of resumed sessions.
        context.exchange().advance();
        let cluster = Box::new(ShardClusterState::new(seed, context.shard().0, settings));
        (NoJournal, ClusterMode { cluster, mirror })
    }

    fn session_ack_level(_: &ShardState<Clustered>, _: ConnectionIndex) -> AckLevel {
        // Changes of sessions wait for their records, regardless of the level for messages.
        AckLevel::Quorum
    }

    fn ack_level(state: &ShardState<Clustered>, index: ConnectionIndex, message: &MessageRef<'_>) -> AckLevel {
        state.ack_level_in_cluster(state.configured_ack_level(index, message), message)
    }

    fn acknowledge(state: &mut ShardState<Clustered>, level: AckLevel, index: ConnectionIndex, ack: Ack) {
        state.acknowledge_in_cluster(level, index, ack);
    }

    fn unconfirmed(state: &ShardState<Clustered>, index: ConnectionIndex) -> usize {
        state.pending_in_cluster(index)
    }

    fn pause_for_acks(state: &mut ShardState<Clustered>, index: ConnectionIndex) -> bool {
        state.pause_for_delayed_acks(index, |counters| &counters.clients_paused_for_cluster)
    }

    fn is_write_suspended(state: &ShardState<Clustered>, index: ConnectionIndex) -> bool {
        state.mode.cluster.is_suspended() && state.connections[index].session().is_some()
    }

    fn commit(state: &mut ShardState<Clustered>, session: SessionIndex, change: Change) {
        state.commit_in_cluster(session, change);
    }

    fn is_session_persistent(state: &ShardState<Clustered>, session: SessionIndex) -> bool {
        state.mode.cluster.is_persisted(session)
    }

    fn fits_into_session(state: &ShardState<Clustered>, session: SessionIndex, bytes: usize) -> Fit {
        state.fits_into_state(session, bytes)
    }

    fn has_room_for_filter(state: &mut ShardState<Clustered>, session: SessionIndex, filter: &str) -> bool {
        state.has_state_room_for(session, filter)
    }

    fn has_room_for_will(state: &ShardState<Clustered>, will: &Will<'_>) -> bool {
        state.fits_into_record(will)
    }

    fn in_flight_max(state: &ShardState<Clustered>) -> u16 {
        state.window_max()
    }

    fn claim(
        shard: &mut Shard<Clustered>,
        index: ConnectionIndex,
        connect: &Connect<'_>,
        name: &str,
    ) -> Result<Option<bool>, Handled> {
        shard.claim(index, connect, name).map(Some)
    }

    fn has_claim(state: &ShardState<Clustered>, index: ConnectionIndex) -> bool {
        state.mode.cluster.claims.name(state.id(index)).is_some()
    }

    fn assigned_client_id(state: &ShardState<Clustered>, index: ConnectionIndex) -> Option<String> {
        let (_, client_id) = split_session_name(state.mode.cluster.claims.name(state.id(index))?);
        Some(client_id.to_owned())
    }

    fn begin_service(
        shard: &mut Shard<Clustered>,
        index: ConnectionIndex,
        session: SessionIndex,
        connect: &Connect<'_>,
    ) -> bool {
        shard.begin_service(index, session, connect)
    }

    fn set_will(_: &mut Shard<Clustered>, _: ConnectionIndex, _: SessionIndex, _: &Connect<'_>) {
        // The record of the session contains it already: see `begin_service`.
    }

    fn publishes_will(state: &mut ShardState<Clustered>, session: SessionIndex) -> bool {
        state.remove_will(session);
        true
    }

    fn release_session(shard: &mut Shard<Clustered>, session: SessionIndex) -> bool {
        shard.release_to_cluster(session);
        true
    }

    fn release_for_shutdown(shard: &mut Shard<Clustered>, index: ConnectionIndex) {
        // Other nodes can take the session immediately.
        shard.disconnect_session(index);
    }

    fn abandon_claim(shard: &mut Shard<Clustered>, id: ConnectionId) {
        shard.abandon_claim(id);
    }

    fn end_session_at_disconnect(state: &mut ShardState<Clustered>, session: SessionIndex) {
        // The session is released with its connection, and must end then.
        state.commit(session, Change::ExpiryInterval(0));
    }

    fn has_resumed_subscriptions(state: &ShardState<Clustered>, session: SessionIndex) -> bool {
        state.sessions.connection(session).is_none()
    }

    fn must_pause_publisher(shard: &mut Shard<Clustered>, index: ConnectionIndex, publish: &Publish<'_>) -> bool {
        shard.must_wait_for_log(index, publish)
    }

    fn publish(
        shard: &mut Shard<Clustered>,
        index: ConnectionIndex,
        session: SessionIndex,
        packet_id: Option<PacketId>,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> Result<bool, Box<MessageRefusal>> {
        shard.publish_in_cluster(index, session, packet_id, outgoing)
    }

    fn can_publish_from_operator(state: &ShardState<Clustered>, message: &MessageRef<'_>) -> bool {
        // The log needs a valid lease and room.
        let cluster = &state.mode.cluster;
        !goes_by_log(message) || cluster.is_serving() && !cluster.is_full()
    }

    fn publish_from_operator(
        shard: &mut Shard<Clustered>,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> Result<(bool, Option<PublishRange>), Box<MessageRefusal>> {
        // This node does not know whether a client of another node has subscribed.
        shard.publish_from_operator_in_cluster(outgoing).map(|range| (true, range))
    }

    fn publish_status(state: &ShardState<Clustered>, range: PublishRange) -> ConfirmStatus {
        match state.mode.cluster.operator_publish_outcome(range) {
            OperatorPublishOutcome::Stored => ConfirmStatus::Confirmed,
            OperatorPublishOutcome::Open => ConfirmStatus::Pending,
            OperatorPublishOutcome::Refused => ConfirmStatus::Refused,
            OperatorPublishOutcome::Unknown => ConfirmStatus::Failed,
        }
    }

    fn remove_publish_status(state: &mut ShardState<Clustered>, range: PublishRange) {
        state.mode.cluster.remove_operator_publish(range);
    }

    fn check_publish(state: &ShardState<Clustered>, message: &MessageRef<'_>) -> Option<Result<(), RouteError>> {
        goes_by_log(message).then(|| state.check_retained_capacity(message))
    }

    fn must_wait_for_retained(shard: &mut Shard<Clustered>, index: ConnectionIndex, subscribe: &Subscribe<'_>) -> bool {
        shard.needs_retained_sync(index, subscribe)
    }

    fn join_group(state: &mut ShardState<Clustered>, session: SessionIndex, share: &str, request: (PacketId, usize)) {
        state.join_group(session, share, request);
    }

    fn leave_group(state: &mut ShardState<Clustered>, session: SessionIndex, share: &str) {
        state.unsubscribe_from_group(session, share);
    }

    fn add_interest(state: &mut ShardState<Clustered>, filter: &str) {
        state.update_interest(filter, ShardClusterState::add_interest);
    }

    fn remove_interest(state: &mut ShardState<Clustered>, filter: &str) {
        state.update_interest(filter, ShardClusterState::remove_interest);
    }

    fn await_interest(state: &mut ShardState<Clustered>, session: SessionIndex, filter: &str) {
        state.await_interest_sync(session, filter);
    }

    fn live_start(state: &ShardState<Clustered>, session: SessionIndex) -> Option<Box<dyn LiveStart>> {
        state.next_places(session)
    }

    fn may_be_duplicate(message: &MessageRef<'_>) -> bool {
        is_from_log(message)
    }

    fn was_already_sent(state: &ShardState<Clustered>, index: ConnectionIndex, message: MessageId) -> bool {
        state.was_sent_elsewhere(index, message)
    }

    fn accepts(state: &mut ShardState<Clustered>, session: SessionIndex, delivery: &PendingMessage) -> Acceptance {
        state.accepts_from_log(session, delivery)
    }

    fn settle(state: &mut ShardState<Clustered>, member: SessionKey, delivery: &PendingMessage) {
        state.record_settled(member, delivery);
    }

    fn requeue(state: &mut ShardState<Clustered>, member: SessionKey, delivery: &PendingMessage) -> bool {
        state.requeue(member, delivery)
    }

    fn offer_to_groups(
        state: &mut ShardState<Clustered>,
        groups: &[Arc<ShareGroup>],
        contract: Option<&Contract>,
        outgoing: &mut OutgoingPublish<'_>,
    ) {
        state.offer_to_groups(groups, contract, outgoing);
    }

    fn delivers_to_group(state: &ShardState<Clustered>, group: &ShareGroup, topic: &str) -> bool {
        state.delivers_here(group, topic)
    }

    fn update_member(state: &mut ShardState<Clustered>, update: &MemberUpdate) {
        state.handle_member_event(&update.share, update.member, update.update);
    }

    fn check_retained_visibility(state: &mut ShardState<Clustered>, index: ConnectionIndex, message: &Message) -> Fit {
        match () {
            () if state.awaits_confirmation(index, message) => Fit::Later,
            // A message that the log has cleared, and the stream did not in time.
            () if !state.is_current(message) => Fit::Never,
            () => Fit::Now,
        }
    }

    fn begin_turn(shard: &mut Shard<Clustered>, io: &impl Io<Clustered>) {
        if !io.holds_lease() {
            shard.suspend();
        }
    }

    fn route_arrivals(shard: &mut Shard<Clustered>) {
        shard.route_arrivals();
    }

    fn handle_event(shard: &mut Shard<Clustered>, event: ClusterEvent) {
        shard.handle_cluster_event(event);
    }

    fn end_turn(shard: &mut Shard<Clustered>, io: &mut impl Io<Clustered>) {
        shard.run_cluster_tasks(io);
    }

    fn next_due_ms(state: &ShardState<Clustered>) -> Option<u64> {
        state.mode.cluster.next_due_ms()
    }

    fn has_work(shard: &Shard<Clustered>) -> bool {
        shard.has_cluster_work()
    }

    fn publish_sys(shard: &mut Shard<Clustered>, totals: &Totals, interval_ms: u64) {
        shard.publish_cluster_sys(totals, interval_ms);
    }
}

/// Whether a message reaches subscribers through the log.
fn goes_by_log(message: &MessageRef<'_>) -> bool {
    message.qos != QoS::AtMostOnce || message.retain
}
