//! The interface between a shard's core and its mode: without storage, with a journal, or in a cluster.
//!
//! The core calls [`Mode`] wherever something leaves the memory of a shard: an acknowledgement, a change of a session, a claim to a
//! session, a message. The defaults are those of a broker without storage. Each mode has a file or folder here; the core does not depend on
//! any of them.

pub(crate) mod cluster;
mod durable;
mod volatile;

use std::sync::Arc;

use tautwire_contracts::Contract;
use tautwire_message::{Message, MessageId, MessageRef};
use tautwire_protocol::{Connect, FixedHeader, PacketId, Publish, QoS, Subscribe, Will};
use tautwire_router::{BatchPayload, MemberUpdate, SessionKey, ShardIndex, ShareGroup};
use tautwire_session::{AckLevel, Change, Journal, PendingMessage, Receivers, SessionNumber};

pub use self::cluster::Clustered;
pub(crate) use self::cluster::{ClusterEvent as Event, ClusterRequest as Request};
pub use self::volatile::Volatile;
use crate::connection::ack::Ack;
use crate::connection::connections::LiveStart;
use crate::counters::Totals;
use crate::index::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::operations::operator::ConfirmStatus;
use crate::operations::publish_range::PublishRange;
use crate::routing::contracts::MessageRefusal;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::{MessageSource, RouteError};
use crate::scheduling::io::Io;
use crate::shard::ShardState;
use crate::shard::{Handled, Shard};
use crate::shard_context::ShardContext;

/// Whether a session accepts a message.
pub(crate) enum Acceptance {
    /// Accepted, regardless of its queue.
    Yes,
    /// Not accepted: the session got it before, or gets it later.
    No,
    /// Accepted if its queue has room.
    IfQueueHasRoom,
}

/// Whether something fits into the record of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    Now,
    /// After the client has acknowledged something.
    Later,
    Never,
}

/// What a shard promises beyond its own memory: the type parameter of [`Shard`].
///
/// Every [`Journal`] is a mode: that of a broker with a journal. [`Volatile`] and [`Clustered`] are the others. The core calls a method
/// when it has decided something that affects more than this shard.
#[expect(private_interfaces, reason = "modes are part of the engine")]
pub trait Mode: Sized + 'static {
    /// The journal that records changes; [`NoJournal`](tautwire_session::NoJournal) for a mode without one.
    type Journal: Journal;
    /// The state of the mode in each shard.
    type State: Send;

    /// Whether queued messages may be spilled to disk.
    const SPILLS: bool = false;
    /// Whether the span of a PUBLISH ends with its acknowledgement.
    const SPANS_WAIT: bool = false;
    /// Whether a shared subscription has a queue on one of the shards.
    const QUEUES_SHARED: bool = true;
    /// Whether a shard knows all receivers of a message before it is published.
    const KNOWS_RECEIVERS: bool = true;
    /// The highest QoS of a shared subscription.
    const SHARED_MAX_QOS: QoS = QoS::ExactlyOnce;
    /// The reason that operators see when acknowledgements wait.
    const ACKS_WAIT_FOR: &'static str = "disk_behind";
    /// Whether a session that is unknown here may exist on another node.
    const HAS_OTHER_NODES: bool = false;

    /// Creates the journal and the mode's state for a new shard.
    fn begin(self, context: &mut ShardContext) -> (Self::Journal, Self::State);

    // Acknowledge.

    /// How durable a change of a connection's session must be before it is acknowledged.
    #[inline(always)]
    fn session_ack_level(_state: &ShardState<Self>, _index: ConnectionIndex) -> AckLevel {
        AckLevel::Memory
    }

    /// How durable a PUBLISH must be before it is acknowledged.
    #[inline(always)]
    fn ack_level(_state: &ShardState<Self>, _index: ConnectionIndex, _message: &MessageRef<'_>) -> AckLevel {
        AckLevel::Memory
    }

    /// Sends `ack` once its changes are as durable as `level` requires, after all earlier delayed acknowledgements.
    #[inline]
    fn acknowledge(state: &mut ShardState<Self>, _level: AckLevel, index: ConnectionIndex, ack: Ack) {
        state.acknowledge_now(index, &ack);
    }

    /// The number of pending changes that a connection's client waits for, without its acknowledgements.
    fn unconfirmed(_state: &ShardState<Self>, _index: ConnectionIndex) -> usize {
        0
    }

    /// Pauses reading from a client with too many delayed acknowledgements; returns whether it does.
    #[inline(always)]
    fn pause_for_acks(_state: &mut ShardState<Self>, _index: ConnectionIndex) -> bool {
        false
    }

    /// Whether writing to the client of a connection is suspended.
    #[inline(always)]
    fn is_write_suspended(_state: &ShardState<Self>, _index: ConnectionIndex) -> bool {
        false
    }

    // Record.

    /// Applies a change to a session, and records it.
    #[inline(always)]
    fn commit(state: &mut ShardState<Self>, session: SessionIndex, change: Change) {
        state.apply_change(session, change);
    }

    /// The session's number in the journal, if all of its state is recorded.
    #[inline(always)]
    fn session_number(_state: &ShardState<Self>, _session: SessionIndex) -> Option<SessionNumber> {
        None
    }

    /// Records that the client of a session has connected.
    fn record_connected(_state: &mut ShardState<Self>, _session: SessionIndex) {}

    /// Records that the client of a session has disconnected.
    fn record_disconnected(_state: &mut ShardState<Self>, _session: SessionIndex) {}

    /// Records the end of a session. Returns its number in the journal if it stays there until [`Mode::record_cleared`].
    fn record_ended(_state: &mut ShardState<Self>, _session: SessionIndex) -> Option<SessionNumber> {
        None
    }

    /// Records a change of an ended session that still has messages for others.
    fn record_ended_change(_state: &mut ShardState<Self>, _session: SessionNumber, _change: &Change) {}

    /// Records that an ended session is removed completely.
    fn record_cleared(_state: &mut ShardState<Self>, _session: Option<SessionNumber>) {}

    /// Records a change of a topic's retained message.
    fn record_retained(_state: &mut ShardState<Self>, _outgoing: &OutgoingPublish<'_>, _sequence: u64) {}

    /// Records a message that goes to another shard, for persistent sessions there. Returns its number in the channel between the two
    /// shards.
    fn record_forwarded(
        _state: &mut ShardState<Self>,
        _to: ShardIndex,
        _message: &Message,
        _receivers: Receivers<'_>,
    ) -> Option<u64> {
        None
    }

    /// Begins to accept a message from another shard.
    fn begin_transfer(_state: &mut ShardState<Self>, _payload: &BatchPayload<'_>) {}

    /// Ends a transfer: all messages from that shard up to this number were accepted.
    fn end_transfer(_state: &mut ShardState<Self>, _from: ShardIndex, _sequence: u64) {}

    /// Records a session without expiry that gets a message of a shared subscription.
    fn record_for_group(_state: &mut ShardState<Self>, _session: SessionIndex, _delivery: &PendingMessage) {}

    /// Blocks all output of a connection, from CONNACK on, until its session is durable.
    fn pause_output(_state: &mut ShardState<Self>, _index: ConnectionIndex) {}

    /// Whether all output of a connection is blocked.
    #[inline(always)]
    fn is_output_blocked(_state: &ShardState<Self>, _index: ConnectionIndex) -> bool {
        false
    }

    /// Copies blocked output, which outlives the turn and must not refer to read buffers.
    fn detach_paused_output(_state: &mut ShardState<Self>) {}

    /// Releases all that waits for changes that are durable now.
    fn release_durable_waiters(_state: &mut ShardState<Self>) {}

    /// Whether something became durable that acknowledgements or readers wait for.
    fn has_progress(_state: &ShardState<Self>) -> bool {
        false
    }

    /// Pauses reading from a client whose packet would add to lagging storage; returns whether it does. `first` is the first byte of the
    /// packet.
    #[inline(always)]
    fn pause_for_storage(
        _state: &mut ShardState<Self>,
        _index: ConnectionIndex,
        _header: &FixedHeader,
        _first: u8,
    ) -> bool {
        false
    }

    /// Whether the mode persists a session beyond its connection, other than in this broker's journal.
    fn is_session_persistent(_state: &ShardState<Self>, _session: SessionIndex) -> bool {
        false
    }

    /// Whether a session has room for a message at QoS 1 or 2, which it stores until it is acknowledged.
    fn fits_into_session(_state: &ShardState<Self>, _session: SessionIndex, _bytes: usize) -> Fit {
        Fit::Now
    }

    /// Whether a session has room for one more filter.
    fn has_room_for_filter(_state: &mut ShardState<Self>, _session: SessionIndex, _filter: &str) -> bool {
        true
    }

    /// Whether a session has room for a will.
    fn has_room_for_will(_state: &ShardState<Self>, _will: &Will<'_>) -> bool {
        true
    }

    /// How many messages a client may have in flight.
    fn in_flight_max(_state: &ShardState<Self>) -> u16 {
        u16::MAX
    }

    // Claim.

    /// Claims the session that CONNECT names. Returns whether the session existed (`None` if the mode does not know), or how CONNECT was
    /// handled.
    fn claim(
        _shard: &mut Shard<Self>,
        _index: ConnectionIndex,
        _connect: &Connect<'_>,
        _name: &str,
    ) -> Result<Option<bool>, Handled> {
        Ok(None)
    }

    /// Whether CONNECT waits for its session.
    fn has_claim(_state: &ShardState<Self>, _index: ConnectionIndex) -> bool {
        false
    }

    /// The Client Identifier that was assigned before CONNECT began to wait.
    fn assigned_client_id(_state: &ShardState<Self>, _index: ConnectionIndex) -> Option<String> {
        None
    }

    /// Begins to serve the session that CONNECT names, which is in the shard's tables. Returns whether the client can be accepted now.
    fn begin_service(
        _shard: &mut Shard<Self>,
        _index: ConnectionIndex,
        _session: SessionIndex,
        _connect: &Connect<'_>,
    ) -> bool {
        true
    }

    /// Sets the will of a session that was bound to the connection of its client.
    fn set_will(shard: &mut Shard<Self>, index: ConnectionIndex, session: SessionIndex, connect: &Connect<'_>) {
        shard.set_will(index, session, connect);
    }

    /// Whether the mode publishes the will of a session instead of this shard.
    fn publishes_will(_state: &mut ShardState<Self>, _session: SessionIndex) -> bool {
        false
    }

    /// Releases a session whose connection has ended. Returns whether it leaves the shard.
    fn release_session(_shard: &mut Shard<Self>, _session: SessionIndex) -> bool {
        false
    }

    /// Releases the session of a connection when the broker shuts down.
    fn release_for_shutdown(_shard: &mut Shard<Self>, _index: ConnectionIndex) {}

    /// Abandons the claim of a closed connection, if its CONNECT was waiting.
    fn abandon_claim(_shard: &mut Shard<Self>, _id: ConnectionId) {}

    /// Ends a session for an operator, when its client disconnects.
    fn end_session_at_disconnect(_state: &mut ShardState<Self>, _session: SessionIndex) {}

    /// Whether a session was moved to this shard with its subscriptions while its client waits for CONNACK.
    fn has_resumed_subscriptions(_state: &ShardState<Self>, _session: SessionIndex) -> bool {
        false
    }

    // Route beyond this process: messages from clients.

    /// Whether a PUBLISH has to wait. If so, reading from its connection is paused.
    #[inline(always)]
    fn must_pause_publisher(_shard: &mut Shard<Self>, _index: ConnectionIndex, _publish: &Publish<'_>) -> bool {
        false
    }

    /// Publishes a message of a client. Returns whether it matched a subscription, as far as this shard knows.
    ///
    /// # Errors
    /// The message was refused.
    #[inline]
    fn publish(
        shard: &mut Shard<Self>,
        _index: ConnectionIndex,
        session: SessionIndex,
        _packet_id: Option<PacketId>,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> Result<bool, Box<MessageRefusal>> {
        shard.publish(outgoing, MessageSource::Session(session))
    }

    /// Whether a message of an operator may be published now.
    fn can_publish_from_operator(_state: &ShardState<Self>, _message: &MessageRef<'_>) -> bool {
        true
    }

    /// Publishes a message of an operator. Returns whether it matched a subscription and, if it has to be stored elsewhere, a handle for
    /// [`Mode::publish_status`].
    ///
    /// # Errors
    /// The message was refused.
    fn publish_from_operator(
        shard: &mut Shard<Self>,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> Result<(bool, Option<PublishRange>), Box<MessageRefusal>> {
        shard.publish(outgoing, MessageSource::Broker).map(|matched| (matched, None))
    }

    /// The status of an operator's messages.
    fn publish_status(_state: &ShardState<Self>, _range: PublishRange) -> ConfirmStatus {
        ConfirmStatus::Failed
    }

    /// Forgets the status of an operator's messages.
    fn remove_publish_status(_state: &mut ShardState<Self>, _range: PublishRange) {}

    /// Checks whether a message would be accepted; `None` if this shard decides that.
    fn check_publish(_state: &ShardState<Self>, _message: &MessageRef<'_>) -> Option<Result<(), RouteError>> {
        None
    }

    /// Whether a SUBSCRIBE has to wait until this shard has all earlier retained messages. If so, reading from its connection is paused.
    fn must_wait_for_retained(_shard: &mut Shard<Self>, _index: ConnectionIndex, _subscribe: &Subscribe<'_>) -> bool {
        false
    }

    /// Joins a group for a shared subscription; `request` is the packet and the position of the filter in it.
    fn join_group(_state: &mut ShardState<Self>, _session: SessionIndex, _share: &str, _request: (PacketId, usize)) {}

    /// Leaves the group of a shared subscription.
    fn leave_group(_state: &mut ShardState<Self>, _session: SessionIndex, _share: &str) {}

    /// Announces the first subscription to a filter on this shard.
    fn add_interest(_state: &mut ShardState<Self>, _filter: &str) {}

    /// Withdraws a filter without subscriptions on this shard.
    fn remove_interest(_state: &mut ShardState<Self>, _filter: &str) {}

    /// Delays SUBACK until the other nodes know the filter.
    fn await_interest(_state: &mut ShardState<Self>, _session: SessionIndex, _filter: &str) {}

    /// Where live delivery to a new subscription begins, so that it gets no message twice: live and as a retained one.
    fn live_start(_state: &ShardState<Self>, _session: SessionIndex) -> Option<Box<dyn LiveStart>> {
        None
    }

    // Route beyond this process: messages from elsewhere.

    /// Whether sessions may have received a message before, on another node.
    #[inline(always)]
    fn may_be_duplicate(_message: &MessageRef<'_>) -> bool {
        false
    }

    /// Whether the session of a connection received a message before, on another node.
    #[inline(always)]
    fn was_already_sent(_state: &ShardState<Self>, _index: ConnectionIndex, _message: MessageId) -> bool {
        false
    }

    /// Whether a session accepts a message.
    #[inline(always)]
    fn accepts(_state: &mut ShardState<Self>, _session: SessionIndex, _delivery: &PendingMessage) -> Acceptance {
        Acceptance::IfQueueHasRoom
    }

    /// Marks a message as settled by a member of a shared subscription.
    fn settle(_state: &mut ShardState<Self>, _member: SessionKey, _delivery: &PendingMessage) {}

    /// Requeues a message of a shared subscription whose member is gone. Returns whether the mode redelivers it.
    fn requeue(_state: &mut ShardState<Self>, _member: SessionKey, _delivery: &PendingMessage) -> bool {
        false
    }

    /// Offers a message from elsewhere to groups.
    fn offer_to_groups(
        _state: &mut ShardState<Self>,
        _groups: &[Arc<ShareGroup>],
        _contract: Option<&Contract>,
        _outgoing: &mut OutgoingPublish<'_>,
    ) {
    }

    /// Whether this broker delivers a message that was published here to a group.
    fn delivers_to_group(_state: &ShardState<Self>, _group: &ShareGroup, _topic: &str) -> bool {
        true
    }

    /// Handles another shard's update about a member of a shared subscription.
    fn update_member(state: &mut ShardState<Self>, update: &MemberUpdate) {
        state.handle_member_credit(&update.share, update.member);
    }

    /// Whether a retained message that a search found can be sent to the client of a connection.
    fn check_retained_visibility(_state: &mut ShardState<Self>, _index: ConnectionIndex, _message: &Message) -> Fit {
        Fit::Now
    }

    // The turn.

    /// A turn begins.
    fn begin_turn(_shard: &mut Shard<Self>, _io: &impl Io<Self>) {}

    /// Routes messages that arrived from elsewhere.
    fn route_arrivals(_shard: &mut Shard<Self>) {}

    /// Handles an event of the mode's thread.
    fn handle_event(_shard: &mut Shard<Self>, _event: Event) {}

    /// Ends a turn: runs due tasks and sends requests.
    fn end_turn(_shard: &mut Shard<Self>, _io: &mut impl Io<Self>) {}

    /// When the next task is due.
    fn next_due_ms(_state: &ShardState<Self>) -> Option<u64> {
        None
    }

    /// Whether work is left that no event triggers.
    fn has_work(_shard: &Shard<Self>) -> bool {
        false
    }

    /// Publishes the mode's own `$SYS` topics.
    fn publish_sys(_shard: &mut Shard<Self>, _totals: &Totals, _interval_ms: u64) {}
}

impl<M: Mode> Shard<M> {
    /// Handles an event of the mode's thread. Call this from [`Io::run_commands`], in the order of the events.
    pub fn handle_event(&mut self, event: Event, now_ms: u64) {
        self.state.clock.set(now_ms);
        M::handle_event(self, event);
    }
}
