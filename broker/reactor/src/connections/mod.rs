//! The connections of one thread: their sockets, from being let in to being closed. It knows what is to be read from and written
//! to; how that is done is in [`transport`].

mod handshakes;
mod input;
mod layers;
mod proxy_header;
mod quickack;
mod reading;
mod sockets;
mod transport;
mod writing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use mio::event::Event;
use mio::{Interest, Registry, Token};
use tautwire_engine::Mode;
use tautwire_engine::{Action, ConnectionId, ConnectionOrigin, Peer, Shard};
use tautwire_websocket::CloseCode;

use crate::acceptor::AcceptedConnection;
use crate::churn_budget::ChurnBudget;
use crate::clock::{Clock, Now};
use crate::shard_channels::MigratingConnection;
use handshakes::{HandshakeWait, Handshakes};
use input::{Chunks, PartialInput};
use quickack::{DelayedAckDetector, Quick};
use sockets::{LayerState, LifecycleStage, RemovedSocket, Sockets};

pub(crate) use layers::Layers;

/// Reads of a connection that is about to be taken over: one that goes on sending is not heard to the end.
const TAKEOVER_READS_MAX: usize = 16;
/// Connections that their peers have ended and that are read from in one turn.
const CLOSING_READS_MAX: usize = 16;
/// How long a connection that we have ended may take to read our last bytes.
const DRAIN_MS: u64 = 2_000;

#[derive(Debug)]
pub(crate) struct Connections {
    registry: Registry,
    sockets: Sockets,
    chunks: Chunks,
    /// Sockets that may have more to read than a turn took.
    readable: VecDeque<ConnectionId>,
    /// How many of them are still to be read from in this turn.
    reads_left: usize,
    /// Sockets of which the kernel says that they have something to read. They are read from whether they are listed above or not:
    /// a flood of large packets takes fewer turns so.
    ready: VecDeque<ConnectionId>,
    /// Those of clients that have just come: when thousands do so at once, the others are not to wait for that.
    new_connections: VecDeque<ConnectionId>,
    /// Those of which it says that the peer has ended, for the same reason.
    closed_by_peer: VecDeque<ConnectionId>,
    /// How many of them are still to be read from in this turn.
    closing_reads_left: usize,
    /// Whose turn it is of those who have just come and those who go.
    is_closing_next: bool,
    pub(crate) churn_budget: ChurnBudget,
    /// Sockets that can be written to again.
    writable: Vec<ConnectionId>,
    /// Connections whose transport has something of its own to say.
    replying: Vec<ConnectionId>,
    /// Connections that have ended, with the moment at which their sockets are closed at the latest.
    draining: VecDeque<(u64, ConnectionId)>,
    /// Connections that have been read from and are not watched yet.
    unregistered: Vec<ConnectionId>,
    handshakes: Handshakes,
    quick_acks: Quick,
    is_stopping: bool,
    pub(crate) now_ms: u64,
    pub(crate) clock: Clock,
}

impl Connections {
    /// So many handshakes of TLS may go on at once.
    pub(crate) fn new(registry: Registry, tls_handshakes: Arc<AtomicUsize>, clock: Clock) -> Connections {
        Connections {
            registry,
            sockets: Sockets::new(),
            chunks: Chunks::default(),
            readable: VecDeque::new(),
            reads_left: 0,
            ready: VecDeque::new(),
            new_connections: VecDeque::new(),
            closed_by_peer: VecDeque::new(),
            closing_reads_left: 0,
            is_closing_next: false,
            churn_budget: ChurnBudget::default(),
            writable: Vec::new(),
            replying: Vec::new(),
            draining: VecDeque::new(),
            unregistered: Vec::new(),
            handshakes: Handshakes::new(tls_handshakes),
            quick_acks: Quick::new(),
            is_stopping: false,
            now_ms: 0,
            clock,
        }
    }

    /// Notes what the kernel says of a socket.
    pub(crate) fn record_event(&mut self, id: ConnectionId, event: &Event) {
        if event.is_writable() {
            self.writable.push(id);
        }
        if let Some(socket) = self.sockets.get(id)
            && (event.is_readable() || event.is_read_closed() || event.is_error())
        {
            if event.is_read_closed() || event.is_error() {
                socket.stage = LifecycleStage::ENDED;
                self.closed_by_peer.push_back(id);
            } else if socket.stage.is_new() {
                self.new_connections.push_back(id);
            } else {
                self.ready.push_back(id);
            }
        }
    }

    /// `has_mail`: other threads have sent messages.
    pub(crate) fn begin_turn(&mut self, now: Now, has_mail: bool) {
        self.now_ms = now.ms;
        self.reads_left = self.readable.len();
        self.churn_budget.begin_turn(now, has_mail || !self.ready.is_empty());
        self.closing_reads_left = CLOSING_READS_MAX;
        self.handshakes.begin_turn();
    }

    /// Whether the next turn has something to do that no event brings back.
    pub(crate) fn has_work(&self) -> bool {
        !self.readable.is_empty()
            || !self.ready.is_empty()
            || !self.new_connections.is_empty()
            || !self.closed_by_peer.is_empty()
            || !self.handshakes.is_empty()
            || !self.writable.is_empty()
            || !self.replying.is_empty()
    }

    /// When something is due.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.draining.front().map(|(at_ms, _)| *at_ms)
    }

    /// From now on the broker goes down: nobody is let in.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// The other end of a connection.
    pub(crate) fn peer(&mut self, id: ConnectionId) -> Option<Peer> {
        self.sockets.get(id)?.stream.peer_addr().ok().map(Peer::from)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    // Coming.

    /// Lets a connection in.
    pub(crate) fn admit<M: Mode>(&mut self, shard: &mut Shard<M>, accepted: AcceptedConnection) {
        if let Some(id) = self.enter(shard, accepted, None) {
            self.watch(shard, id);
        }
    }

    /// Lets a connection in that has probably said something already. It is watched when the turn is over: by then it may have
    /// moved to another thread.
    pub(crate) fn admit_and_read<M: Mode>(&mut self, shard: &mut Shard<M>, accepted: AcceptedConnection) {
        if let Some(id) = self.enter(shard, accepted, None) {
            self.unregistered.push(id);
            self.read_or_queue(shard, id);
        }
    }

    fn enter<M: Mode>(
        &mut self,
        shard: &mut Shard<M>,
        accepted: AcceptedConnection,
        rest: Option<PartialInput>,
    ) -> Option<ConnectionId> {
        let AcceptedConnection { stream, origin, mut layers, ack_level, standing } = accepted;
        if origin.is_closed() {
            shard.counters().listener_removed_disconnects.add(1);
            return None;
        }
        let now_ms = self.now_ms;
        let is_shaking = layers.as_ref().is_some_and(|layers| layers.is_handshaking());
        if is_shaking && !self.handshakes.has_room(self.sockets.handshaking()) && !self.close_idle_handshake(shard) {
            shard.counters().tls_handshakes_refused.add(1);
            let address = address_of(&origin);
            log::warn!(
                listener = &**origin.listener(), address = &*address;
                "refused connection: limits.tls_handshakes is reached"
            );
            return None;
        }
        let Some(id) = shard.accept(self.now_ms) else {
            let address = address_of(&origin);
            log::warn!(
                listener = &**origin.listener(), address = &*address;
                "refused connection: limits.connections is reached"
            );
            return None;
        };
        shard.set_ack_level(id, ack_level);
        if let Some(standing) = standing {
            shard.adopt_auth_state(id, standing);
        }
        let is_local = matches!(origin.peer(), Some(Peer::Local { .. }));
        shard.set_origin(id, origin);
        if let Some(layers) = &mut layers {
            layers.due = HandshakeWait { since_ms: now_ms, has_input: false };
            layers.enter(shard.ledger());
        }
        let ack_detector = if is_local { DelayedAckDetector::LOCAL } else { DelayedAckDetector::default() };
        self.sockets.insert(id, stream, rest, layers, ack_detector);
        if is_shaking {
            self.handshakes.begin(id, now_ms, |other| self.sockets.handshaking_layers(other).is_some());
        }
        Some(id)
    }

    /// Closes one whose client has been silent for too long in the midst of a handshake of TLS; false where there is none.
    fn close_idle_handshake<M: Mode>(&mut self, shard: &mut Shard<M>) -> bool {
        let silent = self.handshakes.find_idle(self.now_ms, |id| Some(self.sockets.handshaking_layers(id)?.due));
        let Some(id) = silent else { return false };
        shard.counters().tls_handshakes_displaced.add(1);
        self.handle_peer_close(shard, id);
        true
    }

    /// Has the kernel tell us of a connection, also of what has come before; says whether it can.
    fn watch<M: Mode>(&mut self, shard: &mut Shard<M>, id: ConnectionId) -> bool {
        let Some(socket) = self.sockets.get(id) else { return false };
        let interest = if socket.write_armed { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        if let Err(error) = self.registry.register(&mut socket.stream, token_of(id), interest) {
            log::error!("a connection cannot be watched: {error}");
            self.handle_peer_close(shard, id);
            return false;
        }
        socket.watched = true;
        true
    }

    /// Watches those who came in this turn.
    pub(crate) fn register_new<M: Mode>(&mut self, shard: &mut Shard<M>) {
        for at in 0..self.unregistered.len() {
            self.watch(shard, self.unregistered[at]);
        }
        self.unregistered.clear();
    }

    /// Lets a connection in that comes from another thread; who comes while the broker stops is not let in.
    pub(crate) fn insert_migrated<M: Mode>(&mut self, shard: &mut Shard<M>, migrating: MigratingConnection) {
        if !self.is_stopping {
            let MigratingConnection { accepted, bytes } = migrating;
            if let Some(id) = self.enter(shard, accepted, Some(PartialInput::from(bytes)))
                && self.watch(shard, id)
            {
                self.consume(shard, id, false);
                // Layers may have bytes of which the kernel does not tell.
                if self.sockets.get(id).is_some_and(|socket| socket.layer_state != LayerState::Nothing) {
                    self.queue_readable(id);
                }
            }
        }
    }

    // Going.

    /// Takes a connection out for another thread.
    pub(crate) fn take_for_migration<M: Mode>(
        &mut self,
        shard: &mut Shard<M>,
        id: ConnectionId,
    ) -> Option<MigratingConnection> {
        let RemovedSocket { mut stream, watched, rest, layers } = self.sockets.remove(id)?;
        let bytes = rest.as_ref().map(|rest| rest.bytes().to_vec()).unwrap_or_default();
        self.chunks.release_partial(rest);
        let ack_level = shard.ack_level(id);
        let standing = shard.release_auth_state(id);
        let origin = shard.origin(id);
        shard.connection_closed(id);
        if watched && let Err(error) = self.registry.deregister(&mut stream) {
            log::error!("a connection cannot be moved to another thread: {error}");
            return None;
        }
        let accepted = AcceptedConnection { stream, origin: origin?, layers, ack_level, standing };
        Some(MigratingConnection { accepted, bytes })
    }

    /// Writes the last bytes of a connection and waits for the peer to close it, since closing a socket with bytes unread
    /// would take back those that the peer has not read.
    fn begin_drain<M: Mode>(&mut self, shard: &mut Shard<M>, id: ConnectionId) {
        let Some(socket) = self.sockets.get(id) else { return };
        if socket.layer_state == LayerState::ProxyHeader {
            // Whoever is there has not said a word that could be answered.
            return self.release(shard, id);
        }
        socket.draining = true;
        if let Some(mut transport) = self.sockets.transport(id) {
            transport.close(if self.is_stopping { CloseCode::GOING_AWAY } else { CloseCode::NORMAL });
        }
        self.draining.push_back((self.now_ms + DRAIN_MS, id));
        self.write(shard, id);
    }

    /// Frees buffers that are made again when the next client needs one, and the room that lists do not need any more.
    pub(crate) fn shrink(&mut self) {
        self.chunks.shrink();
        self.handshakes.shrink(|id| self.sockets.handshaking_layers(id).is_some());
        self.sockets.shrink();
        for list in [&mut self.readable, &mut self.ready, &mut self.new_connections, &mut self.closed_by_peer] {
            list.shrink_to_fit();
        }
        for list in [&mut self.writable, &mut self.replying, &mut self.unregistered] {
            list.shrink_to_fit();
        }
        self.draining.shrink_to_fit();
    }

    /// Closes the connections that have had their time.
    pub(crate) fn close_drained<M: Mode>(&mut self, shard: &mut Shard<M>) {
        while let Some((at_ms, id)) = self.draining.front().copied()
            && at_ms <= self.now_ms
        {
            self.draining.pop_front();
            self.release(shard, id);
        }
    }

    /// The peer is gone.
    fn handle_peer_close<M: Mode>(&mut self, shard: &mut Shard<M>, id: ConnectionId) {
        if let Some(socket) = self.sockets.remove(id) {
            self.chunks.release_partial(socket.rest);
            shard.connection_lost(id, self.now_ms);
        }
    }

    /// The engine is done with the connection.
    fn release<M: Mode>(&mut self, shard: &mut Shard<M>, id: ConnectionId) {
        if let Some(socket) = self.sockets.remove(id) {
            self.chunks.release_partial(socket.rest);
            shard.connection_closed(id);
        }
    }

    /// Does what the engine wants done with its socket, but for moving it: see [`Connections::take_for_migration`].
    pub(crate) fn perform<M: Mode>(&mut self, shard: &mut Shard<M>, action: Action) {
        match action {
            Action::Close(id) => self.begin_drain(shard, id),
            Action::Drop(id) => match self.sockets.get(id) {
                // The client may be waiting for a word of the transport.
                Some(socket) if socket.layer_state != LayerState::Nothing => self.begin_drain(shard, id),
                _ => self.release(shard, id),
            },
            Action::Move(..) | Action::Ask(_) => {}
            Action::Resume(id) => {
                self.consume(shard, id, false);
                self.queue_readable(id);
            }
            Action::ReadFirst(first, then) => {
                for _ in 0..TAKEOVER_READS_MAX {
                    if !self.consume(shard, first, true) {
                        break;
                    }
                }
                self.consume(shard, then, false);
            }
        }
    }
}

fn token_of(id: ConnectionId) -> Token {
    Token((id.generation as usize) << 32 | id.index as usize)
}

pub(crate) fn id_of(token: Token) -> ConnectionId {
    ConnectionId { index: token.0 as u32, generation: (token.0 >> 32) as u32 }
}

/// Where a connection comes from, for the log.
fn address_of(origin: &ConnectionOrigin) -> String {
    origin.peer().map(|peer| peer.to_string()).unwrap_or_default()
}
