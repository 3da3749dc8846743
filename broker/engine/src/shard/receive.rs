//! Input: from the bytes of a connection to its packets, each to the method that handles it.

use std::ops::Range;

use tautwire_protocol::{
    ConnectReason, DecodeError, DecodeOptions, DisconnectReason, Fault, FixedHeader, Packet, PacketType,
    ProtocolVersion, QoS, ShortAcknowledgement, decode_body, decode_publish,
};

use super::{Handled, Shard, ShardState};
use crate::connection::connections::{Chunk, PauseReason, Phase};
use crate::connection::read_ahead::can_overtake;
use crate::index::{ConnectionId, ConnectionIndex};
use crate::mode::Mode;
use crate::scheduling::fan_out::FanOutBudget;

/// Bytes that may be read from a connection at a time while memory for input is free.
const READ_MIN_BYTES: usize = 4 << 10;
/// The same while none is free: acknowledgements in the input free some.
const READ_UNDER_PRESSURE_BYTES: usize = 512;
/// Bytes of an incomplete packet that are always buffered: the second half of an acknowledgement frees memory.
const INPUT_RESERVED_BYTES: usize = 256;

impl<M: Mode> Shard<M> {
    /// Processes bytes from the network: `range` of `chunk`, which begins with the unconsumed rest of earlier input. Returns how many were
    /// consumed: all complete packets, unless reading is paused or the connection is being moved or closed.
    ///
    /// Reading from a connection is paused when its packets cause large fan-outs; the packets behind them wait.
    pub fn receive(&mut self, id: ConnectionId, chunk: &Chunk, range: Range<usize>, now_ms: u64) -> usize {
        self.state.clock.set(now_ms);
        let output_max_bytes = self.state.memory.output_max_bytes();
        let mut budget = FanOutBudget::begin(&self.state);
        let mut at = range.start;
        while at < range.end {
            let Some(index) = self.state.connections.find(id) else { return range.len() };
            let connection = &mut self.state.connections[index];
            if connection.phase() == Phase::Closing {
                return range.len();
            }
            if connection.is_reading_paused() {
                if connection.can_read_ahead() {
                    at = self.process_behind_paused(index, chunk, at..range.end);
                }
                break;
            }
            if connection.pending_bytes() > output_max_bytes {
                // Responses are never dropped, so reading from a client that does not read them is paused.
                connection.pause_reading(PauseReason::Output);
                self.state.counters().clients_paused_for_output.add(1);
                break;
            }
            if M::pause_for_acks(&mut self.state, index) {
                break;
            }
            match self.receive_packet(index, chunk, at..range.end) {
                (consumed, Handled::Done) if consumed > 0 => {
                    at += consumed;
                    self.record_consumed(index, consumed);
                    self.state.work_budget.count_packet();
                    if budget.is_spent_after(&self.state, consumed) {
                        break;
                    }
                }
                (_, Handled::Ended) => {
                    at = range.end;
                    break;
                }
                (length, Handled::Later) => {
                    at = self.process_behind_waiting(index, chunk, at..range.end, length);
                    break;
                }
                (_, Handled::Done) => break,
            }
        }
        if self.finish_source(&budget) {
            self.pause_for_fan_out(id);
        }
        self.track_incomplete(id, at > range.start, at < range.end);
        self.disconnect_overruns();
        at - range.start
    }

    /// Processes what may overtake the first packet in `range`, of `length` bytes, which has begun to wait. Returns where the input to
    /// buffer begins.
    fn process_behind_waiting(
        &mut self,
        index: ConnectionIndex,
        chunk: &Chunk,
        range: Range<usize>,
        length: usize,
    ) -> usize {
        let connection = &mut self.state.connections[index];
        if connection.can_read_ahead() {
            connection.set_read_ahead_bytes(length.max(connection.read_ahead_bytes()));
            return self.process_behind_paused(index, chunk, range);
        }
        if !connection.is_challenged() {
            return range.start;
        }
        match self.on_challenged_input(index, &chunk.bytes()[range.clone()], length) {
            Handled::Ended => range.end,
            Handled::Done | Handled::Later => range.start,
        }
    }

    /// Processes packets behind the first one in `range`, which waits. Returns where the input to buffer begins.
    fn process_behind_paused(&mut self, index: ConnectionIndex, chunk: &Chunk, range: Range<usize>) -> usize {
        match self.read_ahead(index, &chunk.bytes()[range.clone()]) {
            Handled::Ended => range.end,
            Handled::Done | Handled::Later => range.start,
        }
    }

    /// Adjusts the read-ahead after bytes at the front of the input were consumed.
    #[inline]
    fn record_consumed(&mut self, index: ConnectionIndex, consumed: usize) {
        let connection = &mut self.state.connections[index];
        let ahead_bytes = connection.read_ahead_bytes();
        if ahead_bytes > 0 {
            connection.set_read_ahead_bytes(ahead_bytes.saturating_sub(consumed));
        }
    }

    /// Handles the packet at the start of `range` if it is complete. Returns its length.
    fn receive_packet(&mut self, index: ConnectionIndex, chunk: &Chunk, range: Range<usize>) -> (usize, Handled) {
        let bytes = &chunk.bytes()[range.clone()];
        let connection = &self.state.connections[index];
        let max_packet_size = connection.packet_max_bytes(self.state.config.settings().maximum_packet_size_bytes);
        let version = connection.version();
        let header = match FixedHeader::decode(bytes, &DecodeOptions { version, max_packet_size }) {
            Ok(header) => header,
            Err(error) => match self.state.decode_with_connack_limits(index, bytes, &error) {
                Some(header) => header,
                None => return (0, self.refuse(index, bytes, &error)),
            },
        };
        let length = header.total_len();
        let connection = &mut self.state.connections[index];
        let awaiting_connect = connection.phase() == Phase::AwaitingConnect;
        if awaiting_connect != (header.packet_type == PacketType::Connect) {
            return (0, self.unexpected_packet(index, awaiting_connect));
        }
        if bytes.len() < length {
            return (0, Handled::Done);
        }
        // AUTH may be processed ahead of a waiting CONNECT, acknowledgements ahead of a waiting PUBLISH.
        let can_read_ahead = can_overtake(header.packet_type) || header.packet_type == PacketType::Auth;
        if can_read_ahead && connection.read_ahead_bytes() >= length {
            return (length, Handled::Done);
        }
        if M::pause_for_storage(&mut self.state, index, &header, bytes[0]) {
            return (length, Handled::Later);
        }
        self.state.log.begin_packet();
        self.state.connections[index].record_received(self.state.clock.now_ms());
        self.state.counters().packets_received.add(1);
        let handled = if header.packet_type == PacketType::Publish {
            if self.state.quota_state.limits_publish_rate() && self.state.pause_for_rate(index, length) {
                self.state.counters().packets_received.subtract(1);
                return (length, Handled::Later);
            }
            self.receive_publish(index, &header, version, bytes, (chunk, range.start))
        } else {
            self.receive_other(index, &header, version, bytes)
        };
        if matches!(handled, Handled::Later) {
            self.state.counters().packets_received.subtract(1);
            // Of the packets that are processed again, only PUBLISH comes from a connection with a rate limit.
            self.state.refund_rate(index, length);
        }
        (length, handled)
    }

    /// Handles a PUBLISH, the first packet in `bytes`, which are at `at` in `chunk`.
    #[inline(always)]
    fn receive_publish(
        &mut self,
        index: ConnectionIndex,
        header: &FixedHeader,
        version: ProtocolVersion,
        bytes: &[u8],
        (chunk, at): (&Chunk, usize),
    ) -> Handled {
        let publish = match decode_publish(header, &bytes[header.header_len..header.total_len()], version) {
            Ok(publish) => publish,
            Err(error) => return self.refuse(index, bytes, &error),
        };
        let payload_at = at + header.total_len() - publish.payload.len();
        if self.state.connections[index].is_mounted() {
            self.on_mounted_publish(index, &publish, chunk, payload_at)
        } else {
            self.on_publish(index, &publish, chunk, payload_at)
        }
    }

    /// Handles the first packet in `bytes`, which is no PUBLISH.
    #[inline(always)]
    fn receive_other(
        &mut self,
        index: ConnectionIndex,
        header: &FixedHeader,
        version: ProtocolVersion,
        bytes: &[u8],
    ) -> Handled {
        let body = &bytes[header.header_len..header.total_len()];
        if let Some(acknowledgement) = ShortAcknowledgement::decode(header, body) {
            return self.on_short_ack(index, acknowledgement);
        }
        match decode_body(header, body, version) {
            Ok(packet) => self.on_packet(index, &packet),
            Err(error) => self.refuse(index, bytes, &error),
        }
    }

    /// Handles a decoded packet: the method to call for each type.
    pub(crate) fn on_packet(&mut self, index: ConnectionIndex, packet: &Packet<'_>) -> Handled {
        if let Packet::Connect(connect) = packet {
            return self.on_connect(index, connect);
        }
        let Some(session) = self.state.connections[index].session() else { return Handled::Ended };
        if let Packet::Subscribe(subscribe) = packet
            && M::must_wait_for_retained(self, index, subscribe)
        {
            return Handled::Later;
        }
        match packet {
            Packet::PubAck(ack) => self.on_puback(index, session, ack.packet_id, QoS::AtLeastOnce),
            Packet::PubRec(received) => self.on_pubrec(index, session, received.packet_id, received.reason),
            Packet::PubRel(release) => self.on_pubrel(index, session, release.packet_id),
            Packet::PubComp(complete) => self.on_pubcomp(session, complete.packet_id),
            Packet::Subscribe(subscribe) => self.on_subscribe(index, session, subscribe),
            Packet::Unsubscribe(unsubscribe) => self.on_unsubscribe(index, session, unsubscribe),
            Packet::PingReq => {
                // [MQTT-3.12.4-1]
                self.state.write_packet(index, &Packet::PingResp);
            }
            Packet::Disconnect(disconnect) => self.on_disconnect(index, session, disconnect),
            Packet::Auth(auth) => self.on_auth(index, auth),
            Packet::Connect(_)
            | Packet::ConnAck(_)
            | Packet::Publish(_)
            | Packet::SubAck(_)
            | Packet::UnsubAck(_)
            | Packet::PingResp => self.protocol_error(index, "a packet that only a server sends"),
        }
        if self.state.connections[index].is_open() { Handled::Done } else { Handled::Ended }
    }

    /// Answers malformed bytes [MQTT 5.0 section 4.13]; more bytes may still complete an incomplete packet.
    #[cold]
    fn refuse(&mut self, index: ConnectionIndex, bytes: &[u8], error: &DecodeError) -> Handled {
        match error.fault {
            Fault::Incomplete { .. } => return Handled::Done,
            Fault::OverLimit => self.state.counters().packets_too_large.add(1),
            Fault::Malformed | Fault::ProtocolError => self.state.counters().protocol_errors.add(1),
        }
        log::debug!("connection {index} of {:?}: {error}", self.state.context.shard());
        if self.state.connections[index].phase() == Phase::AwaitingConnect {
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
    fn unexpected_packet(&mut self, index: ConnectionIndex, awaiting_connect: bool) -> Handled {
        self.state.counters().protocol_errors.add(1);
        if awaiting_connect {
            self.close(index);
        } else {
            self.disconnect(index, DisconnectReason::ProtocolError, "a second CONNECT");
        }
        Handled::Ended
    }

    /// Starts or stops the timeout for an incomplete packet.
    fn track_incomplete(&mut self, id: ConnectionId, consumed: bool, incomplete: bool) {
        let now_ms = self.state.clock.now_ms();
        let deadline_ms = now_ms + u64::from(self.state.config.settings().incomplete_packet_timeout_s) * 1000;
        let Some(index) = self.state.connections.find(id) else { return };
        if self.state.connections[index].track_incomplete(consumed, incomplete, now_ms) {
            self.state.arm_connection(index, deadline_ms);
        }
    }

    /// The most bytes to read from a connection at a time: the less memory is free, the fewer.
    #[inline]
    pub fn read_max_bytes(&self) -> usize {
        let read_bytes = usize::try_from(self.state.memory.share().read_bytes()).unwrap_or(usize::MAX);
        if read_bytes >= READ_MIN_BYTES {
            read_bytes
        } else if self.state.memory.share().input_bytes() > 0 {
            READ_MIN_BYTES
        } else {
            READ_UNDER_PRESSURE_BYTES
        }
    }

    /// Whether the caller may buffer `rest` of a connection's input, which takes `held_bytes`: an incomplete packet, or complete packets
    /// behind one that waits.
    ///
    /// If there is no memory for it, reading from an MQTT 3.1.1 client is paused until there is some. A 5.0 client can be notified: its
    /// connection is ended, the input is to be discarded, and the result is false.
    pub fn can_buffer_input(&mut self, id: ConnectionId, rest: &[u8], held_bytes: usize) -> bool {
        let Some(index) = self.state.connections.find(id) else { return false };
        let ShardState { connections, memory, .. } = &mut self.state;
        let connection = &mut connections[index];
        connection.set_input_bytes(held_bytes, memory.ledger());
        // The bytes are in the ledger already. The client's other memory use does not matter: a packet that has begun must be completed.
        // Input of a paused connection has only been read while memory was free.
        if held_bytes <= INPUT_RESERVED_BYTES
            || (connection.is_reading_paused() && !memory.share().is_input_full())
            || memory.share().can_buffer_input(held_bytes)
            || connection.phase() == Phase::Closing
            || self.state.pause_for_input(index, rest, held_bytes)
        {
            return true;
        }
        let ShardState { connections, memory, .. } = &mut self.state;
        let connection = &mut connections[index];
        connection.set_input_bytes(0, memory.ledger());
        self.state.counters().resources_refused_memory.add(1);
        const WHY: &str = "there is no memory for an incomplete packet";
        if self.state.connections[index].phase() == Phase::AwaitingConnect {
            self.refuse_partial_connect(index, rest, ConnectReason::QuotaExceeded, WHY);
        } else {
            self.disconnect(index, DisconnectReason::QuotaExceeded, WHY);
        }
        false
    }
}
