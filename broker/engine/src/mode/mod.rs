//! The seam between what a shard decides and what its mode promises: a broker in memory, one with a log, one of several.
//!
//! The core calls [`Mode`] wherever something leaves the memory of a shard: an acknowledgement, a change of a session, a claim to a session,
//! a message. A default is what a broker in memory does. Each mode has a folder here, and the core knows none of them.

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

/// Whether a session takes a message.
pub(crate) enum Acceptance {
    /// Whatever its queue is like.
    Yes,
    /// It has had it, or gets it later.
    No,
    /// As far as its queue has room.
    IfQueueHasRoom,
}

/// Whether something fits into the record of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    Now,
    /// When the client has acknowledged something.
    Later,
    Never,
}

/// What a shard promises beyond its own memory: the type argument of [`Shard`].
///
/// Every [`Journal`] is a mode, that of a broker with a log. [`Volatile`] and [`Clustered`] are the others. The core calls a method where it has
/// decided something that concerns others than this shard.
#[expect(private_interfaces, reason = "modes are part of the engine")]
pub trait Mode: Sized + 'static {
    /// Where changes are written down; [`NoJournal`](tautwire_session::NoJournal) where they are not.
    type Journal: Journal;
    /// What the mode knows, for each shard.
    type State: Send;

    /// Whether messages that wait may leave memory.
    const SPILLS: bool = false;
    /// Whether the span of a PUBLISH ends with its acknowledgement.
    const SPANS_WAIT: bool = false;
    /// Whether a shared subscription has a queue on one of the shards.
    const QUEUES_SHARED: bool = true;
    /// Whether a shard knows all who get a message before it is published.
    const KNOWS_RECEIVERS: bool = true;
    /// The highest QoS of a shared subscription.
    const SHARED_MAX_QOS: QoS = QoS::ExactlyOnce;
    /// Why acknowledgements wait, as operators call it.
    const ACKS_WAIT_FOR: &'static str = "disk_behind";
    /// Whether a session that is not here may be elsewhere.
    const HAS_OTHER_NODES: bool = false;

    /// A shard is made.
    fn begin(self, context: &mut ShardContext) -> (Self::Journal, Self::State);

    // Acknowledge.

    /// What the client of a connection is told of its session waits for this.
    #[inline(always)]
    fn session_ack_level(_state: &ShardState<Self>, _index: ConnectionIndex) -> AckLevel {
        AckLevel::Memory
    }

    /// What the answer to a PUBLISH waits for.
    #[inline(always)]
    fn ack_level(_state: &ShardState<Self>, _index: ConnectionIndex, _message: &MessageRef<'_>) -> AckLevel {
        AckLevel::Memory
    }

    /// Sends `ack` once what it promises is as safe as `level` says, and not before acknowledgements held earlier.
    #[inline]
    fn acknowledge(state: &mut ShardState<Self>, _level: AckLevel, index: ConnectionIndex, ack: Ack) {
        state.acknowledge_now(index, &ack);
    }

    /// How much of what the client of a connection has asked for has not come true, its acknowledgements left out.
    fn unconfirmed(_state: &ShardState<Self>, _index: ConnectionIndex) -> usize {
        0
    }

    /// Does not read from a client for whom too many acknowledgements wait; says whether that is so.
    #[inline(always)]
    fn pause_for_acks(_state: &mut ShardState<Self>, _index: ConnectionIndex) -> bool {
        false
    }

    /// Whether nothing may be written to the client of a connection now.
    #[inline(always)]
    fn is_write_suspended(_state: &ShardState<Self>, _index: ConnectionIndex) -> bool {
        false
    }

    // Record.

    /// A session changes.
    #[inline(always)]
    fn commit(state: &mut ShardState<Self>, session: SessionIndex, change: Change) {
        state.apply_change(session, change);
    }

    /// What a session is called in the log, if all of it is written down.
    #[inline(always)]
    fn session_number(_state: &ShardState<Self>, _session: SessionIndex) -> Option<SessionNumber> {
        None
    }

    /// The client of a session has come.
    fn record_connected(_state: &mut ShardState<Self>, _session: SessionIndex) {}

    /// The client of a session has gone.
    fn record_disconnected(_state: &mut ShardState<Self>, _session: SessionIndex) {}

    /// A session ends. Gives what it is called in the log, where that has it until [`Mode::record_cleared`].
    fn record_ended(_state: &mut ShardState<Self>, _session: SessionIndex) -> Option<SessionNumber> {
        None
    }

    /// A session that has ended, but for what it leaves behind, changes.
    fn record_ended_change(_state: &mut ShardState<Self>, _session: SessionNumber, _change: &Change) {}

    /// A session that has ended has left nothing behind.
    fn record_cleared(_state: &mut ShardState<Self>, _session: Option<SessionNumber>) {}

    /// What a topic retains changes.
    fn record_retained(_state: &mut ShardState<Self>, _outgoing: &OutgoingPublish<'_>, _sequence: u64) {}

    /// A message goes to another shard, for sessions there that are written down. Gives its number on that way.
    fn record_forwarded(
        _state: &mut ShardState<Self>,
        _to: ShardIndex,
        _message: &Message,
        _receivers: Receivers<'_>,
    ) -> Option<u64> {
        None
    }

    /// A message is taken from another shard.
    fn begin_transfer(_state: &mut ShardState<Self>, _payload: &BatchPayload<'_>) {}

    /// All that another shard has forwarded up to this number has been taken.
    fn end_transfer(_state: &mut ShardState<Self>, _from: ShardIndex, _sequence: u64) {}

    /// A session that ends with its connection gets a message of a shared subscription.
    fn record_for_group(_state: &mut ShardState<Self>, _session: SessionIndex, _delivery: &PendingMessage) {}

    /// Has all output of a connection wait, from CONNACK on, until its session is safe.
    fn pause_output(_state: &mut ShardState<Self>, _index: ConnectionIndex) {}

    /// Whether all output of a connection waits.
    #[inline(always)]
    fn is_output_blocked(_state: &ShardState<Self>, _index: ConnectionIndex) -> bool {
        false
    }

    /// Output that waits beyond the turn may refer to no chunk.
    fn detach_paused_output(_state: &mut ShardState<Self>) {}

    /// Sends what has become safe.
    fn release_waiting(_state: &mut ShardState<Self>) {}

    /// Whether something has become safe that somebody waits for.
    fn has_progress(_state: &ShardState<Self>) -> bool {
        false
    }

    /// Does not read from a client whose packet would add to storage that is behind; says whether that is so. `first` is the first byte of
    /// the packet.
    #[inline(always)]
    fn pause_for_storage(
        _state: &mut ShardState<Self>,
        _index: ConnectionIndex,
        _header: &FixedHeader,
        _first: u8,
    ) -> bool {
        false
    }

    /// Whether the mode keeps a session beyond its connection, apart from the log of this broker.
    fn is_session_kept(_state: &ShardState<Self>, _session: SessionIndex) -> bool {
        false
    }

    /// Whether a message may be sent at QoS 1 or 2 that a session keeps until it is acknowledged.
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

    /// Claims the session that CONNECT names. Returns whether it existed, if the mode knows; or how CONNECT was handled.
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

    /// The session that CONNECT names is in the tables. Says whether it may be served now.
    fn begin_service(
        _shard: &mut Shard<Self>,
        _index: ConnectionIndex,
        _session: SessionIndex,
        _connect: &Connect<'_>,
    ) -> bool {
        true
    }

    /// A session is bound to the connection of its client: sets the will.
    fn set_will(shard: &mut Shard<Self>, index: ConnectionIndex, session: SessionIndex, connect: &Connect<'_>) {
        shard.set_will(index, session, connect);
    }

    /// Whether the mode publishes the will of a session, so that this shard does not.
    fn takes_over_will(_state: &mut ShardState<Self>, _session: SessionIndex) -> bool {
        false
    }

    /// A session has no connection any more. Says whether it leaves the shard for that.
    fn release_session(_shard: &mut Shard<Self>, _session: SessionIndex) -> bool {
        false
    }

    /// The broker is going down, and a connection with it.
    fn release_for_shutdown(_shard: &mut Shard<Self>, _index: ConnectionIndex) {}

    /// A connection is gone whose CONNECT may have waited.
    fn abandon_claim(_shard: &mut Shard<Self>, _id: ConnectionId) {}

    /// An operator ends a session, whose client may be connected.
    fn end_session_at_disconnect(_state: &mut ShardState<Self>, _session: SessionIndex) {}

    /// Whether a session has come to this shard with its subscriptions, and its client waits.
    fn came_with_subscriptions(_state: &ShardState<Self>, _session: SessionIndex) -> bool {
        false
    }

    // Route beyond this process: what clients send.

    /// Whether a PUBLISH waits for its turn. Its connection is not read from then.
    #[inline(always)]
    fn must_wait(_shard: &mut Shard<Self>, _index: ConnectionIndex, _publish: &Publish<'_>) -> bool {
        false
    }

    /// Publishes a message of a client. Says whether anybody wanted it, as far as that is known here.
    ///
    /// # Errors
    /// It is not published.
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

    /// Publishes a message of an operator. Says whether anybody wanted it, and by what is known whether it is stored elsewhere.
    ///
    /// # Errors
    /// It is not published.
    fn publish_from_operator(
        shard: &mut Shard<Self>,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> Result<(bool, Option<PublishRange>), Box<MessageRefusal>> {
        shard.publish(outgoing, MessageSource::Broker).map(|matched| (matched, None))
    }

    /// What has become of messages of an operator.
    fn publish_status(_state: &ShardState<Self>, _range: PublishRange) -> ConfirmStatus {
        ConfirmStatus::Failed
    }

    /// Nobody asks for these messages of an operator any more.
    fn forget_publish(_state: &mut ShardState<Self>, _range: PublishRange) {}

    /// Whether a message would be taken, where the mode decides that and not this shard.
    fn check_publish(_state: &ShardState<Self>, _message: &MessageRef<'_>) -> Option<Result<(), RouteError>> {
        None
    }

    /// Whether a SUBSCRIBE waits until this shard has all that was retained before. Its connection is not read from then.
    fn awaits_retained(_shard: &mut Shard<Self>, _index: ConnectionIndex, _subscribe: &Subscribe<'_>) -> bool {
        false
    }

    /// A session has subscribed to a shared subscription, with this request of a packet.
    fn join_group(_state: &mut ShardState<Self>, _session: SessionIndex, _share: &str, _request: (PacketId, usize)) {}

    /// A session has given up a shared subscription.
    fn leave_group(_state: &mut ShardState<Self>, _session: SessionIndex, _share: &str) {}

    /// A filter has its first subscription on this shard.
    fn add_interest(_state: &mut ShardState<Self>, _filter: &str) {}

    /// A filter has no subscription on this shard any more.
    fn remove_interest(_state: &mut ShardState<Self>, _filter: &str) {}

    /// A session has a subscription to a filter, of which SUBACK tells.
    fn await_interest(_state: &mut ShardState<Self>, _session: SessionIndex, _filter: &str) {}

    /// From where on a new subscription gets messages that it must not get as retained ones, too.
    fn live_start(_state: &ShardState<Self>, _session: SessionIndex) -> Option<Box<dyn LiveStart>> {
        None
    }

    // Route beyond this process: what comes from elsewhere.

    /// Whether a message may have reached sessions before, on another node.
    #[inline(always)]
    fn may_be_known(_message: &MessageRef<'_>) -> bool {
        false
    }

    /// Whether the session of a connection has got a message before, on another node.
    #[inline(always)]
    fn was_already_sent(_state: &ShardState<Self>, _index: ConnectionIndex, _message: MessageId) -> bool {
        false
    }

    /// Whether a session takes a message.
    #[inline(always)]
    fn accepts(_state: &mut ShardState<Self>, _session: SessionIndex, _delivery: &PendingMessage) -> Acceptance {
        Acceptance::IfQueueHasRoom
    }

    /// A member of a shared subscription is done with a message.
    fn settle(_state: &mut ShardState<Self>, _member: SessionKey, _delivery: &PendingMessage) {}

    /// A member of a shared subscription is gone with a message. Says whether the mode sees to that.
    fn requeue(_state: &mut ShardState<Self>, _member: SessionKey, _delivery: &PendingMessage) -> bool {
        false
    }

    /// A message comes from elsewhere that groups may want.
    fn offer_to_groups(
        _state: &mut ShardState<Self>,
        _groups: &[Arc<ShareGroup>],
        _contract: Option<&Contract>,
        _outgoing: &mut OutgoingPublish<'_>,
    ) {
    }

    /// Whether this broker gives a message that was published here to a group.
    fn delivers_to_group(_state: &ShardState<Self>, _group: &ShareGroup, _topic: &str) -> bool {
        true
    }

    /// Another shard tells what has become of a member of a shared subscription.
    fn update_member(state: &mut ShardState<Self>, update: &MemberUpdate) {
        state.handle_member_credit(&update.share, update.member);
    }

    /// Whether the client of a connection is sent a retained message that a search has found.
    fn may_be_shown(_state: &mut ShardState<Self>, _index: ConnectionIndex, _message: &Message) -> Fit {
        Fit::Now
    }

    // The turn.

    /// A turn begins.
    fn begin_turn(_shard: &mut Shard<Self>, _io: &impl Io<Self>) {}

    /// Routes what has come from elsewhere.
    fn route_arrivals(_shard: &mut Shard<Self>) {}

    /// Something has come from the thread of the mode.
    fn handle_event(_shard: &mut Shard<Self>, _event: Event) {}

    /// A turn is over: does what is due, and sends requests.
    fn end_turn(_shard: &mut Shard<Self>, _io: &mut impl Io<Self>) {}

    /// When something is due.
    fn next_due_ms(_state: &ShardState<Self>) -> Option<u64> {
        None
    }

    /// Whether something is left to do that no event brings back.
    fn has_work(_shard: &Shard<Self>) -> bool {
        false
    }

    /// The values of `$SYS` are published.
    fn publish_sys(_shard: &mut Shard<Self>, _totals: &Totals, _interval_ms: u64) {}
}

impl<M: Mode> Shard<M> {
    /// The thread of the mode has something to tell. To be called from [`Io::run_commands`], in the order in which it was told.
    pub fn handle_event(&mut self, event: Event, now_ms: u64) {
        self.state.clock.set(now_ms);
        M::handle_event(self, event);
    }
}
