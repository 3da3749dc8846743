//! One turn of a simulated thread.
//!
//! It does what a reactor does, but choices decide how much is read and written, what is delayed, and what other threads do meanwhile.

use std::collections::VecDeque;
use std::io::IoSlice;

use tautwire_engine::Mode;
use tautwire_engine::{Action, Chunk, ClusterRequest, ConnectionId, Io, NextTurn, Shard, turn};
use tautwire_router::{Batch, ShardIndex};

use super::choices::Choices;
use super::network::Network;
use super::socket::SocketId;

/// How long a client has to read the last bytes of a connection that the broker closes.
const DRAIN_MS: u64 = 2_000;

pub(super) struct SimulatedIo<'a, M: Mode, C> {
    network: &'a mut Network,
    /// The shards before and after this one, which can run turns meanwhile; empty during such a turn.
    others: [&'a mut [Shard<M>]; 2],
    /// The shard whose turn it is.
    current: usize,
    choices: &'a mut C,
    /// The number of sockets that were listed when the turn began and that are not read yet.
    reads_left: usize,
}

/// Runs a turn of shard `current`. Returns false if it sleeps.
pub(super) fn run_turn<M: Mode, C: Choices>(
    network: &mut Network,
    shards: &mut [Shard<M>],
    current: usize,
    choices: &mut C,
) -> bool {
    if network.is_asleep(current) {
        return false;
    }
    let (before, rest) = shards.split_at_mut(current);
    let Some((shard, after)) = rest.split_first_mut() else { return false };
    SimulatedIo::new(network, [before, after], current, choices).run(shard);
    true
}

impl<'a, M: Mode, C: Choices> SimulatedIo<'a, M, C> {
    fn new(
        network: &'a mut Network,
        others: [&'a mut [Shard<M>]; 2],
        current: usize,
        choices: &'a mut C,
    ) -> SimulatedIo<'a, M, C> {
        let reads_left = network.threads[current].readable.len();
        SimulatedIo { network, others, current, choices, reads_left }
    }

    fn run(mut self, shard: &mut Shard<M>) {
        let now_ms = self.network.now_ms;
        if let NextTurn::Until(at_ms) = turn(shard, &mut self, now_ms) {
            self.network.sleep(self.current, at_ms);
        }
    }

    /// Lets another shard run a whole turn during this one.
    fn run_other_turn(&mut self, other: usize) {
        let [before, after] = &mut self.others;
        let at = other.checked_sub(self.current + 1);
        let shard = at.map_or_else(|| before.get_mut(other), |at| after.get_mut(at));
        if let Some(shard) = shard
            && self.network.interleaves
            && !self.network.is_asleep(other)
            && self.choices.chance(10)
        {
            SimulatedIo::new(self.network, [&mut [], &mut []], other, self.choices).run(shard);
        }
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<M, C> {
        let (current, count) = (self.current, self.network.threads.len());
        (0..count).filter(move |other| *other != current)
    }

    /// Lets another shard that is awake receive its batches during this turn.
    fn receive_on_other(&mut self, to: usize) {
        if self.network.is_asleep(to) || !self.choices.chance(40) {
            return;
        }
        let channel = &mut self.network.channels[self.current][to];
        let count = self.choices.below(channel.batches.items.len() + 1);
        channel.received.extend(channel.batches.items.drain(..count));
        self.network.notify_room(self.current, to);
    }

    /// Lets the store answer a shard during this turn. The current shard needs no wake-up.
    fn run_store(&mut self) {
        let Some(store) = self.network.spill_store.as_ref().filter(|_| self.choices.chance(20)) else { return };
        if let Some(shard) = store.serve(self.choices) {
            self.network.progress += 1;
            if shard != self.current {
                self.network.wake(shard);
            }
        }
    }

    fn accept_socket(&mut self, shard: &mut Shard<M>, id: SocketId) {
        self.network.progress += 1;
        match shard.accept(self.network.now_ms) {
            Some(connection) => {
                self.network.sockets[id.0].place = Some((self.current, connection));
                self.network.threads[self.current].owners.insert(connection, id);
                self.network.list_readable(self.current, id);
            }
            None => self.network.sockets[id.0].closed_at_ms = Some(self.network.now_ms),
        }
    }

    /// The connection of a socket, if it is on this shard.
    fn connection(&self, id: SocketId) -> Option<ConnectionId> {
        self.network.sockets[id.0].place.filter(|(shard, _)| *shard == self.current).map(|(_, connection)| connection)
    }

    fn socket(&self, connection: ConnectionId) -> Option<SocketId> {
        self.network.threads[self.current].owners.get(&connection).copied()
    }

    fn read_from(&mut self, shard: &mut Shard<M>, id: SocketId) {
        let Some(connection) = self.connection(id) else { return };
        let socket = &mut self.network.sockets[id.0];
        let is_draining = socket.draining_until_ms.is_some();
        if is_draining {
            socket.inbound.clear();
        } else if shard.is_reading_paused(connection) && !shard.should_read_ahead(connection, &socket.rest) {
            // Resuming lists it again.
            return;
        }
        let available = socket.inbound.len();
        if available > 0 {
            // Mostly all bytes, sometimes none, otherwise a random part.
            let count = match self.choices.below(8) {
                0 => 0,
                1 => self.choices.below(available.min(8) + 1),
                2 => self.choices.below(available + 1),
                _ => available,
            };
            let headroom = self.choices.below(16);
            self.consume(shard, id, count, headroom);
        }
        if self.connection(id).is_none() {
            return;
        }
        let socket = &self.network.sockets[id.0];
        if !socket.inbound.is_empty() {
            self.network.list_readable(self.current, id);
        } else if socket.broken
            || (socket.finished
                && (is_draining
                    || !shard.is_reading_paused(connection)
                    || shard.should_read_ahead(connection, &socket.rest)))
        {
            self.lose(shard, id);
        }
    }

    /// Passes the unconsumed bytes of a connection and `count` more to the engine.
    fn consume(&mut self, shard: &mut Shard<M>, id: SocketId, count: usize, headroom: usize) {
        let Some(connection) = self.connection(id) else { return };
        let socket = &mut self.network.sockets[id.0];
        let had_rest = !socket.rest.is_empty();
        let mut bytes = vec![0xA5; headroom];
        bytes.append(&mut socket.rest);
        bytes.extend(socket.inbound.drain(..count));
        self.network.progress += count as u64;
        if socket.draining_until_ms.is_some() {
            return;
        }
        let range = headroom..bytes.len();
        let chunk = Chunk::from(bytes);
        let consumed = shard.receive(connection, &chunk, range.clone(), self.network.now_ms);
        assert!(consumed <= range.len(), "the engine consumed {consumed} of {} bytes", range.len());
        self.network.progress += consumed as u64;
        let mut rest = chunk.bytes()[range.start + consumed..].to_vec();
        if (had_rest || !rest.is_empty()) && !shard.can_buffer_input(connection, &rest, rest.len()) {
            rest.clear();
        }
        self.network.sockets[id.0].rest = rest;
        self.network.threads[self.current].chunks.push(chunk);
    }

    fn lose(&mut self, shard: &mut Shard<M>, id: SocketId) {
        if let Some(connection) = self.remove(id) {
            shard.connection_lost(connection, self.network.now_ms);
        }
    }

    fn release(&mut self, shard: &mut Shard<M>, id: SocketId) {
        if let Some(connection) = self.remove(id) {
            shard.connection_closed(connection);
        }
    }

    /// Closes the socket.
    fn remove(&mut self, id: SocketId) -> Option<ConnectionId> {
        let connection = self.detach(id)?;
        self.network.sockets[id.0].closed_at_ms = Some(self.network.now_ms);
        Some(connection)
    }

    fn detach(&mut self, id: SocketId) -> Option<ConnectionId> {
        let connection = self.connection(id)?;
        self.network.progress += 1;
        let socket = &mut self.network.sockets[id.0];
        (socket.place, socket.listed) = (None, false);
        self.network.threads[self.current].owners.remove(&connection);
        Some(connection)
    }

    /// Sends moving connections while the channel has free slots.
    fn send_moves(&mut self, to: usize) {
        let channel = &mut self.network.channels[self.current][to];
        let mut wakes = false;
        while channel.adoptions.room() > 0
            && let Some(id) = channel.moves.pop_front()
        {
            channel.adoptions.push(id);
            self.network.progress += 1;
            wakes = true;
        }
        if wakes {
            self.network.wake(to);
        }
    }
}

impl<M: Mode, C: Choices> Io<M> for SimulatedIo<'_, M, C> {
    fn room(&mut self, to: ShardIndex) -> usize {
        let to = usize::from(to.0);
        self.receive_on_other(to);
        self.network.channels[self.current][to].batches.room()
    }

    fn adopt(&mut self, shard: &mut Shard<M>) -> bool {
        for from in self.others() {
            let adoptions = &mut self.network.channels[from][self.current].adoptions;
            if adoptions.items.is_empty() || self.choices.chance(20) {
                continue;
            }
            let id = adoptions.items.pop_front();
            self.network.notify_room(from, self.current);
            if let Some(id) = id {
                self.accept_socket(shard, id);
                self.consume(shard, id, 0, 0);
                return true;
            }
        }
        false
    }

    fn next_batch(&mut self, from: ShardIndex) -> Option<Batch> {
        let channel = &mut self.network.channels[usize::from(from.0)][self.current];
        let has_batch = !channel.received.is_empty() || !channel.batches.items.is_empty();
        if !has_batch || self.choices.chance(20) {
            return None;
        }
        self.network.progress += 1;
        channel.received.pop_front().or_else(|| channel.batches.items.pop_front())
    }

    fn batches_taken(&mut self, from: ShardIndex) {
        self.network.notify_room(usize::from(from.0), self.current);
    }

    fn read(&mut self, shard: &mut Shard<M>) -> bool {
        if self.reads_left == 0 {
            return false;
        }
        self.reads_left -= 1;
        let Some(id) = self.network.threads[self.current].readable.pop_front() else { return false };
        if self.connection(id).is_some() {
            self.network.sockets[id.0].listed = false;
            self.read_from(shard, id);
        }
        true
    }

    fn accept(&mut self, shard: &mut Shard<M>) {
        while let Some(id) = self.network.threads[self.current].arriving.pop_front() {
            self.accept_socket(shard, id);
        }
    }

    fn run_commands(&mut self, shard: &mut Shard<M>) {
        while let Some(event) = self.network.threads[self.current].events.pop_front() {
            self.network.progress += 1;
            shard.handle_event(event, self.network.now_ms);
        }
    }

    fn holds_lease(&self) -> bool {
        self.network.holds_lease
    }

    fn send_requests(&mut self, requests: &mut VecDeque<ClusterRequest>) {
        self.network.progress += requests.len() as u64;
        self.network.threads[self.current].requests.append(requests);
    }

    fn perform(&mut self, shard: &mut Shard<M>, action: Action) {
        self.network.progress += 1;
        match action {
            Action::Close(connection) => {
                if let Some(id) = self.socket(connection) {
                    self.network.sockets[id.0].draining_until_ms = Some(self.network.now_ms + DRAIN_MS);
                    self.write(shard, connection);
                }
            }
            Action::Drop(connection) => {
                if let Some(id) = self.socket(connection) {
                    self.release(shard, id);
                }
            }
            Action::Move(connection, to) => {
                if let Some(id) = self.socket(connection) {
                    self.detach(id);
                    shard.connection_closed(connection);
                    self.network.channels[self.current][usize::from(to.0)].moves.push_back(id);
                    self.send_moves(usize::from(to.0));
                }
            }
            Action::Resume(connection) => {
                if let Some(id) = self.socket(connection) {
                    self.consume(shard, id, 0, 3);
                    self.network.list_readable(self.current, id);
                }
            }
            // The simulation has no authentication.
            Action::Authenticate(_) => {}
            Action::ReadFirst(first, then) => {
                if let Some(id) = self.socket(first)
                    && !shard.is_reading_paused(first)
                {
                    let all = self.network.sockets[id.0].inbound.len();
                    self.consume(shard, id, all, 3);
                }
                if let Some(id) = self.socket(then) {
                    self.consume(shard, id, 0, 3);
                }
            }
        }
    }

    fn send(&mut self, to: ShardIndex, batches: impl Iterator<Item = Batch>) {
        let to = usize::from(to.0);
        for batch in batches {
            self.network.progress += 1;
            self.network.channels[self.current][to].batches.push(batch);
        }
        self.network.wake(to);
        self.run_other_turn(to);
    }

    fn write_ready(&mut self, shard: &mut Shard<M>) {
        self.run_store();
        for id in std::mem::take(&mut self.network.threads[self.current].writable) {
            if self.choices.chance(10) {
                self.network.threads[self.current].writable.push(id);
                continue;
            }
            if let Some(connection) = self.connection(id) {
                self.network.sockets[id.0].write_waits = false;
                self.write(shard, connection);
            }
        }
    }

    fn write(&mut self, shard: &mut Shard<M>, connection: ConnectionId) {
        let Some(id) = self.socket(connection) else { return };
        let all_before = self.network.sockets[id.0].outbound.len();
        let socket = &mut self.network.sockets[id.0];
        while !socket.write_waits {
            let Some(output) = shard.output(connection) else { break };
            let pending = output.pending_bytes();
            let mut slices = [IoSlice::new(&[]); 3];
            let filled = output.fill(&mut slices, usize::MAX);
            let room = socket.room();
            let before = socket.outbound.len();
            let mut written = 0;
            for slice in &slices[..filled] {
                let part = &slice[..slice.len().min(room - written)];
                written += part.len();
                if !socket.broken && !socket.is_abandoned {
                    socket.outbound.extend_from_slice(part);
                }
            }
            if let Some(single) = output.single() {
                assert_eq!(single.len(), pending, "a single slice is not the whole output");
                assert!(
                    socket.broken || socket.is_abandoned || single.starts_with(&socket.outbound[before..]),
                    "the single slice differs from the slices"
                );
            }
            assert!(
                written <= pending && (written > 0 || pending == 0 || room == 0),
                "{written} of {pending} bytes were written"
            );
            self.network.progress += written as u64;
            let more = shard.advance_output(connection, written, self.network.now_ms);
            if !more {
                break;
            }
            socket.write_waits = socket.room() == 0;
        }
        let written = std::mem::take(&mut socket.outbound);
        self.network.record_sent(2 * id.0 as u64 + 1, &written[all_before..]);
        let socket = &mut self.network.sockets[id.0];
        socket.outbound = written;
        if socket.write_waits {
            shard.advance_output(connection, 0, self.network.now_ms);
        } else if socket.draining_until_ms.is_some() {
            self.release(shard, id);
        }
    }

    fn end_turn(&mut self, shard: &mut Shard<M>) -> NextTurn {
        let mut drained: Vec<(u64, SocketId)> = self.network.threads[self.current]
            .owners
            .values()
            .filter_map(|id| Some((self.network.sockets[id.0].draining_until_ms?, *id)))
            .collect();
        drained.sort_unstable();
        let now_ms = self.network.now_ms;
        for (_, id) in drained.iter().filter(|(until_ms, _)| *until_ms <= now_ms) {
            self.release(shard, *id);
        }
        let mut is_busy = false;
        for other in self.others() {
            self.send_moves(other);
            let outgoing = &mut self.network.channels[self.current][other];
            is_busy |= !outgoing.moves.is_empty() && outgoing.adoptions.has_room_or_waits();
            let incoming = &self.network.channels[other][self.current];
            let has_batches = !incoming.received.is_empty() || !incoming.batches.items.is_empty();
            is_busy |= has_batches && shard.accepts_batches();
            is_busy |= !incoming.adoptions.items.is_empty();
        }
        let thread = &mut self.network.threads[self.current];
        thread.chunks.retain_mut(|chunk| chunk.get_mut().is_none());
        if is_busy || !thread.readable.is_empty() || !thread.writable.is_empty() || !thread.arriving.is_empty() {
            return NextTurn::Busy;
        }
        NextTurn::Until(drained.iter().map(|(until_ms, _)| *until_ms).filter(|until_ms| *until_ms > now_ms).min())
    }

    fn has_room_or_arm_waker(&mut self, to: ShardIndex) -> bool {
        self.network.channels[self.current][usize::from(to.0)].batches.has_room_or_waits()
    }
}
