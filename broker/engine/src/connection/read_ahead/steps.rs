//! The steps of [`super`] that need several parts of a shard.

use tautwire_protocol::{PacketType, decode_body};

use super::can_overtake;
use crate::connection::connections::PauseReason;
use crate::index::{ConnectionId, ConnectionIndex};
use crate::mode::Mode;
use crate::shard::{Handled, Shard};

/// The most bytes that are read behind a waiting message. They are fewer if memory is short.
const READ_AHEAD_MAX_BYTES: usize = 1 << 20;

/// The fewest bytes that are read even if memory is short, while the input budget is not used up.
const READ_AHEAD_MIN_BYTES: usize = 64 << 10;

impl<M: Mode> Shard<M> {
    /// Whether to read from a paused connection for packets that can be read ahead. `rest` is its buffered input.
    pub fn should_read_ahead(&mut self, id: ConnectionId, rest: &[u8]) -> bool {
        let Some(index) = self.state.connections.find(id) else { return false };
        if !self.state.connections[index].can_read_ahead() {
            return false;
        }
        let behind =
            self.state.fixed_header(index, rest).map_or(0, |header| rest.len().saturating_sub(header.total_len()));
        if self.has_pending_disconnect(index, rest) {
            // Only the end of the connection follows, which must not overtake the message.
            return false;
        }
        let read_max_bytes = self.read_max_bytes();
        behind < read_max_bytes.clamp(READ_AHEAD_MIN_BYTES, READ_AHEAD_MAX_BYTES)
            && read_max_bytes as u64 <= self.state.memory.share().input_bytes()
    }

    /// Whether DISCONNECT is the next packet to read ahead, of a client whose message will be accepted: the client may not send that
    /// message again.
    fn has_pending_disconnect(&self, index: ConnectionIndex, bytes: &[u8]) -> bool {
        let connection = &self.state.connections[index];
        let next = bytes.get(connection.read_ahead_bytes()..).filter(|_| connection.is_paused_for(PauseReason::Spill));
        let header = next.and_then(|next| self.state.fixed_header(index, next));
        header.is_some_and(|header| header.packet_type == PacketType::Disconnect)
    }

    /// Processes the packets that may overtake the packet at the start of `bytes`, which waits.
    #[cold]
    pub(crate) fn read_ahead(&mut self, index: ConnectionIndex, bytes: &[u8]) -> Handled {
        loop {
            let at = self.state.connections[index].read_ahead_bytes();
            let Some(rest) = bytes.get(at..) else { return Handled::Done };
            // Malformed bytes are answered when it is their turn.
            let Some(header) = self.state.fixed_header(index, rest) else { return Handled::Done };
            let length = header.total_len();
            if rest.len() < length {
                return Handled::Done;
            }
            if self.has_pending_disconnect(index, bytes) {
                return Handled::Done;
            }
            if can_overtake(header.packet_type) {
                let version = self.state.connections[index].version();
                let body = &rest[header.header_len..length];
                let Ok(packet) = decode_body(&header, body, version) else { return Handled::Done };
                self.state.connections[index].record_received(self.state.clock.now_ms());
                self.state.counters().packets_received.add(1);
                if matches!(self.on_packet(index, &packet), Handled::Ended) {
                    return Handled::Ended;
                }
            }
            self.state.connections[index].set_read_ahead_bytes(at + length);
        }
    }
}
