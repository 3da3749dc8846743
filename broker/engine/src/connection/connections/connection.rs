//! The state of one network connection.

use std::collections::VecDeque;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;

use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_protocol::{ProtocolVersion, QoS};
use tautwire_session::{AckLevel, LogPosition};

use super::aliases::TopicAlias;
use super::auth_state::{AuthPhase, AuthState};
use super::connect_parameters::ConnectParameters;
use super::extras::{Extras, PublishRateState};
use super::load_queue::LoadQueue;
use super::output::{Output, OutputPool};
use super::read_pauses::{PauseReason, ReadPauses};
use super::replay::Replay;
use crate::connection::ack::{Ack, DelayedAck, TimestampUs};
use crate::connection::mount::MountPoint;
use crate::connection::origin::{ConnectionOrigin, ListenerOverrides, PackedPeer, Peer, PeerInfo};
use crate::connection::quotas::PublishBucket;
use crate::index::{NonZeroMs, SessionIndex, TimerState};

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Vacant,
    /// CONNECT is expected [MQTT-3.1.0-1].
    AwaitingConnect,
    /// CONNACK with success has been sent.
    Open,
    /// Nothing more is read; pending output is written, then the connection is closed.
    Closing,
}

/// Memory of an idle connection: its slot here, that of its socket, its origin, and the overhead of the heap.
pub(crate) const CONNECTION_BYTES: usize = size_of::<Connection>() + size_of::<ConnectionOrigin>() + 64;

/// The state of one connection. It is small, as there may be hundreds of thousands of idle ones; rarely needed state is boxed.
#[derive(Debug)]
pub(crate) struct Connection {
    phase: Phase,
    parameters: ConnectParameters,
    read_pauses: ReadPauses,
    /// In the list of connections with new output.
    is_dirty: bool,
    /// Any PUBLISH may be sent unchanged, with its topic by name.
    accepts_any_publish: bool,
    /// Its topics are under a mount point.
    is_mounted: bool,
    /// The input of the client's previous connection has been read; it can be taken over.
    has_read_previous: bool,
    /// The durability for which acknowledgements wait.
    ack_level: AckLevel,
    /// Limits that the listener overrides.
    packet_max_bytes: Option<NonZeroU32>,
    receive_maximum: Option<NonZeroU16>,
    topic_alias_maximum: Option<u16>,
    max_qos: Option<QoS>,
    /// Incomplete QoS 2 messages that the client has sent on this connection.
    inbound_qos2: u16,
    /// Bytes of buffered input that were searched for packets that may overtake a waiting message.
    read_ahead_bytes: u32,
    generation: u32,
    /// When CONNECT was accepted, in seconds since the Unix epoch: 32 bits fit between the other fields.
    connected_s: u32,
    session: Option<SessionIndex>,
    last_received_ms: u64,
    /// When the incomplete packet began.
    incomplete_since_ms: Option<NonZeroMs>,
    timer: TimerState,
    origin: Option<PeerInfo>,
    /// The peer, if `origin` is shared and has none.
    peer: PackedPeer,
    output: Option<Box<Output>>,
    extras: Option<Box<Extras>>,
    /// The authentication state, if authentication is required.
    auth_state: Option<Box<AuthState>>,
}

impl Connection {
    pub(super) fn vacant() -> Connection {
        Connection {
            phase: Phase::Vacant,
            parameters: ConnectParameters::UNKNOWN,
            read_pauses: ReadPauses::default(),
            is_dirty: false,
            accepts_any_publish: false,
            is_mounted: false,
            has_read_previous: false,
            ack_level: AckLevel::default(),
            packet_max_bytes: None,
            receive_maximum: None,
            topic_alias_maximum: None,
            max_qos: None,
            inbound_qos2: 0,
            read_ahead_bytes: 0,
            generation: 0,
            connected_s: 0,
            session: None,
            last_received_ms: 0,
            incomplete_since_ms: None,
            timer: TimerState::default(),
            origin: None,
            peer: PackedPeer::default(),
            output: None,
            extras: None,
            auth_state: None,
        }
    }

    /// Opens the slot for a new connection.
    pub(super) fn open(&mut self, now_ms: u64) {
        *self = Connection {
            phase: Phase::AwaitingConnect,
            generation: self.generation.wrapping_add(1),
            timer: self.timer,
            last_received_ms: now_ms,
            ..Connection::vacant()
        };
    }

    /// Frees the slot.
    pub(super) fn free_slot(&mut self) {
        *self = Connection { generation: self.generation, timer: self.timer, ..Connection::vacant() };
    }

    // Phase and session.

    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Binds the accepted connection to its session.
    pub(crate) fn bind_session(&mut self, session: SessionIndex, parameters: ConnectParameters, now_ms: u64) {
        self.phase = Phase::Open;
        self.connected_s = u32::try_from(now_ms / 1_000).unwrap_or(u32::MAX);
        self.session = Some(session);
        self.accepts_any_publish =
            parameters.maximum_packet_size_bytes.is_none() && parameters.alias_maximum == 0 && !self.is_mounted;
        self.parameters = parameters;
    }

    /// When CONNECT was accepted, in milliseconds since the Unix epoch, to the second.
    pub(crate) fn connected_ms(&self) -> u64 {
        u64::from(self.connected_s) * 1_000
    }

    /// Stops reading; the connection is closed once its output is written.
    pub(crate) fn begin_closing(&mut self) {
        self.phase = Phase::Closing;
    }

    /// The connection's session.
    #[inline]
    pub(crate) fn session(&self) -> Option<SessionIndex> {
        self.session
    }

    /// Unbinds the session. Returns it with the unfinished retained replays.
    #[inline(always)]
    pub(crate) fn unbind_session(&mut self) -> (Option<SessionIndex>, VecDeque<Replay>) {
        let replays = self.extras.take().map(|extras| extras.replays).unwrap_or_default();
        (self.session.take(), replays)
    }

    /// Requires the input of the client's previous connection to be read first. Returns false if that has happened.
    pub(crate) fn read_previous_first(&mut self) -> bool {
        !std::mem::replace(&mut self.has_read_previous, true)
    }

    /// The origin of the connection, if it is set.
    pub(crate) fn origin(&self) -> Option<&Arc<ConnectionOrigin>> {
        self.origin.as_ref().map(PeerInfo::origin)
    }

    /// The peer.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.origin().and_then(|origin| origin.peer()).or_else(|| self.peer.peer())
    }

    /// Replaces the origin by one of `shared`, if nothing but the peer would be lost.
    pub(crate) fn share_origin(&mut self, shared: &mut Vec<Arc<ConnectionOrigin>>) {
        if let Some(origin) = &mut self.origin {
            self.peer = origin.origin().peer().into();
            origin.share(shared);
        }
    }

    pub(crate) fn peer_info(&mut self) -> Option<&mut PeerInfo> {
        self.origin.as_mut()
    }

    /// Sets the origin.
    pub(crate) fn set_origin(&mut self, origin: Arc<ConnectionOrigin>) {
        self.is_mounted = origin.mount_point().is_some();
        let overrides = origin.overrides();
        (self.packet_max_bytes, self.receive_maximum) =
            (overrides.maximum_packet_size_bytes, overrides.receive_maximum);
        (self.topic_alias_maximum, self.max_qos) = (overrides.topic_alias_maximum, overrides.max_qos);
        self.origin = Some(PeerInfo::new(origin));
    }

    /// The settings that the client's listener overrides.
    pub(crate) fn overrides(&self) -> ListenerOverrides {
        self.origin().map(|origin| origin.overrides()).unwrap_or_default()
    }

    /// The largest packet that the client may send; `common` is the setting.
    #[inline]
    pub(crate) fn packet_max_bytes(&self, common: u32) -> u32 {
        self.packet_max_bytes.map_or(common, NonZeroU32::get)
    }

    /// The most messages that may be in flight from the client; `common` is the setting.
    #[inline]
    pub(crate) fn receive_maximum(&self, common: u16) -> u16 {
        self.receive_maximum.map_or(common, NonZeroU16::get)
    }

    /// The highest topic alias that the client may use; `common` is the setting.
    #[inline]
    pub(crate) fn topic_alias_maximum(&self, common: u16) -> u16 {
        self.topic_alias_maximum.unwrap_or(common)
    }

    /// The highest QoS that the client may publish with; `common` is the setting.
    #[inline]
    pub(crate) fn max_qos(&self, common: QoS) -> QoS {
        self.max_qos.unwrap_or(common)
    }

    /// Whether the client's topics are under a [mount point](Connection::mount_point).
    #[inline]
    pub(crate) fn is_mounted(&self) -> bool {
        self.is_mounted
    }

    /// The prefix of the client's topics.
    pub(crate) fn mount_point(&self) -> Option<&MountPoint> {
        self.origin()?.mount_point()
    }

    // Parameters of CONNECT.

    #[inline]
    pub(crate) fn connect_parameters(&self) -> &ConnectParameters {
        &self.parameters
    }

    #[inline]
    pub(crate) fn version(&self) -> ProtocolVersion {
        self.parameters.version
    }

    #[inline]
    pub(crate) fn is_v5(&self) -> bool {
        self.parameters.version == ProtocolVersion::V5
    }

    /// Sets the version, so that a CONNECT is refused in the version that it was sent in.
    pub(crate) fn set_version(&mut self, version: ProtocolVersion) {
        self.parameters.version = version;
    }

    /// Sets the limit that a refusal of CONNECT must respect.
    pub(crate) fn set_maximum_packet_size(&mut self, bytes: Option<NonZeroU32>) {
        self.parameters.maximum_packet_size_bytes = bytes;
    }

    /// Whether any PUBLISH may be sent unchanged, with its topic by name: the client has set no Maximum Packet Size, accepts no aliases,
    /// and has no mount point.
    #[inline]
    pub(crate) fn accepts_any_publish(&self) -> bool {
        self.accepts_any_publish
    }

    // Reading.

    /// Whether reading is paused, for any reason.
    #[inline]
    pub(crate) fn is_reading_paused(&self) -> bool {
        !self.read_pauses.is_empty()
    }

    pub(crate) fn is_paused_for(&self, reason: PauseReason) -> bool {
        self.read_pauses.contains(reason)
    }

    /// Pauses reading until [`Connection::clear_pause`]. Returns whether the reason is new.
    pub(crate) fn pause_reading(&mut self, reason: PauseReason) -> bool {
        self.read_pauses.add(reason)
    }

    /// Removes a reason. Returns whether it existed. Keep alive restarts, as the client was not read from meanwhile, except while it waited
    /// for memory.
    pub(crate) fn clear_pause(&mut self, reason: PauseReason, now_ms: u64) -> bool {
        let was_paused = self.read_pauses.remove(reason);
        if was_paused && reason != PauseReason::Memory {
            self.last_received_ms = now_ms;
        }
        was_paused
    }

    /// Whether a message that waits for memory is the only reason.
    pub(crate) fn is_paused_only_for_memory(&self) -> bool {
        self.read_pauses.is_only(PauseReason::Memory)
    }

    /// Whether a message that waits for memory or the spill store is the only reason: packets that may overtake it are read.
    pub(crate) fn can_read_ahead(&self) -> bool {
        self.read_pauses.is_within([PauseReason::Memory, PauseReason::Spill])
    }

    #[inline]
    pub(crate) fn read_ahead_bytes(&self) -> usize {
        self.read_ahead_bytes as usize
    }

    /// Sets the bytes of buffered input that were searched for packets that may overtake the message at its start.
    pub(crate) fn set_read_ahead_bytes(&mut self, bytes: usize) {
        self.read_ahead_bytes = u32::try_from(bytes).expect("buffered input is less than 4 GiB");
    }

    // Publish rate.

    /// Sets the client's publish bucket.
    pub(crate) fn set_publish_bucket(&mut self, bucket: PublishBucket) {
        self.extras().pace = Some(Box::new(PublishRateState { bucket, resumes_at_ms: 0 }));
    }

    /// Removes the bucket. Returns it with the time at which a client over its rate would resume.
    pub(crate) fn clear_publish_bucket(&mut self) -> Option<(PublishBucket, u64)> {
        let PublishRateState { bucket, resumes_at_ms } = *self.extras.as_mut()?.pace.take()?;
        Some((bucket, resumes_at_ms))
    }

    /// The bucket; `new` creates it if there was no rate limit when the client connected.
    pub(crate) fn bucket_or_insert_with(&mut self, new: impl FnOnce() -> PublishBucket) -> &mut PublishBucket {
        let pace = &mut self.extras().pace;
        &mut pace.get_or_insert_with(|| Box::new(PublishRateState { bucket: new(), resumes_at_ms: 0 })).bucket
    }

    pub(crate) fn bucket(&mut self) -> Option<&mut PublishBucket> {
        Some(&mut self.extras.as_mut()?.pace.as_mut()?.bucket)
    }

    /// Sets the time at which a client over its rate resumes.
    pub(crate) fn set_resume_at(&mut self, at_ms: u64) {
        if let Some(pace) = self.extras.as_mut().and_then(|extras| extras.pace.as_mut()) {
            pace.resumes_at_ms = at_ms;
        }
    }

    // Timeouts.

    /// Records the arrival of a complete packet.
    #[inline]
    pub(crate) fn record_received(&mut self, now_ms: u64) {
        self.last_received_ms = now_ms;
    }

    /// Starts or stops the timeout for an incomplete packet. Returns whether it was started.
    pub(crate) fn track_incomplete(&mut self, consumed: bool, incomplete: bool, now_ms: u64) -> bool {
        // A message does not wait for memory forever: the packets that would free some may be too far behind it to be read ahead.
        let is_timed = !self.is_reading_paused() || self.is_paused_only_for_memory();
        if consumed || !is_timed {
            self.incomplete_since_ms = None;
        }
        let is_started = incomplete && is_timed && self.incomplete_since_ms.is_none();
        if is_started {
            self.incomplete_since_ms = NonZeroMs::new(now_ms);
        }
        is_started
    }

    /// When each wait of the connection began.
    pub(crate) fn deadlines(&self) -> Deadlines {
        Deadlines {
            last_received_ms: self.last_received_ms,
            incomplete_since_ms: self.incomplete_since_ms,
            stalled_since_ms: self.output.as_ref().and_then(|output| output.stalled_since_ms()),
        }
    }

    /// Arms the slot's timer; see [`TimerState::arm`].
    pub(crate) fn arm(&mut self, at_ms: u64) -> bool {
        self.timer.arm(at_ms)
    }

    /// Disarms the slot's timer; see [`TimerState::disarm`].
    pub(crate) fn disarm(&mut self, now_ms: u64) -> bool {
        self.timer.disarm(now_ms)
    }

    // Output.

    pub(crate) fn output(&mut self) -> Option<&mut Output> {
        self.output.as_deref_mut()
    }

    /// The output, taken from `pool` if there is none.
    #[inline]
    pub(crate) fn output_or_insert(&mut self, pool: &mut OutputPool) -> &mut Output {
        self.output.get_or_insert_with(|| pool.take())
    }

    /// Returns the empty output to the pool.
    #[inline]
    pub(crate) fn release_output(&mut self, pool: &mut OutputPool) {
        if let Some(output) = self.output.take() {
            pool.give_back(output);
        }
    }

    #[inline]
    pub(crate) fn pending_bytes(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.pending_bytes())
    }

    /// Marks new output. Returns whether the connection is not listed yet.
    #[inline]
    pub(super) fn mark_dirty(&mut self) -> bool {
        !std::mem::replace(&mut self.is_dirty, true)
    }

    #[inline]
    pub(super) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Clears the mark. Returns whether the connection still has the output for which it was listed.
    #[inline]
    pub(super) fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.is_dirty)
    }

    // Memory.

    /// Sets the size of the client's unconsumed input, which the caller buffers.
    #[inline]
    pub(crate) fn set_input_bytes(&mut self, bytes: usize, ledger: &Arc<MemoryLedger>) {
        if bytes > 0 {
            self.extras().input.get_or_insert_with(|| Charge::new(ledger, Kind::Input)).set(bytes);
        } else if self.extras.as_mut().is_some_and(|extras| extras.input.take().is_some()) {
            self.drop_idle_extras();
        }
    }

    /// Most connections need their extras while the client connects and subscribes, and never again.
    #[cold]
    fn drop_idle_extras(&mut self) {
        self.extras.take_if(|extras| extras.is_unused());
    }

    /// The memory of the connection, with its slot.
    pub(crate) fn held_bytes(&self) -> usize {
        let output_bytes = self.output.as_ref().map_or(0, |output| output.held_bytes());
        let extras_bytes = self.extras.as_ref().map_or(0, |extras| {
            let input_bytes = extras.input.as_ref().map_or(0, Charge::bytes);
            let pace_bytes = if extras.pace.is_some() { size_of::<PublishRateState>() } else { 0 };
            extras.aliases.bytes() + input_bytes + pace_bytes + size_of::<Extras>()
        });
        let auth_bytes = self.auth_state.as_ref().map_or(0, |auth_state| auth_state.held_bytes());
        CONNECTION_BYTES + output_bytes + extras_bytes + auth_bytes
    }

    // Authentication.

    #[inline]
    pub(crate) fn auth_state(&self) -> Option<&AuthState> {
        self.auth_state.as_deref()
    }

    #[inline]
    pub(crate) fn auth_state_mut(&mut self) -> Option<&mut AuthState> {
        self.auth_state.as_deref_mut()
    }

    pub(crate) fn auth_state_or_new(&mut self) -> &mut AuthState {
        self.auth_state.get_or_insert_default()
    }

    /// Whether the client must answer a challenge before its CONNECT is processed.
    pub(crate) fn is_challenged(&self) -> bool {
        self.auth_state().is_some_and(|auth_state| auth_state.phase() == AuthPhase::Challenged)
    }

    /// Takes the authentication state, for the shard that the connection moves to.
    pub(crate) fn release_auth_state(&mut self) -> Option<Box<AuthState>> {
        let mut auth_state = self.auth_state.take()?;
        auth_state.prepare_move(self.read_ahead_bytes());
        Some(auth_state)
    }

    /// Sets the authentication state of a connection from another shard.
    pub(crate) fn adopt_auth_state(&mut self, mut auth_state: Box<AuthState>) {
        self.set_read_ahead_bytes(auth_state.finish_move());
        self.auth_state = Some(auth_state);
    }

    // Acknowledgements that wait for the journal.

    #[inline]
    pub(crate) fn ack_level(&self) -> AckLevel {
        self.ack_level
    }

    pub(crate) fn set_ack_level(&mut self, level: AckLevel) {
        self.ack_level = level;
    }

    pub(crate) fn has_delayed_acks(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| !extras.delayed_acks.is_empty())
    }

    /// How many acknowledgements wait.
    pub(crate) fn delayed_acks(&self) -> usize {
        self.extras.as_ref().map_or(0, |extras| extras.delayed_acks.len())
    }

    /// Whether an acknowledgement that matches is among them.
    pub(crate) fn has_delayed_ack(&self, matches: impl Fn(&Ack) -> bool) -> bool {
        self.extras.iter().flat_map(|extras| &extras.delayed_acks).any(|delayed| matches(&delayed.ack))
    }

    pub(crate) fn delay_ack(&mut self, delayed: DelayedAck, ledger: &Arc<MemoryLedger>) {
        let extras = self.extras();
        extras.delayed_publish_acks += usize::from(delayed.ack.completes_publish());
        extras.delayed_acks.push_back(delayed);
        extras.update_acks_charge(ledger);
    }

    /// The log positions for which the first and the last of them wait.
    pub(crate) fn delayed_positions(&self) -> Option<(LogPosition, LogPosition)> {
        let acks = &self.extras.as_ref()?.delayed_acks;
        acks.front().zip(acks.back()).map(|(first, last)| (first.until, last.until))
    }

    /// Takes the next acknowledgement if the journal has reached its position. Returns it with the time at which the acknowledged packet
    /// was read.
    pub(crate) fn pop_delayed_ack(
        &mut self,
        is_durable: impl Fn(LogPosition, AckLevel) -> bool,
    ) -> Option<(Ack, TimestampUs)> {
        let extras = self.extras.as_mut()?;
        extras.delayed_acks.front().filter(|delayed| is_durable(delayed.until, delayed.level))?;
        let DelayedAck { ack, since, .. } = extras.delayed_acks.pop_front()?;
        extras.delayed_publish_acks -= usize::from(ack.completes_publish());
        if extras.delayed_acks.is_empty() {
            extras.delayed_acks = VecDeque::new();
            extras.acks_charge = None;
            if matches!(ack, Ack::Subscribed(..) | Ack::Unsubscribed(..)) {
                self.drop_idle_extras();
            }
        }
        Some((ack, since))
    }

    /// Blocks the output until the frame at `until` is durable.
    pub(crate) fn block_output(&mut self, until: LogPosition) {
        self.extras().gate = Some(until);
    }

    #[inline]
    pub(crate) fn is_output_blocked(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.gate.is_some())
    }

    /// The frame that all output waits for, or the first position if none.
    pub(crate) fn output_blocked_until(&self) -> LogPosition {
        self.extras.as_ref().and_then(|extras| extras.gate).unwrap_or_default()
    }

    /// Unblocks the output if that frame is durable. Returns whether it was blocked.
    pub(crate) fn unblock_output(&mut self, reached: impl Fn(AckLevel) -> LogPosition) -> bool {
        let level = self.ack_level;
        let gate = self.extras.as_mut().map(|extras| &mut extras.gate);
        let is_unblocked = gate.is_some_and(|gate| gate.take_if(|until| *until <= reached(level)).is_some());
        if is_unblocked {
            self.drop_idle_extras();
        }
        is_unblocked
    }

    /// Incomplete QoS 2 messages that the client has sent on this connection [MQTT-3.3.4-7].
    pub(crate) fn inbound_qos2(&self) -> u16 {
        self.inbound_qos2
    }

    pub(crate) fn begin_inbound_qos2(&mut self) {
        self.inbound_qos2 = self.inbound_qos2.saturating_add(1);
    }

    /// Ends one. It may be of an earlier connection; the client's send quota does not distinguish them either.
    pub(crate) fn end_inbound_qos2(&mut self) {
        self.inbound_qos2 = self.inbound_qos2.saturating_sub(1);
    }

    /// PUBLISH packets of the client whose acknowledgement waits.
    pub(crate) fn delayed_publish_acks(&self) -> usize {
        self.extras.as_ref().map_or(0, |extras| extras.delayed_publish_acks)
    }

    // Replays of retained messages.

    #[inline]
    pub(crate) fn has_replays(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| !extras.replays.is_empty())
    }

    pub(crate) fn replays(&mut self) -> &mut VecDeque<Replay> {
        &mut self.extras().replays
    }

    pub(crate) fn load_queue(&mut self) -> &mut LoadQueue {
        &mut self.extras().load_queue
    }

    /// Defers the search for the first of them. Returns whether that is new.
    pub(crate) fn defer_scan(&mut self) -> bool {
        !std::mem::replace(&mut self.extras().is_scan_deferred, true)
    }

    /// Marks the search as resumed.
    pub(crate) fn resume_scan(&mut self) {
        self.extras().is_scan_deferred = false;
    }

    // Topic aliases.

    /// Takes the topic of `alias`, to be put back by [`Connection::store_incoming_alias`].
    pub(crate) fn take_incoming_alias(&mut self, alias: u16) -> Option<Box<str>> {
        self.extras.as_mut()?.aliases.take_incoming(alias)
    }

    pub(crate) fn store_incoming_alias(&mut self, alias: u16, topic: Box<str>, ledger: &Arc<MemoryLedger>) {
        self.extras().aliases.store_incoming(alias, topic, ledger);
    }

    /// How to name `topic` to a client that accepts aliases: the first topics get one each while the connection lasts.
    pub(crate) fn alias_for(&self, topic: &str) -> TopicAlias {
        match (self.parameters.alias_maximum, &self.extras) {
            (0, _) => TopicAlias::None,
            (_, None) => TopicAlias::Set(1),
            (maximum, Some(extras)) => extras.aliases.outgoing_for(topic, maximum),
        }
    }

    /// Stores an alias that was sent to the client.
    pub(crate) fn store_outgoing_alias(&mut self, topic: &str, alias: TopicAlias, ledger: &Arc<MemoryLedger>) {
        if let TopicAlias::Set(alias) = alias {
            self.extras().aliases.store_outgoing(topic, alias, ledger);
        }
    }

    fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }
}

/// When each wait of the connection began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    pub(crate) last_received_ms: u64,
    /// When the incomplete packet began.
    pub(in crate::connection) incomplete_since_ms: Option<NonZeroMs>,
    /// Since when output has been pending without progress.
    pub(in crate::connection) stalled_since_ms: Option<NonZeroMs>,
}
