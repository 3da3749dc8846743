//! Passes input from sockets to the engine.

use tautwire_engine::{Certificate, ConnectionId, Shard};
use tautwire_protocol::DisconnectReason;
use tautwire_session::Journal;
use tautwire_websocket::{EndReason as WebSocketEnding, Violation};

use super::sockets::LayerState;
use super::transport::EndReason;
use super::{Connections, address_of};

impl Connections {
    /// Reads from the next socket of this turn. Returns false if there is none left.
    pub(crate) fn read_next<J: Journal>(&mut self, shard: &mut Shard<J>) -> bool {
        let id = if self.reads_left > 0 {
            self.reads_left -= 1;
            let id = self.readable.pop_front();
            if let Some(socket) = id.and_then(|id| self.sockets.get(id)) {
                socket.is_queued = false;
            }
            id
        } else {
            self.ready.pop_front().or_else(|| self.next_of_churn())
        };
        let Some(id) = id else { return self.step_next_handshake(shard) };
        self.read_or_queue(shard, id);
        true
    }

    /// Reads from a socket, or queues it if that is a step of a handshake.
    pub(super) fn read_or_queue<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId) {
        match self.sockets.get(id).map(|socket| socket.layer_state) {
            Some(LayerState::Handshaking) => {
                self.handshakes.push(id);
                if let Some(layers) = self.sockets.handshaking_layers(id) {
                    layers.record_input();
                }
            }
            Some(LayerState::ProxyHeader) => self.read_proxy_header(shard, id),
            _ => {
                self.consume(shard, id, true);
            }
        }
    }

    /// Makes the next step of a TLS handshake. Returns false if there is none left for this turn.
    fn step_next_handshake<J: Journal>(&mut self, shard: &mut Shard<J>) -> bool {
        let Some(step) = self.handshakes.next() else { return false };
        self.consume(shard, step.id, true);
        if let Some(layers) = self.sockets.handshaking_layers(step.id) {
            layers.record_progress(self.now_ms);
        }
        self.handshakes.record_step(&step);
        true
    }

    /// Returns the next new or closed connection, alternating between the two.
    fn next_of_churn(&mut self) -> Option<ConnectionId> {
        let ends = !self.closed_by_peer.is_empty() && self.closing_reads_left > 0;
        if (self.new_connections.is_empty() && !ends) || !self.churn_budget.may_continue(|| self.clock.now_us()) {
            return None;
        }
        self.is_closing_next = ends && (self.new_connections.is_empty() || !self.is_closing_next);
        if self.is_closing_next {
            self.closing_reads_left -= 1;
            self.closed_by_peer.pop_front()
        } else {
            self.new_connections.pop_front()
        }
    }

    pub(super) fn queue_readable(&mut self, id: ConnectionId) {
        if let Some(socket) = self.sockets.get(id)
            && !socket.is_queued
        {
            socket.is_queued = true;
            self.readable.push_back(id);
        }
    }

    /// Passes the kept input of the connection and, if `reading`, new input of its socket to the engine. Returns whether there was any.
    pub(super) fn consume<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId, reading: bool) -> bool {
        let Some(socket) = self.sockets.get(id) else { return false };
        let draining = socket.draining;
        if reading && !draining && shard.is_reading_paused(id) {
            let rest = socket.rest.as_ref().map_or(&[][..], |rest| rest.bytes());
            if !shard.should_read_ahead(id, rest) {
                // Action::Resume continues it; until then the bytes stay in the socket, which slows down the sender.
                return false;
            }
        }
        let rest = socket.rest.take().map(|rest| *rest);
        let had_rest = rest.is_some();
        let mut transport = if reading { self.sockets.transport(id) } else { None };
        let arrived = match self.chunks.read_input(rest, transport.as_mut(), shard.read_max_bytes(), shard.counters()) {
            Ok(arrived) => arrived,
            Err(error) => {
                log::debug!("connection {} failed: {error}", id.index);
                self.handle_peer_close(shard, id);
                return false;
            }
        };
        let has_ended = arrived.received.is_some_and(|received| received.has_ended);
        if has_ended && !arrived.range.is_empty() && !draining {
            log::debug!("connection {} closed in the middle of a packet", id.index);
        }
        if arrived.received.is_some()
            && let Some(socket) = self.sockets.get(id)
        {
            let was_shaking = socket.layer_state == LayerState::Handshaking;
            socket.stage.record_progress();
            if socket.ack_detector.on_read(self.now_ms, shard.counters()) {
                self.quick_acks.push(id);
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
                self.chunks.release_partial(rest.take());
            }
        }
        let mut more = arrived.more;
        let Some(socket) = self.sockets.get(id) else {
            self.chunks.release_partial(rest);
            return arrived.received.is_some() && !has_ended;
        };
        socket.rest = rest.map(Box::new);
        // After the end of the input there is no further event.
        more |= socket.stage.has_ended() && arrived.received.is_some();
        if socket.layer_state != LayerState::Nothing {
            self.handle_transport_events(shard, id);
        }
        if has_ended {
            self.handle_peer_close(shard, id);
        } else if more {
            self.queue_readable(id);
        }
        arrived.received.is_some() && !has_ended
    }

    /// Handles the end of a TLS handshake: reports its results to the engine before any MQTT.
    fn end_handshake<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId) {
        let Some(tls) = self.sockets.take_finished_handshake(id).and_then(|layers| layers.tls.as_ref()) else { return };
        shard.counters().tls_handshakes.add(1);
        shard.counters().tls_handshakes_resumed.add(u64::from(tls.is_resumed()));
        let certificate = tls.client_certificate().map(|der| Certificate::Der(der.into()));
        shard.update_origin(id, |origin| {
            let shown = if certificate.is_some() { "with" } else { "without" };
            log::debug!("listener {}: TLS handshake completed {shown} a client certificate", origin.listener());
            origin.set_encrypted(certificate);
        });
    }

    /// Handles transport events once all MQTT before them was processed.
    fn handle_transport_events<J: Journal>(&mut self, shard: &mut Shard<J>, id: ConnectionId) {
        let is_handshaking = self.sockets.get(id).is_some_and(|socket| socket.layer_state == LayerState::Handshaking);
        let Some(mut transport) = self.sockets.transport(id) else { return };
        if transport.has_transport_bytes(usize::MAX) {
            self.replying.push(id);
        }
        if !shard.is_reading(id) {
            // They are handled when reading resumes, here or on the thread that the connection moves to.
            return;
        }
        let ending = transport.take_end_reason();
        let origin = ending.as_ref().and_then(|_| shard.origin(id));
        let listener = origin.as_ref().map_or("", |origin| origin.listener());
        let address = origin.as_ref().map(|origin| address_of(origin)).unwrap_or_default();
        match ending {
            None => {}
            Some(EndReason::Tls(failure)) => {
                let counters = shard.counters();
                if is_handshaking {
                    counters.tls_handshakes_failed.add(1);
                    log::info!(listener = listener, address = &*address; "refused connection: the TLS handshake failed: {failure}");
                } else {
                    counters.tls_errors.add(1);
                    log::info!(listener = listener, address = &*address; "closed connection: TLS error: {failure}");
                }
                shard.peer_closed(id, self.now_ms);
            }
            Some(EndReason::WebSocket(WebSocketEnding::Closed(_))) => shard.peer_closed(id, self.now_ms),
            Some(EndReason::WebSocket(WebSocketEnding::Refused(refusal))) => {
                shard.counters().websocket_handshakes_refused.add(1);
                log::info!(listener = listener, address = &*address; "refused connection: the WebSocket handshake was refused: {refusal}");
                shard.peer_closed(id, self.now_ms);
            }
            Some(EndReason::WebSocket(WebSocketEnding::Violation(violation))) => {
                fail(shard, id, violation, self.now_ms)
            }
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
