//! One shard of the broker: the verbs by which its surroundings drive it.

use std::ops::Range;
use std::sync::Arc;

use tautwire_protocol::{
    DecodeError, Disconnect, DisconnectReason, Fault, FixedHeader, Packet, PacketType, ReasonCode, decode_body,
    decode_publish,
};
use tautwire_router::{Batch, Exchange, ShardIndex};
use tautwire_session::Journal;

use crate::connection::{ConnectionId, NonZeroMs, Phase};
use crate::counters::Counters;
use crate::discovery::Told;
use crate::fan_out::Burst;
use crate::hub::Hub;
use crate::output::{Chunk, Output};
use crate::route::Table;
use crate::settings::Settings;
use crate::sys::SysTopics;
use crate::wheel::Timer;

/// What all shards of a broker have in common.
#[derive(Clone)]
pub struct Shared {
    /// Settings.
    pub settings: Arc<Settings>,
    /// Interest, shared subscriptions, retained messages.
    pub exchange: Arc<Exchange>,
    /// The counters of each shard, by its number; behind them may be others for what no shard counts.
    pub counters: Arc<[Counters]>,
}

/// One shard: the connections and sessions of a part of the clients. It owns no socket and reads no clock; its
/// surroundings bring bytes and the time, and carry away output, actions and batches for other shards, in the order of
/// [`turn`](crate::turn()). The same calls give the same results.
///
/// Time is in milliseconds since the Unix epoch and must not go back.
pub struct Shard<J> {
    pub(crate) hub: Hub<J>,
    pub(crate) table: Table,
    pub(crate) sys: SysTopics,
    pub(crate) told: Told,
    next_retained_sweep_ms: u64,
    due: Vec<Timer>,
    /// By shard, a batch of which only so many entries have been taken.
    pub(crate) begun_batches: Vec<Option<(Batch, usize)>>,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::mutant::Mutant>,
}

/// How often expired retained messages are removed, and how many at a time.
const RETAINED_SWEEP_MS: u64 = 5_000;
const RETAINED_SWEEP_MAX: usize = 1_000;

/// What came of a packet.
pub(crate) enum Handled {
    /// It was taken in.
    Done,
    /// It must be brought again after [`Action::Resume`](crate::Action::Resume).
    Later,
    /// The connection is being closed or moved; nothing more is read from it.
    Ended,
}

impl<J: Journal> Shard<J> {
    /// Shard `index` of the broker.
    pub fn new(index: ShardIndex, shared: Shared, journal: J, now_ms: u64) -> Shard<J> {
        let Shared { settings, exchange, counters } = shared;
        let sys = SysTopics::new(index, &settings, now_ms);
        let begun_batches = (0..exchange.shards()).map(|_| None).collect();
        let hub = Hub::new(index, settings, exchange, counters, journal, now_ms);
        Shard {
            hub,
            table: Table::default(),
            sys,
            told: Told::default(),
            next_retained_sweep_ms: now_ms,
            due: Vec::new(),
            begun_batches,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// A new network connection. `None` where the broker holds as many as it may; close it then.
    pub fn accept(&mut self, now_ms: u64) -> Option<ConnectionId> {
        self.hub.now_ms = now_ms;
        if self.hub.sum(|counters| &counters.connections) >= self.hub.settings.connections as u64 {
            self.hub.counters().connections_refused.add(1);
            return None;
        }
        let index = self.hub.open_connection();
        Some(self.hub.id(index))
    }

    /// Bytes from the network: `range` of `chunk`, with what an earlier call left over in front. Returns how many were
    /// consumed: all whole packets, unless the connection is to be paused, moved or closed.
    ///
    /// One whose packets give others much to write is paused, and what it had sent behind them waits.
    pub fn receive(&mut self, id: ConnectionId, chunk: &Chunk, range: Range<usize>, now_ms: u64) -> usize {
        self.hub.now_ms = now_ms;
        let output_max_bytes = self.hub.settings.connection_output_bytes;
        let mut burst = Burst::begin(&self.hub);
        let mut at = range.start;
        while at < range.end {
            let Some(connection) = self.hub.connection(id) else { return range.len() };
            if connection.phase == Phase::Closing {
                return range.len();
            }
            if connection.is_held() {
                break;
            }
            if connection.pending_bytes() > output_max_bytes {
                // Answers are never dropped, so a client that asks and does not listen is not heard any more.
                connection.choked = true;
                self.hub.counters().clients_choked.add(1);
                break;
            }
            match self.receive_packet(id.index, chunk, at..range.end) {
                (consumed, Handled::Done) if consumed > 0 => {
                    at += consumed;
                    if burst.is_enough_with(&self.hub, consumed) {
                        break;
                    }
                }
                (_, Handled::Ended) => {
                    at = range.end;
                    break;
                }
                (_, Handled::Done | Handled::Later) => break,
            }
        }
        if self.end_burst(&burst) {
            self.brake(id);
        }
        self.note_incomplete(id, at > range.start, at < range.end);
        self.settle_overruns();
        at - range.start
    }

    /// Handles the packet at the start of `range`, if it is there in full; says how long it was.
    fn receive_packet(&mut self, index: u32, chunk: &Chunk, range: Range<usize>) -> (usize, Handled) {
        let bytes = &chunk.bytes()[range.clone()];
        let maximum = self.hub.settings.maximum_packet_size_bytes;
        let connection = &mut self.hub.connections[index as usize];
        let header = match FixedHeader::decode(bytes, maximum) {
            Ok(header) => header,
            Err(error) => return (0, self.refuse(index, bytes, &error)),
        };
        let length = header.total_len();
        let awaiting_connect = connection.phase == Phase::AwaitingConnect;
        if awaiting_connect != (header.packet_type == PacketType::Connect) {
            return (0, self.out_of_place(index, awaiting_connect));
        }
        if bytes.len() < length {
            return (0, Handled::Done);
        }
        connection.last_received_ms = self.hub.now_ms;
        let version = connection.version;
        self.hub.counters().packets_received.add(1);
        let body = &bytes[header.header_len..length];
        let handled = if header.packet_type == PacketType::Publish {
            match decode_publish(&header, body, version) {
                Ok(publish) => {
                    let payload_at = range.start + length - publish.payload.len();
                    self.on_publish(index, &publish, chunk, payload_at)
                }
                Err(error) => self.refuse(index, bytes, &error),
            }
        } else {
            match decode_body(&header, body, version) {
                Ok(packet) => self.on_packet(index, &packet),
                Err(error) => self.refuse(index, bytes, &error),
            }
        };
        if matches!(handled, Handled::Later) {
            self.hub.counters().packets_received.subtract(1);
        }
        (length, handled)
    }

    /// Answers bytes that are no packet [MQTT 5.0 section 4.13]; more bytes may still make an incomplete one whole.
    #[cold]
    fn refuse(&mut self, index: u32, bytes: &[u8], error: &DecodeError) -> Handled {
        match error.fault {
            Fault::Incomplete { .. } => return Handled::Done,
            Fault::OverLimit => self.hub.counters().packets_too_large.add(1),
            Fault::Malformed | Fault::ProtocolError => self.hub.counters().protocol_errors.add(1),
        }
        log::debug!("connection {index} of {:?}: {error}", self.hub.shard);
        if self.hub.connections[index as usize].phase == Phase::AwaitingConnect {
            self.refuse_connect_bytes(index, bytes, error);
            return Handled::Ended;
        }
        let reason = DisconnectReason::try_from(error.reason).unwrap_or(DisconnectReason::MalformedPacket);
        self.disconnect(index, reason, error.cause.code());
        Handled::Ended
    }

    /// A first packet that is not CONNECT is not answered [MQTT-3.1.0-1]; a second CONNECT is a Protocol Error
    /// [MQTT-3.1.0-2].
    #[cold]
    fn out_of_place(&mut self, index: u32, awaiting_connect: bool) -> Handled {
        self.hub.counters().protocol_errors.add(1);
        if awaiting_connect {
            self.close(index);
        } else {
            self.disconnect(index, DisconnectReason::ProtocolError, "a second CONNECT");
        }
        Handled::Ended
    }

    /// Starts or stops the clock for a packet that has begun.
    fn note_incomplete(&mut self, id: ConnectionId, consumed: bool, incomplete: bool) {
        let now_ms = self.hub.now_ms;
        let deadline_ms = now_ms + u64::from(self.hub.settings.incomplete_packet_timeout_s) * 1000;
        let Some(connection) = self.hub.connection(id) else { return };
        if consumed || connection.is_held() {
            connection.incomplete_since_ms = None;
        }
        if incomplete && !connection.is_held() && connection.incomplete_since_ms.is_none() {
            connection.incomplete_since_ms = NonZeroMs::new(now_ms);
            self.hub.arm_connection(id.index, deadline_ms);
        }
    }

    /// Whether the connection is not to be read from until [`Action::Resume`](crate::Action::Resume).
    pub fn is_held(&mut self, id: ConnectionId) -> bool {
        self.hub.connection(id).is_some_and(|connection| connection.is_held())
    }

    /// The peer has closed the connection, or the network has failed.
    pub fn lost(&mut self, id: ConnectionId, now_ms: u64) {
        self.hub.now_ms = now_ms;
        if self.hub.connection(id).is_some() {
            self.detach(id.index);
            self.hub.vacate(id.index);
        }
    }

    /// Whether bytes of the connection are taken in now: it is neither held nor being closed or moved.
    pub fn is_heard(&mut self, id: ConnectionId) -> bool {
        self.hub.connection(id).is_some_and(|connection| connection.phase != Phase::Closing && !connection.is_held())
    }

    /// The peer has ended the connection as [`Shard::lost`] has it, but by a word of its transport that is to be answered:
    /// what is pending is written, then the connection is closed.
    #[cold]
    pub fn hang_up(&mut self, id: ConnectionId, now_ms: u64) {
        self.hub.now_ms = now_ms;
        if self.is_heard(id) {
            self.detach(id.index);
            self.close(id.index);
        }
    }

    /// The peer has broken the rules of its transport. It is told `reason` and `why` where its version has a way.
    #[cold]
    pub fn fail(&mut self, id: ConnectionId, reason: DisconnectReason, why: &str, now_ms: u64) {
        self.hub.now_ms = now_ms;
        if self.is_heard(id) {
            self.disconnect(id.index, reason, why);
        }
    }

    /// The broker is going down: every client that can be told is told.
    pub fn shut_down(&mut self, now_ms: u64) {
        self.hub.now_ms = now_ms;
        for index in 0..self.hub.connections.len() as u32 {
            let connection = &self.hub.connections[index as usize];
            match connection.phase {
                Phase::Open if connection.is_v5() => {
                    let goodbye = Disconnect::new(DisconnectReason::ServerShuttingDown);
                    self.hub.write_packet(index, &Packet::Disconnect(goodbye));
                    self.close(index);
                }
                Phase::Open | Phase::AwaitingConnect => self.close(index),
                Phase::Closing | Phase::Vacant => {}
            }
        }
    }

    /// A connection that the engine asked to close or move is gone.
    pub fn released(&mut self, id: ConnectionId) {
        if self.hub.connection(id).is_some() {
            self.hub.vacate(id.index);
        }
    }

    /// Does what the time and the journal make due.
    pub(crate) fn do_what_is_due(&mut self) {
        let now_ms = self.hub.now_ms;
        self.hub.measure_memory();
        self.hub.release_acks();
        let mut due = std::mem::take(&mut self.due);
        self.hub.wheel.expire(now_ms, &mut due);
        for timer in due.drain(..) {
            match timer {
                Timer::Connection(index) => self.connection_timer(index),
                Timer::Session(index) => self.session_timer(index),
            }
        }
        self.due = due;
        self.drop_expired_retained();
        self.publish_sys();
        self.publish_contracts();
        self.settle_overruns();
    }

    /// When something is due even if nothing happens.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        [self.hub.wheel.next_ms(), self.sys.next_ms()].into_iter().flatten().min()
    }

    /// A connection whose output has grown since it was last asked for.
    #[inline]
    pub(crate) fn next_dirty(&mut self) -> Option<ConnectionId> {
        while let Some(index) = self.hub.dirty.pop() {
            if self.hub.take_dirty(index) {
                return Some(self.hub.id(index));
            }
        }
        None
    }

    /// The pending output of a connection.
    pub fn output(&mut self, id: ConnectionId) -> Option<&mut Output> {
        self.hub.connection(id)?.output.as_deref_mut()
    }

    /// `written` bytes of the output have been taken by the network. Returns whether output is still pending.
    pub fn sent(&mut self, id: ConnectionId, written: usize, now_ms: u64) -> bool {
        self.hub.now_ms = now_ms;
        self.hub.counters().bytes_sent.add(written as u64);
        let Some(connection) = self.hub.connection(id) else { return false };
        let Some(output) = &mut connection.output else { return false };
        output.advance(written);
        let pending_bytes = output.pending_bytes();
        let session = connection.session;
        let counted = std::mem::replace(&mut connection.counted_output_bytes, pending_bytes);
        self.hub.counters().output_bytes.add((pending_bytes as u64).wrapping_sub(counted as u64));
        if pending_bytes > 0 {
            self.wait_for_room(id.index, written > 0);
        } else {
            self.hub.put_output_away(id.index);
        }
        self.unchoke(id.index, pending_bytes);
        if written > 0
            && let Some(session) = session
        {
            self.hub.pump(session);
        }
        self.hub.connections[id.index as usize].pending_bytes() > 0
    }

    /// Output stays pending beyond the turn: it may refer to no chunk, and it does not wait for ever.
    fn wait_for_room(&mut self, index: u32, progress: bool) {
        let now_ms = self.hub.now_ms;
        let stall_s = self.hub.settings.write_stall_timeout_s;
        let connection = &mut self.hub.connections[index as usize];
        if let Some(output) = &mut connection.output {
            output.settle();
        }
        if progress || connection.stalled_since_ms.is_none() {
            connection.stalled_since_ms = NonZeroMs::new(now_ms);
            if stall_s > 0 {
                self.hub.arm_connection(index, now_ms + u64::from(stall_s) * 1000);
            }
        }
    }

    /// Hears a client again that has taken enough of its output.
    fn unchoke(&mut self, index: u32, pending_bytes: usize) {
        let enough = pending_bytes <= self.hub.settings.connection_output_bytes / 2;
        if self.hub.connections[index as usize].choked && enough {
            let id = self.hub.id(index);
            self.hub.hear_again(id, |connection| connection.choked = false);
        }
    }

    /// Tells how many batches the way to `shard` takes at present.
    pub(crate) fn set_room(&mut self, shard: ShardIndex, batches: usize) {
        self.hub.outboxes[usize::from(shard.0)].room = batches;
    }

    /// This shard's counters.
    pub fn counters(&self) -> &Counters {
        self.hub.counters()
    }

    /// Bytes of all queues and all pending output, in all shards together, as of the last turn.
    pub fn buffered_bytes(&self) -> u64 {
        self.hub.buffered_bytes
    }

    /// What the engine runs with.
    pub fn settings(&self) -> &Settings {
        &self.hub.settings
    }

    /// Shard 0 does it for all, from time to time: an expired message is not sent even while it is still there.
    fn drop_expired_retained(&mut self) {
        let now_ms = self.hub.now_ms;
        if self.hub.shard == ShardIndex(0) && now_ms >= self.next_retained_sweep_ms {
            let dropped = self.hub.exchange.drop_expired_retained(now_ms, RETAINED_SWEEP_MAX);
            self.hub.counters().dropped_expired.add(dropped as u64);
            let pause_ms = if dropped == RETAINED_SWEEP_MAX { 1 } else { RETAINED_SWEEP_MS };
            self.next_retained_sweep_ms = now_ms + pause_ms;
        }
    }

    /// Ends connections whose session's queue has run over, where the settings want that.
    pub(crate) fn settle_overruns(&mut self) {
        while let Some(id) = self.hub.overrun.pop() {
            if self.hub.connection(id).is_some_and(|connection| connection.phase == Phase::Open) {
                self.disconnect(id.index, DisconnectReason::QuotaExceeded, "the session's queue is full");
            }
        }
    }

    /// Why a connection ends, for the log.
    pub(crate) fn log_end(&self, index: u32, reason: ReasonCode, why: &str) {
        let client = self.hub.connections[index as usize]
            .session
            .map_or("", |session| self.hub.sessions[session as usize].session.client_id());
        log::debug!("client {client:?} disconnected: {} (0x{:02x}), {why}", reason.name(), reason.as_u8());
    }
}
