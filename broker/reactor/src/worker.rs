//! One thread: its loop of turns.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use tautwire_engine::{Action, ConnectionId, Shard};
use tautwire_router::{Batch, ShardIndex};
use tautwire_session::Volatile;
use tautwire_websocket::WebSocket;

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::desk::Clerk;
use crate::input::{Chunks, Rest};
use crate::listener::{Accepted, Listener, Reserve, accept};
use crate::mailbox::{Adopted, Bell, Mail, Peer};
use crate::memory::Trimmer;
use crate::quickack::Hurried;
use crate::sockets::{Removed, Sockets};

/// Events taken from the kernel at a time.
pub(crate) const EVENTS_MAX: usize = 256;
/// Connections accepted in one turn, so that a storm of them leaves time for those that are there.
const ACCEPTS_MAX: usize = 64;
/// Pieces of mail taken from one peer in one turn, so that threads which flood each other still read their sockets.
const MAIL_MAX: usize = 16;
/// Writes to one connection in one turn.
pub(crate) const WRITES_MAX: usize = 16;
/// Pieces handed to one write.
pub(crate) const SLICES_MAX: usize = 64;
/// Reads of a connection that is about to be taken over: one that goes on sending is not heard to the end.
const HEARINGS_MAX: usize = 16;
/// How long a connection that we have ended may take to read our last bytes.
const DRAIN_MS: u64 = 2_000;
/// After an error of accepting that is nobody's fault, how long until the next attempt.
const ACCEPT_PAUSE_MS: u64 = 100;

pub(crate) const BELL: Token = Token(usize::MAX);
const ALARM: Token = Token(usize::MAX - 1);
const FIRST_LISTENER: usize = usize::MAX - 1024;

/// One thread's state.
pub(crate) struct Worker {
    poll: Poll,
    pub(crate) shard: Shard<Volatile>,
    pub(crate) sockets: Sockets,
    chunks: Chunks,
    /// Sockets that may have more to read than one turn took.
    readable: VecDeque<ConnectionId>,
    /// Sockets that can be written to again.
    writable: Vec<ConnectionId>,
    /// WebSockets that have something of their own to say.
    pub(crate) replying: Vec<ConnectionId>,
    pub(crate) hurried: Hurried,
    /// Connections that have ended, with the moment at which their sockets are closed at the latest.
    draining: VecDeque<(u64, ConnectionId)>,
    listeners: Vec<Listener>,
    /// Listeners that may have more connections than one turn took, with the moment of the next attempt.
    accepting: Vec<(usize, u64)>,
    reserve: Reserve,
    peers: Vec<Peer>,
    bell: Arc<Bell>,
    stop: Arc<AtomicBool>,
    alarm: Alarm,
    /// In the midst of [`Worker::wind_down`].
    pub(crate) stopping: bool,
    /// In the midst of [`Worker::act`].
    acting: bool,
    /// One thread looks after the heap for all.
    trimmer: Option<Trimmer>,
    /// One thread publishes for all what comes over no connection.
    clerk: Option<Clerk>,
    clock: Clock,
    pub(crate) now_ms: u64,
}

impl Worker {
    pub(crate) fn new(
        poll: Poll,
        shard: Shard<Volatile>,
        listeners: Vec<Listener>,
        peers: Vec<Peer>,
        bell: Arc<Bell>,
        stop: Arc<AtomicBool>,
        clock: Clock,
    ) -> io::Result<Worker> {
        let alarm = Alarm::new(poll.registry(), ALARM)?;
        let mut worker = Worker {
            poll,
            shard,
            sockets: Sockets::default(),
            chunks: Chunks::default(),
            readable: VecDeque::new(),
            writable: Vec::new(),
            replying: Vec::new(),
            hurried: Vec::new(),
            draining: VecDeque::new(),
            listeners,
            accepting: Vec::new(),
            reserve: Reserve::new(),
            peers,
            bell,
            stop,
            alarm,
            stopping: false,
            acting: false,
            trimmer: None,
            clerk: None,
            clock,
            now_ms: clock.now_ms(),
        };
        worker.trimmer = (!worker.listeners.is_empty()).then(Trimmer::default);
        for (at, listener) in worker.listeners.iter_mut().enumerate() {
            worker.poll.registry().register(&mut listener.socket, Token(FIRST_LISTENER + at), Interest::READABLE)?;
        }
        Ok(worker)
    }

    /// The same with a clerk.
    pub(crate) fn with(self, clerk: Option<Clerk>) -> Worker {
        Worker { clerk, ..self }
    }

    /// Runs until told to stop, and then until every connection is closed.
    ///
    /// # Errors
    /// Those of waiting for events, which leave nothing to go on with.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            self.wait(&mut events)?;
            if self.stop.load(Ordering::Relaxed) {
                return self.wind_down(events);
            }
            self.turn(&events);
        }
    }

    fn turn(&mut self, events: &Events) {
        self.now_ms = self.clock.now_ms();
        for peer in &self.peers {
            self.shard.set_room(peer.shard, peer.outgoing.slots());
        }
        self.take_mail();
        for _ in 0..self.readable.len() {
            if let Some(id) = self.readable.pop_front() {
                if let Some(socket) = self.sockets.get(id) {
                    socket.listed = false;
                }
                self.read(id);
            }
        }
        for event in events {
            match event.token() {
                BELL | ALARM => {}
                Token(listener) if listener >= FIRST_LISTENER => {
                    self.accepting.push((listener - FIRST_LISTENER, self.now_ms));
                }
                token => {
                    let id = id_of(token);
                    if event.is_writable() {
                        self.writable.push(id);
                    }
                    if let Some(socket) = self.sockets.get(id)
                        && (event.is_readable() || event.is_read_closed() || event.is_error())
                    {
                        socket.ended |= event.is_read_closed() || event.is_error();
                        self.read(id);
                    }
                }
            }
        }
        self.accept();
        self.publish_posted();
        self.shard.turn(self.now_ms);
        self.act();
        self.send_mail();
        self.flush_all();
        // Writing lets waiting messages go on, and may show that a peer is gone.
        self.act();
        self.acknowledge_at_once();
        self.close_drained();
        if let Some(trimmer) = &mut self.trimmer {
            trimmer.look(self.shard.buffered_bytes(), self.now_ms);
        }
    }

    /// Waits for events, for mail or for what is due.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let accept_ms = self.accepting.iter().map(|(_, at_ms)| *at_ms).min();
        let drained_ms = self.draining.front().map(|(at_ms, _)| *at_ms);
        let trim_ms = self.trimmer.as_ref().and_then(Trimmer::next_ms);
        let next_ms = [self.shard.next_turn_ms(), accept_ms, drained_ms, trim_ms].into_iter().flatten().min();
        self.bell.before_sleep();
        let has_mail = |peer: &Peer| {
            let outgoing = !peer.moves.is_empty() || self.shard.has_batch(peer.shard);
            !peer.incoming.is_empty() || peer.begun.is_some() || (outgoing && peer.has_room_or_waits())
        };
        // The bell does not ring for who is awake: the word to stop may have come during the turn.
        let told_to_stop = !self.stopping && self.stop.load(Ordering::SeqCst);
        let connections_wait = !self.readable.is_empty() || !self.writable.is_empty() || !self.replying.is_empty();
        // Nor for who is about to sleep without having seen that the contracts have changed.
        let has_work = connections_wait || self.peers.iter().any(has_mail) || self.shard.has_contracts_to_tell();
        let busy = told_to_stop || has_work || self.shard.has_fan_outs() || self.has_posts();
        let timeout = if busy { Some(Duration::ZERO) } else { self.alarm.set(next_ms, self.now_ms)? };
        let result = self.poll.poll(events, timeout);
        self.bell.after_sleep();
        match result {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    // Between threads.

    fn take_mail(&mut self) {
        for at in 0..self.peers.len() {
            for _ in 0..MAIL_MAX {
                if !self.shard.takes_batches() {
                    break;
                }
                if let Some((batch, from)) = self.peers[at].begun.take() {
                    self.take_batch(at, batch, from);
                    continue;
                }
                match self.peers[at].incoming.pop() {
                    Ok(Mail::Batch(batch)) => self.take_batch(at, batch, 0),
                    // Who comes while the broker stops is not let in.
                    Ok(Mail::Adopt(_)) if self.stopping => {}
                    Ok(Mail::Adopt(Adopted { stream, bytes, websocket })) => {
                        self.admit(stream, Some(Rest::from(bytes)), websocket);
                    }
                    Err(_) => break,
                }
            }
            self.peers[at].tell_of_room();
        }
    }

    /// Takes a batch of the peer at `at` from an entry on, and keeps it where some is left.
    fn take_batch(&mut self, at: usize, batch: Batch, from: usize) {
        let left = self.shard.receive_batch(&batch, from, self.now_ms);
        self.peers[at].begun = left.map(|from| (batch, from));
    }

    fn send_mail(&mut self) {
        for peer in &mut self.peers {
            let mut posted = false;
            while !peer.outgoing.is_full() {
                let mail = match peer.moves.pop_front() {
                    Some(mail) => mail,
                    None => match self.shard.next_batch(peer.shard) {
                        Some(batch) => Mail::Batch(batch),
                        None => break,
                    },
                };
                match peer.post(mail) {
                    Ok(()) => posted = true,
                    Err(mail) => {
                        peer.moves.push_front(mail);
                        break;
                    }
                }
            }
            if posted {
                peer.bell.ring();
            }
        }
    }

    fn has_posts(&self) -> bool {
        self.clerk.as_ref().is_some_and(Clerk::has_posts)
    }

    /// Publishes what has been handed in.
    fn publish_posted(&mut self) {
        if !self.has_posts() {
            return;
        }
        for posted in self.clerk.as_ref().map(Clerk::take).unwrap_or_default() {
            let outcome = self.shard.publish_for_operator(&posted.message, self.now_ms);
            posted.answer(outcome);
        }
    }

    // Connections.

    fn accept(&mut self) {
        for (at, not_before_ms) in std::mem::take(&mut self.accepting) {
            if not_before_ms > self.now_ms {
                self.accepting.push((at, not_before_ms));
                continue;
            }
            self.accept_from(at);
        }
    }

    fn accept_from(&mut self, at: usize) {
        for _ in 0..ACCEPTS_MAX {
            match accept(&self.listeners[at].socket, &mut self.reserve) {
                Ok(Accepted::Connection(stream, peer)) => {
                    log::trace!("connection from {peer}");
                    self.shard.counters().connections_accepted.add(1);
                    let websocket = self.listeners[at].websocket();
                    self.admit(stream, None, websocket);
                }
                Ok(Accepted::Refused) => {
                    self.shard.counters().connections_refused.add(1);
                    log::warn!("a connection was refused: no file descriptor is free; raise the limit on open files");
                }
                Ok(Accepted::None) => return,
                Err(error) => {
                    log::error!("connections cannot be accepted: {error}");
                    self.accepting.push((at, self.now_ms + ACCEPT_PAUSE_MS));
                    return;
                }
            }
        }
        self.accepting.push((at, self.now_ms));
    }

    fn admit(&mut self, mut stream: TcpStream, rest: Option<Rest>, websocket: Option<Box<WebSocket>>) {
        let Some(id) = self.shard.accept(self.now_ms) else {
            log::warn!("a connection was refused: limits.connections is reached");
            return;
        };
        if let Err(error) = self.poll.registry().register(&mut stream, token_of(id), Interest::READABLE) {
            log::error!("a connection cannot be watched: {error}");
            self.shard.lost(id, self.now_ms);
            return;
        }
        let has_rest = rest.is_some();
        self.sockets.insert(id, stream, rest, websocket);
        if has_rest {
            self.consume(id, false);
        }
    }

    fn read(&mut self, id: ConnectionId) {
        self.consume(id, true);
    }

    /// Brings the engine what is kept of the connection and, if `reading`, what its socket has to give; says whether that
    /// was anything.
    fn consume(&mut self, id: ConnectionId, reading: bool) -> bool {
        let Some(socket) = self.sockets.get(id) else { return false };
        if reading && !socket.draining && self.shard.is_held(id) {
            // Told to go on by Action::Resume; until then the bytes wait in the socket, and so does the sender.
            return false;
        }
        let rest = socket.rest.take().map(|rest| *rest);
        let gathered = self.chunks.gather(rest, if reading { Some(&mut socket.stream) } else { None });
        let mut arrived = match gathered {
            Ok(arrived) => arrived,
            Err(error) => {
                log::debug!("connection {} failed: {error}", id.index);
                self.lose(id);
                return false;
            }
        };
        if arrived.read == Some(0) && !arrived.range.is_empty() && !socket.draining {
            log::debug!("connection {} ended in the midst of a packet", id.index);
        }
        self.shard.counters().bytes_received.add(arrived.read.unwrap_or(0) as u64);
        if arrived.read.is_some_and(|count| count > 0) && socket.pace.heard(self.now_ms, self.shard.counters()) {
            self.hurried.push(id);
        }
        let (draining, framed) = (socket.draining, socket.framed);
        if framed && !draining {
            self.unframe(id, &mut arrived);
        }
        let mut rest = arrived.range.clone();
        if draining {
            rest.start = rest.end;
        } else if !rest.is_empty() && arrived.read != Some(0) {
            rest.start += self.shard.receive(id, &arrived.chunk, rest.clone(), self.now_ms);
        }
        let rest = self.chunks.keep(arrived.chunk, rest);
        let mut more = arrived.more;
        match self.sockets.get(id) {
            Some(socket) => {
                socket.rest = rest.map(Box::new);
                // There is no further event once the end has come.
                more |= socket.ended && arrived.read.is_some();
            }
            None => self.chunks.forget(rest),
        }
        if framed {
            self.settle_websocket(id);
        }
        if arrived.read == Some(0) {
            self.lose(id);
        } else if more {
            self.list_readable(id);
        }
        // A connection that is to be moved must not be read again here.
        self.act();
        arrived.read.is_some_and(|count| count > 0)
    }

    fn list_readable(&mut self, id: ConnectionId) {
        if let Some(socket) = self.sockets.get(id)
            && !socket.listed
        {
            socket.listed = true;
            self.readable.push_back(id);
        }
    }

    /// Does what the engine wants done. Doing it may make the engine want more; that is seen to here too, one after the
    /// other, so that thousands of clients who are heard again do not stand on each other's shoulders on the stack.
    fn act(&mut self) {
        if std::mem::replace(&mut self.acting, true) {
            return;
        }
        while let Some(action) = self.shard.next_action() {
            match action {
                Action::Close(id) => self.begin_drain(id),
                Action::Drop(id) => match self.sockets.get(id) {
                    // The client may be waiting for a word of the transport.
                    Some(socket) if socket.framed => self.begin_drain(id),
                    _ => self.release(id),
                },
                Action::Move(id, shard) => self.hand_over(id, shard),
                Action::Resume(id) => {
                    self.consume(id, false);
                    self.list_readable(id);
                }
                Action::HearFirst(first, then) => {
                    for _ in 0..HEARINGS_MAX {
                        if !self.consume(first, true) {
                            break;
                        }
                    }
                    self.consume(then, false);
                }
            }
        }
        self.acting = false;
    }

    /// Writes the last bytes of a connection and waits for the peer to close it, since closing a socket with bytes unread
    /// would take back those that the peer has not read.
    fn begin_drain(&mut self, id: ConnectionId) {
        let Some(socket) = self.sockets.get(id) else { return };
        socket.draining = true;
        if socket.framed {
            self.say_close(id);
        }
        self.draining.push_back((self.now_ms + DRAIN_MS, id));
        self.flush(id);
    }

    fn close_drained(&mut self) {
        while let Some((at_ms, id)) = self.draining.front().copied()
            && at_ms <= self.now_ms
        {
            self.draining.pop_front();
            self.release(id);
        }
    }

    /// The peer is gone.
    fn lose(&mut self, id: ConnectionId) {
        if let Some(socket) = self.sockets.remove(id) {
            self.chunks.forget(socket.rest);
            self.shard.lost(id, self.now_ms);
        }
    }

    /// The engine is done with the connection.
    fn release(&mut self, id: ConnectionId) {
        if let Some(socket) = self.sockets.remove(id) {
            self.chunks.forget(socket.rest);
            self.shard.released(id);
        }
    }

    fn hand_over(&mut self, id: ConnectionId, shard: ShardIndex) {
        let Some(Removed { mut stream, rest, websocket }) = self.sockets.remove(id) else { return };
        let bytes = rest.as_ref().map(|rest| rest.bytes().to_vec()).unwrap_or_default();
        self.chunks.forget(rest);
        self.shard.released(id);
        if let Err(error) = self.poll.registry().deregister(&mut stream) {
            log::error!("a connection cannot be moved to another thread: {error}");
            return;
        }
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.shard == shard) {
            peer.moves.push_back(Mail::Adopt(Adopted { stream, bytes, websocket }));
        }
    }

    // Output.

    fn flush_all(&mut self) {
        for id in std::mem::take(&mut self.writable) {
            if let Some(socket) = self.sockets.get(id) {
                socket.write_armed = false;
                self.flush(id);
            }
        }
        for id in std::mem::take(&mut self.replying) {
            self.flush(id);
        }
        self.flush_dirty();
        for _ in 0..self.shard.late_share() {
            if let Some(id) = self.shard.next_late() {
                self.flush(id);
            }
        }
        self.shard.end_fan_outs(self.now_ms);
        // Writing may have let more messages go.
        self.flush_dirty();
    }

    fn flush_dirty(&mut self) {
        while let Some(id) = self.shard.next_dirty() {
            self.flush(id);
        }
    }

    /// Writes what is pending for a connection as far as its socket takes it.
    fn flush(&mut self, id: ConnectionId) {
        let Some(socket) = self.sockets.get(id) else { return };
        if socket.write_armed {
            self.shard.sent(id, 0, self.now_ms);
            return;
        }
        if socket.framed {
            self.flush_framed(id);
            return;
        }
        for _ in 0..WRITES_MAX {
            let Some(output) = self.shard.output(id) else { break };
            let result = match output.single() {
                Some(bytes) => socket.stream.write(bytes),
                None => {
                    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                    let filled = output.fill(&mut slices, usize::MAX);
                    socket.stream.write_vectored(&slices[..filled])
                }
            };
            match result {
                Ok(written) => {
                    if !self.shard.sent(id, written, self.now_ms) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.stop_writing(id, &error),
            }
        }
        let pending = self.shard.output(id).is_some_and(|output| output.pending_bytes() > 0);
        self.finish_writing(id, pending);
    }

    /// A write has failed, which may only mean that the socket is full.
    pub(crate) fn stop_writing(&mut self, id: ConnectionId, error: &io::Error) {
        let Some(socket) = self.sockets.get(id) else { return };
        if error.kind() != io::ErrorKind::WouldBlock {
            log::debug!("connection {} cannot be written to: {error}", id.index);
            self.lose(id);
            return;
        }
        self.shard.sent(id, 0, self.now_ms);
        socket.write_armed = true;
        let both = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().reregister(&mut socket.stream, token_of(id), both).is_err() {
            self.lose(id);
        }
    }

    /// The turn's writes to a connection are done, and its socket would take more.
    pub(crate) fn finish_writing(&mut self, id: ConnectionId, pending: bool) {
        let Some(socket) = self.sockets.get(id) else { return };
        socket.pace.answered();
        if pending {
            // Others are to have their turn.
            self.writable.push(id);
        } else if socket.draining {
            // The peer may have gone; then there is nothing left to say.
            let _ = socket.stream.shutdown(Shutdown::Write);
        }
    }

    /// Says goodbye to everybody and closes what is left.
    fn wind_down(mut self, mut events: Events) -> io::Result<()> {
        self.stopping = true;
        // What came with the word to stop does not come again.
        self.turn(&events);
        self.clerk = None;
        self.listeners.clear();
        self.accepting.clear();
        self.shard.shut_down(self.now_ms);
        self.act();
        self.flush_all();
        // Every socket is being drained now, which has an end.
        while !self.sockets.is_empty() {
            self.wait(&mut events)?;
            self.turn(&events);
        }
        Ok(())
    }
}

fn token_of(id: ConnectionId) -> Token {
    Token((id.generation as usize) << 32 | id.index as usize)
}

fn id_of(token: Token) -> ConnectionId {
    ConnectionId { index: token.0 as u32, generation: (token.0 >> 32) as u32 }
}
