//! Writes output of the engine to sockets.

use std::io;

use mio::Interest;
use tautwire_engine::Mode;
use tautwire_engine::{ConnectionId, Counters, Shard};

use super::quickack::acknowledge;
use super::transport::WriteResult;
use super::{Connections, token_of};

/// The most writes to one connection in one turn.
const WRITES_MAX: usize = 16;

impl Connections {
    /// Writes to the connections whose sockets are writable again, and to those whose transport has output.
    pub(crate) fn write_ready<M: Mode>(&mut self, shard: &mut Shard<M>) {
        for id in std::mem::take(&mut self.writable) {
            if let Some(socket) = self.sockets.get(id) {
                socket.write_armed = false;
                self.write(shard, id);
            }
        }
        for id in std::mem::take(&mut self.replying) {
            self.write(shard, id);
        }
    }

    /// Sends the quick acknowledgements at the end of a turn, unless output has carried them.
    pub(crate) fn send_quick_acks(&mut self, counters: &Counters) {
        while let Some(id) = self.quick_acks.pop() {
            if let Some(socket) = self.sockets.get(id)
                && !socket.ack_detector.has_written()
                && acknowledge(&socket.stream)
            {
                counters.quickacks_sent.add(1);
            }
        }
    }

    /// Writes the pending output of a connection, as much as its socket accepts.
    pub(crate) fn write<M: Mode>(&mut self, shard: &mut Shard<M>, id: ConnectionId) {
        let Some(socket) = self.sockets.get(id) else { return };
        if socket.write_armed {
            shard.advance_output(id, 0, self.now_ms);
            return;
        }
        let Some(mut transport) = self.sockets.transport(id) else { return };
        for _ in 0..WRITES_MAX {
            match transport.write(shard.output(id).as_deref()) {
                Ok(None) => break,
                Ok(Some(WriteResult { output_bytes, transport_bytes })) => {
                    shard.counters().bytes_sent.add(transport_bytes as u64);
                    if !shard.advance_output(id, output_bytes, self.now_ms) && !transport.has_transport_bytes(0) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.handle_write_error(shard, id, &error),
            }
        }
        let output = shard.output(id).filter(|_| transport.takes_output());
        let output_bytes = output.map_or(0, |output| output.pending_bytes());
        let has_more = output_bytes > 0 || transport.has_transport_bytes(output_bytes);
        if let Some(socket) = self.sockets.get(id) {
            socket.ack_detector.on_write();
        }
        if has_more {
            // Other connections come first.
            self.writable.push(id);
        } else if self.sockets.get(id).is_some_and(|socket| socket.draining)
            && let Some(mut transport) = self.sockets.transport(id)
        {
            transport.finish();
        }
    }

    /// Handles a failed write, which may only mean that the socket is full.
    fn handle_write_error<M: Mode>(&mut self, shard: &mut Shard<M>, id: ConnectionId, error: &io::Error) {
        let Some(socket) = self.sockets.get(id) else { return };
        if error.kind() != io::ErrorKind::WouldBlock {
            log::debug!("cannot write to connection {}: {error}", id.index);
            self.handle_peer_close(shard, id);
            return;
        }
        shard.advance_output(id, 0, self.now_ms);
        socket.write_armed = true;
        let both = Interest::READABLE | Interest::WRITABLE;
        if socket.watched && self.registry.reregister(&mut socket.stream, token_of(id), both).is_err() {
            self.handle_peer_close(shard, id);
        }
    }
}
