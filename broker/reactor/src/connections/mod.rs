//! The connections of one thread: their sockets, from accept to close. Decides which sockets to read and write; [`transport`] reads and
//! writes them.

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

use crate::accepted_connection::AcceptedConnection;
use crate::churn_budget::ChurnBudget;
use crate::clock::{Clock, Now};
use crate::shard_channels::MigratingConnection;
use handshakes::{HandshakeWait, Handshakes};
use input::{Chunks, PartialInput};
use quickack::DelayedAckDetector;
use sockets::{LayerState, LifecycleStage, RemovedSocket, Sockets};

pub(crate) use layers::Layers;

/// The most reads of a connection before it is taken over, because a client that keeps sending cannot be read to the end.
const TAKEOVER_READS_MAX: usize = 16;
/// The number of reads per turn from connections that their peers have closed.
const CLOSING_READS_MAX: usize = 16;
/// How long the peer of a connection that we have closed may take to read our last bytes.
const DRAIN_MS: u64 = 2_000;

#[derive(Debug)]
pub(crate) struct Connections {
    registry: Registry,
    sockets: Sockets,
    chunks: Chunks,
    /// Sockets that may have more to read than a turn has read.
    readable: VecDeque<ConnectionId>,
    /// How many of them are still to be read in this turn.
    reads_left: usize,
    /// Sockets that are readable according to the kernel. They are read whether they are in `readable` or not, so that a flood of large
    /// packets takes fewer turns.
    ready: VecDeque<ConnectionId>,
    /// Readable sockets of new clients, in a separate list so that thousands of them do not delay the others.
    new_connections: VecDeque<ConnectionId>,
    /// Sockets whose peer has closed, in a separate list for the same reason.
    closed_by_peer: VecDeque<ConnectionId>,
    /// How many of them are still to be read in this turn.
    closing_reads_left: usize,
    /// Whether a closed or a new connection is next.
    is_closing_next: bool,
    pub(crate) churn_budget: ChurnBudget,
    /// Sockets that are writable again.
    writable: Vec<ConnectionId>,
    /// Connections whose transport has output of its own.
    replying: Vec<ConnectionId>,
    /// Closed connections, with the time at which their sockets are closed at the latest.
    draining: VecDeque<(u64, ConnectionId)>,
    /// Connections that were read and are not registered yet.
    unregistered: Vec<ConnectionId>,
    handshakes: Handshakes,
    /// Connections read in this turn whose clients wait for TCP acknowledgements.
    quick_acks: Vec<ConnectionId>,
    is_stopping: bool,
    pub(crate) now_ms: u64,
    pub(crate) clock: Clock,
}

impl Connections {
    /// Creates an empty set; `tls_handshakes` limits the concurrent TLS handshakes.
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
            quick_acks: Vec::new(),
            is_stopping: false,
            now_ms: 0,
            clock,
        }
    }

    /// Records a kernel event of a socket.
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

    /// Begins a turn. `has_mail`: other threads have sent messages.
    pub(crate) fn begin_turn(&mut self, now: Now, has_mail: bool) {
        self.now_ms = now.ms;
        self.reads_left = self.readable.len();
        self.churn_budget.begin_turn(now, has_mail || !self.ready.is_empty());
        self.closing_reads_left = CLOSING_READS_MAX;
        self.handshakes.begin_turn();
    }

    /// Whether the next turn has work that no event announces.
    pub(crate) fn has_work(&self) -> bool {
        !self.readable.is_empty()
            || !self.ready.is_empty()
            || !self.new_connections.is_empty()
            || !self.closed_by_peer.is_empty()
            || !self.handshakes.is_empty()
            || !self.writable.is_empty()
            || !self.replying.is_empty()
    }

    /// Returns the next deadline.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.draining.front().map(|(at_ms, _)| *at_ms)
    }

    /// Starts the shutdown: no more connections are accepted.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Returns the address of the peer.
    pub(crate) fn peer(&mut self, id: ConnectionId) -> Option<Peer> {
        self.sockets.get(id)?.stream.peer_addr().ok().map(Peer::from)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    // New connections.

    /// Adds an accepted connection.
    pub(crate) fn admit<M: Mode>(&mut self, shard: &mut Shard<M>, accepted: AcceptedConnection) {
        if let Some(id) = self.enter(shard, accepted, None) {
            self.watch(shard, id);
        }
    }

    /// Adds an accepted connection that has probably sent data already. It is registered at the end of the turn, because by then it may
    /// have moved to another thread.
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
        let AcceptedConnection { stream, origin, mut layers, ack_level, auth_state } = accepted;
        if origin.is_closed() {
            shard.counters().listener_removed_disconnects.add(1);
            return None;
        }
        let now_ms = self.now_ms;
        let is_handshaking = layers.as_ref().is_some_and(|layers| layers.is_handshaking());
        if is_handshaking && !self.handshakes.has_room(self.sockets.handshaking()) && !self.close_idle_handshake(shard)
        {
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
        if let Some(auth_state) = auth_state {
            shard.adopt_auth_state(id, auth_state);
        }
        let is_local = matches!(origin.peer(), Some(Peer::Local { .. }));
        shard.set_origin(id, origin);
        if let Some(layers) = &mut layers {
            layers.due = HandshakeWait { since_ms: now_ms, has_input: false };
            layers.enter(shard.ledger());
        }
        let ack_detector = if is_local { DelayedAckDetector::LOCAL } else { DelayedAckDetector::default() };
        self.sockets.insert(id, stream, rest, layers, ack_detector);
        if is_handshaking {
            self.handshakes.begin(id, now_ms, |other| self.sockets.handshaking_layers(other).is_some());
        }
        Some(id)
    }

    /// Closes a connection whose client was silent for too long during a TLS handshake. Returns false if there is none.
    fn close_idle_handshake<M: Mode>(&mut self, shard: &mut Shard<M>) -> bool {
        let silent = self.handshakes.find_idle(self.now_ms, |id| Some(self.sockets.handshaking_layers(id)?.due));
        let Some(id) = silent else { return false };
        shard.counters().tls_handshakes_evicted.add(1);
        self.handle_peer_close(shard, id);
        true
    }

    /// Registers a connection for events, including earlier ones. Returns whether this succeeded.
    fn watch<M: Mode>(&mut self, shard: &mut Shard<M>, id: ConnectionId) -> bool {
        let Some(socket) = self.sockets.get(id) else { return false };
        let interest = if socket.write_armed { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        if let Err(error) = self.registry.register(&mut socket.stream, token_of(id), interest) {
            log::error!("cannot register a connection for events: {error}");
            self.handle_peer_close(shard, id);
            return false;
        }
        socket.watched = true;
        true
    }

    /// Registers the connections that were accepted in this turn.
    pub(crate) fn register_new<M: Mode>(&mut self, shard: &mut Shard<M>) {
        for at in 0..self.unregistered.len() {
            self.watch(shard, self.unregistered[at]);
        }
        self.unregistered.clear();
    }

    /// Adds a connection that was migrated from another thread, unless the broker is stopping.
    pub(crate) fn insert_migrated<M: Mode>(&mut self, shard: &mut Shard<M>, migrating: MigratingConnection) {
        if !self.is_stopping {
            let MigratingConnection { accepted, bytes } = migrating;
            if let Some(id) = self.enter(shard, accepted, Some(PartialInput::from(bytes)))
                && self.watch(shard, id)
            {
                self.consume(shard, id, false);
                // Layers may have buffered bytes that the kernel does not report.
                if self.sockets.get(id).is_some_and(|socket| socket.layer_state != LayerState::Nothing) {
                    self.queue_readable(id);
                }
            }
        }
    }

    // Connections that close or migrate.

    /// Removes a connection to migrate it to another thread.
    pub(crate) fn take_for_migration<M: Mode>(
        &mut self,
        shard: &mut Shard<M>,
        id: ConnectionId,
    ) -> Option<MigratingConnection> {
        let RemovedSocket { mut stream, watched, rest, layers } = self.sockets.remove(id)?;
        let bytes = rest.as_ref().map(|rest| rest.bytes().to_vec()).unwrap_or_default();
        self.chunks.release_partial(rest);
        let ack_level = shard.ack_level(id);
        let auth_state = shard.release_auth_state(id);
        let origin = shard.origin(id);
        shard.connection_closed(id);
        if watched && let Err(error) = self.registry.deregister(&mut stream) {
            log::error!("cannot migrate a connection to another thread: {error}");
            return None;
        }
        let accepted = AcceptedConnection { stream, origin: origin?, layers, ack_level, auth_state };
        Some(MigratingConnection { accepted, bytes })
    }

    /// Writes the last bytes of a connection and waits for the peer to close it, because closing a socket with unread input would discard
    /// output that the peer has not read.
    fn begin_drain<M: Mode>(&mut self, shard: &mut Shard<M>, id: ConnectionId) {
        let Some(socket) = self.sockets.get(id) else { return };
        if socket.layer_state == LayerState::ProxyHeader {
            // The peer has not sent anything that could be answered.
            return self.release(shard, id);
        }
        socket.draining = true;
        if let Some(mut transport) = self.sockets.transport(id) {
            transport.close(if self.is_stopping { CloseCode::GOING_AWAY } else { CloseCode::NORMAL });
        }
        self.draining.push_back((self.now_ms + DRAIN_MS, id));
        self.write(shard, id);
    }

    /// Frees buffers that are recreated on demand, and unused capacity.
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

    /// Closes draining connections whose time is over.
    pub(crate) fn close_drained<M: Mode>(&mut self, shard: &mut Shard<M>) {
        while let Some((at_ms, id)) = self.draining.front().copied()
            && at_ms <= self.now_ms
        {
            self.draining.pop_front();
            self.release(shard, id);
        }
    }

    /// Handles the close of a connection by its peer.
    fn handle_peer_close<M: Mode>(&mut self, shard: &mut Shard<M>, id: ConnectionId) {
        if let Some(socket) = self.sockets.remove(id) {
            self.chunks.release_partial(socket.rest);
            shard.connection_lost(id, self.now_ms);
        }
    }

    /// Closes a connection that the engine has released.
    fn release<M: Mode>(&mut self, shard: &mut Shard<M>, id: ConnectionId) {
        if let Some(socket) = self.sockets.remove(id) {
            self.chunks.release_partial(socket.rest);
            shard.connection_closed(id);
        }
    }

    /// Executes an action of the engine on a socket, except for migration: see [`Connections::take_for_migration`].
    pub(crate) fn perform<M: Mode>(&mut self, shard: &mut Shard<M>, action: Action) {
        match action {
            Action::Close(id) => self.begin_drain(shard, id),
            Action::Drop(id) => match self.sockets.get(id) {
                // The client may wait for a closing message of the transport.
                Some(socket) if socket.layer_state != LayerState::Nothing => self.begin_drain(shard, id),
                _ => self.release(shard, id),
            },
            Action::Move(..) | Action::Authenticate(_) => {}
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

/// Formats the peer of a connection for the log.
fn address_of(origin: &ConnectionOrigin) -> String {
    origin.peer().map(|peer| peer.to_string()).unwrap_or_default()
}
