//! WebSocket between sockets and the engine, which sees the same bytes as over TCP.

use std::io::{self, IoSlice, Write};

use tautwire_engine::ConnectionId;
use tautwire_protocol::DisconnectReason;
use tautwire_websocket::{CloseCode, Ending, Violation};

use crate::input::Arrived;
use crate::worker::{SLICES_MAX, WRITES_MAX, Worker};

impl Worker {
    /// Leaves of what has just been read the MQTT bytes in it.
    pub(crate) fn unframe(&mut self, id: ConnectionId, arrived: &mut Arrived) {
        let Some((_, websocket)) = self.sockets.websocket(id) else { return };
        let raw = arrived.range.end - arrived.read.unwrap_or(0)..arrived.range.end;
        // A chunk that has been read into is nobody else's.
        let bytes = arrived.chunk.get_mut().and_then(|bytes| bytes.get_mut(raw.clone())).unwrap_or_default();
        if bytes.is_empty() {
            return;
        }
        let was_open = websocket.is_open();
        arrived.range.end = raw.start + websocket.receive(bytes);
        let opened = !was_open && websocket.is_open();
        let passed_over = websocket.take_pings_passed_over();
        let counters = self.shard.counters();
        counters.websocket_handshakes.add(u64::from(opened));
        counters.websocket_pings_passed_over.add(passed_over);
    }

    /// Acts on what was not MQTT, once all MQTT before it has been taken in.
    pub(crate) fn settle_websocket(&mut self, id: ConnectionId) {
        let Some((_, websocket)) = self.sockets.websocket(id) else { return };
        if websocket.has_output(usize::MAX) {
            self.replying.push(id);
        }
        if !self.shard.is_heard(id) {
            // It is acted on when the connection is heard again, here or by the thread it moves to.
            return;
        }
        match websocket.take_ending() {
            None => {}
            Some(Ending::Closed(_)) => self.shard.hang_up(id, self.now_ms),
            Some(Ending::Refused(refusal)) => {
                self.shard.counters().websocket_handshakes_refused.add(1);
                log::info!("a WebSocket handshake was refused: {refusal}");
                self.shard.hang_up(id, self.now_ms);
            }
            Some(Ending::Violation(violation)) => self.fail(id, violation),
        }
    }

    fn fail(&mut self, id: ConnectionId, violation: Violation) {
        let counters = self.shard.counters();
        let reason = if violation.is_over_limit() {
            counters.websocket_frames_too_large.add(1);
            DisconnectReason::PacketTooLarge
        } else {
            counters.websocket_errors.add(1);
            DisconnectReason::ProtocolError
        };
        self.shard.fail(id, reason, violation.as_str(), self.now_ms);
    }

    /// Has the last word of the transport follow what is pending.
    pub(crate) fn say_close(&mut self, id: ConnectionId) {
        if let Some((_, websocket)) = self.sockets.websocket(id) {
            websocket.close(if self.stopping { CloseCode::GOING_AWAY } else { CloseCode::NORMAL });
        }
    }

    /// [`Worker::flush`] for a WebSocket: each batch is a frame, whose header goes in the same write.
    pub(crate) fn flush_framed(&mut self, id: ConnectionId) {
        for _ in 0..WRITES_MAX {
            match self.write_framed(id) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.stop_writing(id, &error),
            }
        }
        let pending_bytes = self.shard.output(id).map_or(0, |output| output.pending_bytes());
        let Some((_, websocket)) = self.sockets.websocket(id) else { return };
        let pending = pending_bytes > 0 || websocket.has_output(pending_bytes);
        self.finish_writing(id, pending);
    }

    /// One write; says whether there may be more.
    fn write_framed(&mut self, id: ConnectionId) -> io::Result<bool> {
        let Some((socket, websocket)) = self.sockets.websocket(id) else { return Ok(false) };
        let output = self.shard.output(id);
        let pending_bytes = output.as_ref().map_or(0, |output| output.pending_bytes());
        let (ahead, payload_bytes) = websocket.next(pending_bytes);
        if ahead.is_empty() && payload_bytes == 0 {
            return Ok(false);
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        slices[0] = IoSlice::new(ahead);
        let filled = match output {
            Some(output) if payload_bytes > 0 => 1 + output.fill(&mut slices[1..], payload_bytes),
            _ => 1,
        };
        let written = socket.stream.write_vectored(&slices[..filled])?;
        let payload_written = websocket.written(written);
        let more = websocket.has_output(pending_bytes - payload_written);
        self.shard.counters().bytes_sent.add((written - payload_written) as u64);
        Ok(self.shard.sent(id, payload_written, self.now_ms) || more)
    }
}
