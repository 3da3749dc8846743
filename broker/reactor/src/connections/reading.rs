//! From sockets to the engine.

use tautwire_engine::{Certificate, ConnectionId, Shard};
use tautwire_protocol::DisconnectReason;
use tautwire_session::Journal;
use tautwire_websocket::{Ending as WebSocketEnding, Violation};

use super::sockets::Between;
use super::transport::Ending;
use super::{Connections, address_of};

impl Connections {
    /// Reads from the next socket of this turn; false where none is left.
    pub(crate) fn read_next<J: Journal>(&mut self, shard: &mut Shard<J>) -> bool {
        let id = if self.reads_left > 0 {
            self.reads_left -= 1;
            let id = self.readable.pop_front();
            if let Some(socket) = id.and_then(|id| self.sockets.get(id)) {
                socket.listed = false;
            }
            id
        } else {
            self.signalled.pop_front().or_else(|| self.next_of_turnover())
        };
        let Some(id) = id else { return self.shake_next(shard) };
        self.hear(shard, id);
        true
    }

    /// Reads from a socket, or puts it in line where that is a step of a handshake.
    pub(super) fn hear<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId) {
        match self.sockets.get(id).map(|socket| socket.between) {
            Some(Between::Shaking) => {
                self.handshakes.push(id);
                if let Some(layers) = self.sockets.shaking_layers(id) {
                    layers.note_sent();
                }
            }
            Some(Between::Header) => self.hear_header(shard, id),
            _ => {
                self.consume(shard, id, true);
            }
        }
    }

    /// Makes the next step of a handshake of TLS; false where none is left for this turn.
    fn shake_next<J: Journal>(&mut self, shard: &mut Shard<J>) -> bool {
        let Some(step) = self.handshakes.next() else { return false };
        self.consume(shard, step.id, true);
        if let Some(layers) = self.sockets.shaking_layers(step.id) {
            layers.note_heard(self.now_ms);
        }
        self.handshakes.made(&step);
        true
    }

    /// The next of those who have just come and those who go, in turns.
    fn next_of_turnover(&mut self) -> Option<ConnectionId> {
        let ends = !self.ended.is_empty() && self.endings_left > 0;
        if (self.entering.is_empty() && !ends) || !self.turnover.may_go_on(|| self.clock.now_us()) {
            return None;
        }
        self.ends_next = ends && (self.entering.is_empty() || !self.ends_next);
        if self.ends_next {
            self.endings_left -= 1;
            self.ended.pop_front()
        } else {
            self.entering.pop_front()
        }
    }

    pub(super) fn list_readable(&mut self, id: ConnectionId) {
        if let Some(socket) = self.sockets.get(id)
            && !socket.listed
        {
            socket.listed = true;
            self.readable.push_back(id);
        }
    }

    /// Brings the engine what is kept of the connection and, if `reading`, what its socket has to give; says whether that
    /// was anything.
    pub(super) fn consume<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId, reading: bool) -> bool {
        let Some(socket) = self.sockets.get(id) else { return false };
        let draining = socket.draining;
        if reading && !draining && shard.is_reading_paused(id) {
            let rest = socket.rest.as_ref().map_or(&[][..], |rest| rest.bytes());
            if !shard.should_read_ahead(id, rest) {
                // Told to go on by Action::Resume; until then the bytes wait in the socket, and so does the sender.
                return false;
            }
        }
        let rest = socket.rest.take().map(|rest| *rest);
        let had_rest = rest.is_some();
        let mut transport = if reading { self.sockets.transport(id) } else { None };
        let arrived = match self.chunks.gather(rest, transport.as_mut(), shard.read_max_bytes(), shard.counters()) {
            Ok(arrived) => arrived,
            Err(error) => {
                log::debug!("connection {} failed: {error}", id.index);
                self.lose(shard, id);
                return false;
            }
        };
        let has_ended = arrived.received.is_some_and(|received| received.has_ended);
        if has_ended && !arrived.range.is_empty() && !draining {
            log::debug!("connection {} ended in the midst of a packet", id.index);
        }
        if arrived.received.is_some()
            && let Some(socket) = self.sockets.get(id)
        {
            let was_shaking = socket.between == Between::Shaking;
            socket.stage.note_heard();
            if socket.pace.heard(self.now_ms, shard.counters()) {
                self.hurried.push(id);
            }
            if was_shaking {
                self.end_handshake(shard, id);
            }
        }
        let mut rest = arrived.range.clone();
        if draining {
            rest.start = rest.end;
        } else if !rest.is_empty() && !has_ended {
            rest.start += shard.receive(id, &arrived.chunk, rest.clone(), self.now_ms);
        }
        let mut rest = self.chunks.keep(arrived.chunk, rest);
        if (rest.is_some() || had_rest) && !draining {
            let (bytes, held_bytes) = rest.as_ref().map_or((&[][..], 0), |rest| (rest.bytes(), rest.held_bytes()));
            if !shard.can_buffer_input(id, bytes, held_bytes) {
                self.chunks.forget(rest.take());
            }
        }
        let mut more = arrived.more;
        let Some(socket) = self.sockets.get(id) else {
            self.chunks.forget(rest);
            return arrived.received.is_some() && !has_ended;
        };
        socket.rest = rest.map(Box::new);
        // There is no further event once the end has come.
        more |= socket.stage.has_ended() && arrived.received.is_some();
        if socket.between != Between::Nothing {
            self.settle_transport(shard, id);
        }
        if has_ended {
            self.lose(shard, id);
        } else if more {
            self.list_readable(id);
        }
        arrived.received.is_some() && !has_ended
    }

    /// If a handshake of TLS is over, what it has shown becomes known before any MQTT behind it.
    fn end_handshake<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId) {
        let Some(tls) = self.sockets.end_of_handshake(id).and_then(|layers| layers.tls.as_ref()) else { return };
        shard.counters().tls_handshakes.add(1);
        shard.counters().tls_handshakes_resumed.add(u64::from(tls.is_resumed()));
        let certificate = tls.client_certificate().map(|der| Certificate::Der(der.into()));
        shard.update_origin(id, |origin| {
            let shown = if certificate.is_some() { "with" } else { "without" };
            log::debug!(
                "listener {}: a handshake of TLS is over, {shown} a certificate of the client",
                origin.listener()
            );
            origin.set_encrypted(certificate);
        });
    }

    /// Acts on what was not MQTT, once all MQTT before it has been taken in.
    fn settle_transport<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId) {
        let is_shaking = self.sockets.get(id).is_some_and(|socket| socket.between == Between::Shaking);
        let Some(mut transport) = self.sockets.transport(id) else { return };
        if transport.has_own_bytes(usize::MAX) {
            self.replying.push(id);
        }
        if !shard.is_reading(id) {
            // It is acted on when the connection is heard again, here or by the thread it moves to.
            return;
        }
        let ending = transport.take_ending();
        let origin = ending.as_ref().and_then(|_| shard.origin(id));
        let listener = origin.as_ref().map_or("", |origin| origin.listener());
        let address = origin.as_ref().map(|origin| address_of(origin)).unwrap_or_default();
        match ending {
            None => {}
            Some(Ending::Tls(failure)) => {
                let counters = shard.counters();
                if is_shaking {
                    counters.tls_handshakes_failed.add(1);
                    log::info!(listener = listener, address = &*address; "refused connection: the TLS handshake failed: {failure}");
                } else {
                    counters.tls_errors.add(1);
                    log::info!(listener = listener, address = &*address; "TLS failed and ended a connection: {failure}");
                }
                shard.peer_closed(id, self.now_ms);
            }
            Some(Ending::WebSocket(WebSocketEnding::Closed(_))) => shard.peer_closed(id, self.now_ms),
            Some(Ending::WebSocket(WebSocketEnding::Refused(refusal))) => {
                shard.counters().websocket_handshakes_refused.add(1);
                log::info!(listener = listener, address = &*address; "refused connection: the WebSocket handshake was refused: {refusal}");
                shard.peer_closed(id, self.now_ms);
            }
            Some(Ending::WebSocket(WebSocketEnding::Violation(violation))) => fail(shard, id, violation, self.now_ms),
        }
    }
}

fn fail<J: Journal>(shard: &mut Shard<J>, id: ConnectionId, violation: Violation, now_ms: u64) {
    let counters = shard.counters();
    let reason = if violation.is_over_limit() {
        counters.websocket_frames_too_large.add(1);
        DisconnectReason::PacketTooLarge
    } else {
        counters.websocket_errors.add(1);
        DisconnectReason::ProtocolError
    };
    shard.transport_error(id, reason, violation.as_str(), now_ms);
}
