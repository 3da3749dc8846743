//! Deferred fan-outs: messages with many receivers.
//!
//! The output of the receivers is written over several turns, and reading from the publisher is paused meanwhile. So a message to ten
//! thousand clients does not delay others, and a hundred kilobytes for each of them are never in memory at once.

use crate::connection::connections::PauseReason;
use crate::index::ConnectionId;
use crate::mode::Mode;
use crate::routing::publish_packets::SHARED_PAYLOAD_BYTES;
use crate::shard::Shard;
use crate::shard::ShardState;

/// With more receivers than this, the output caused by one source is deferred. This many receivers are written to in one turn.
const RECEIVERS_MAX: usize = 64;
/// Packets that are read from one source at a time.
const PACKETS_MAX: usize = 2 << 10;
/// Subscriptions that are visited for one source at a time.
const VISITS_MAX: u64 = 16 << 10;
/// Bytes of output that one source may cause at a time.
const SOURCE_MAX_BYTES: u64 = 4 << 20;
/// Connections that can be paused for deferred fan-outs. Each may hold the chunk with its messages; with more, all deferred output
/// is written in one turn.
const PAUSED_MAX: usize = 64;

/// The budget for the output that one source, a client or another shard, causes at a time.
pub(crate) struct FanOutBudget {
    /// Connections with fresh output at the start.
    dirty: usize,
    /// [`WorkBudget::deliveries`](crate::scheduling::work_budget::WorkBudget::deliveries) at the last check.
    deliveries: u64,
    bytes: u64,
    /// [`WorkBudget::visits`](crate::scheduling::work_budget::WorkBudget::visits) at the start.
    visits: u64,
    /// Packets so far.
    packets: usize,
    /// The source has used its share of the turn.
    is_long: bool,
}

impl FanOutBudget {
    #[inline]
    pub(crate) fn begin<M: Mode>(state: &ShardState<M>) -> FanOutBudget {
        FanOutBudget {
            dirty: state.connections.dirty_len(),
            deliveries: state.work_budget.deliveries(),
            bytes: 0,
            visits: state.work_budget.visits(),
            packets: 0,
            is_long: false,
        }
    }

    /// Counts the output of a message of `len` bytes. Returns whether the budget is spent. Larger payloads are not copied for each
    /// receiver.
    #[inline]
    pub(crate) fn is_spent_after<M: Mode>(&mut self, state: &ShardState<M>, len: usize) -> bool {
        self.bytes += (state.work_budget.deliveries() - self.deliveries) * len.min(SHARED_PAYLOAD_BYTES) as u64;
        self.deliveries = state.work_budget.deliveries();
        self.packets += 1;
        self.is_long = state.work_budget.visits() - self.visits > VISITS_MAX || self.packets >= PACKETS_MAX;
        self.bytes > SOURCE_MAX_BYTES || self.is_long
    }
}

impl<M: Mode> Shard<M> {
    /// Defers the output of the receivers if there is much of it. Returns whether the source must wait for its next turn.
    #[inline]
    pub(crate) fn finish_source(&mut self, budget: &FanOutBudget) -> bool {
        let is_large =
            budget.bytes > SOURCE_MAX_BYTES || self.state.connections.dirty_len() > budget.dirty + RECEIVERS_MAX;
        if is_large {
            self.defer(budget.dirty);
        }
        is_large || budget.is_long
    }

    #[cold]
    fn defer(&mut self, from: usize) {
        self.state.counters().fan_outs_deferred.add(1);
        self.state.connections.defer(from);
    }

    /// Pauses reading from the connection until all deferred output has been written. Its own output is not deferred.
    pub(crate) fn pause_for_fan_out(&mut self, id: ConnectionId) {
        let Some(index) = self.state.connections.find(id) else { return };
        self.state.connections[index].pause_reading(PauseReason::FanOut);
        self.state.connections.write_before_deferred(index);
        self.state.paused_readers.wait_for_fan_out(id);
    }

    /// How many deferred connections this turn writes to, with [`Shard::next_deferred`].
    pub(crate) fn deferred_per_turn(&self) -> usize {
        let all = self.state.connections.deferred_len();
        if self.state.paused_readers.len_for_fan_out() > PAUSED_MAX { all } else { all.min(RECEIVERS_MAX) }
    }

    /// The next connection with deferred output. Fresh output goes first: [`Shard::next_dirty`].
    #[inline]
    pub(crate) fn next_deferred(&mut self) -> Option<ConnectionId> {
        self.state.connections.next_deferred()
    }

    /// Whether there is deferred output, or a connection paused for it.
    #[inline]
    pub(crate) fn has_deferred_fan_outs(&self) -> bool {
        self.state.connections.deferred_len() > 0 || self.state.paused_readers.any_for_fan_out()
    }

    /// Resumes reading from the paused connections once all deferred output has been written.
    pub(crate) fn resume_after_fan_outs(&mut self) {
        if self.state.connections.deferred_len() > 0 {
            return;
        }
        for id in self.state.paused_readers.take_for_fan_out() {
            self.state.resume_reading(id, PauseReason::FanOut);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    use crate::mode::Volatile;
    use tautwire_router::{Batch, Exchange, RetainedLimits, ShardIndex};

    use crate::{Action, Chunk, Io, NextTurn, Settings, Shared, turn};

    const NOW_MS: u64 = 1_700_000_000_000;
    const SUBSCRIBERS: usize = 100;

    struct TestShard {
        shard: Shard<Volatile>,
        network: Network,
        bystander: ConnectionId,
        publisher: ConnectionId,
    }

    /// The input of clients, and the output of the shard.
    #[derive(Default)]
    struct Network {
        input: VecDeque<(ConnectionId, Vec<u8>)>,
        /// Bytes of the first input that have been read.
        taken: usize,
        written: Vec<(ConnectionId, usize)>,
        actions: Vec<Action>,
    }

    impl Io<Volatile> for Network {
        fn room(&mut self, _: ShardIndex) -> usize {
            0
        }

        fn adopt(&mut self, _: &mut Shard<Volatile>) -> bool {
            false
        }

        fn next_batch(&mut self, _: ShardIndex) -> Option<Batch> {
            None
        }

        fn batches_taken(&mut self, _: ShardIndex) {}

        fn read(&mut self, shard: &mut Shard<Volatile>) -> bool {
            let Some((id, bytes)) = self.input.front().filter(|(id, _)| !shard.is_reading_paused(*id)) else {
                return false;
            };
            let chunk = Chunk::from(bytes.clone());
            self.taken += shard.receive(*id, &chunk, self.taken..bytes.len(), NOW_MS);
            if self.taken == bytes.len() {
                self.input.pop_front();
                self.taken = 0;
            }
            true
        }

        fn accept(&mut self, _: &mut Shard<Volatile>) {}

        fn run_commands(&mut self, _: &mut Shard<Volatile>) {}

        fn perform(&mut self, _: &mut Shard<Volatile>, action: Action) {
            self.actions.push(action);
        }

        fn send(&mut self, _: ShardIndex, _: impl Iterator<Item = Batch>) {}

        fn write_ready(&mut self, _: &mut Shard<Volatile>) {}

        fn write(&mut self, shard: &mut Shard<Volatile>, id: ConnectionId) {
            let len = shard.output(id).map_or(0, |output| output.pending_bytes());
            shard.advance_output(id, len, NOW_MS);
            self.written.push((id, len));
        }

        fn end_turn(&mut self, _: &mut Shard<Volatile>) -> NextTurn {
            NextTurn::Until(None)
        }

        fn has_room_or_arm_waker(&mut self, _: ShardIndex) -> bool {
            false
        }
    }

    impl TestShard {
        fn new() -> TestShard {
            let limits = RetainedLimits { messages: 1, bytes: 1_000 };
            let settings = Settings { sys_interval_s: 0, ..Settings::default() };
            let shared = Shared::new(settings, Exchange::new(1, limits));
            let shard = Shard::new(ShardIndex(0), shared, Volatile, NOW_MS);
            let none = ConnectionId { index: 0, generation: 0 };
            let mut world = TestShard { shard, network: Network::default(), bystander: none, publisher: none };
            for number in 0..SUBSCRIBERS {
                let id = world.client(&format!("{number:03}"));
                world.send_bytes(id, &[0x82, 6, 0, 1, 0, 1, b't', 0]);
            }
            world.bystander = world.client("one");
            world.send_bytes(world.bystander, &[0x82, 6, 0, 1, 0, 1, b'b', 0]);
            world.publisher = world.client("two");
            while world.turn() == NextTurn::Busy {}
            world.network.written.clear();
            world
        }

        fn client(&mut self, name: &str) -> ConnectionId {
            let id = self.shard.accept(NOW_MS).expect("there is room");
            let connect = [&[0x10, 15, 0, 4], &b"MQTT"[..], &[4, 2, 0, 0, 0, 3], name.as_bytes()].concat();
            self.send_bytes(id, &connect);
            id
        }

        fn send_bytes(&mut self, id: ConnectionId, bytes: &[u8]) {
            self.network.input.push_back((id, bytes.to_vec()));
        }

        fn turn(&mut self) -> NextTurn {
            turn(&mut self.shard, &mut self.network, NOW_MS)
        }

        /// Runs a turn. Returns the bytes that it wrote to each connection, in order.
        fn written(&mut self) -> Vec<(ConnectionId, usize)> {
            let _ = self.turn();
            std::mem::take(&mut self.network.written)
        }
    }

    #[test]
    fn other_output_precedes_deferred_output_and_the_publisher_waits() {
        let mut world = TestShard::new();
        let other = world.client("six");
        world.send_bytes(other, &[0x30, 4, 0, 1, b'b', b'x']);
        world.send_bytes(world.publisher, &[0x32, 6, 0, 1, b't', 0, 1, b'x']);
        let written = world.written();
        let (fresh, late) = written.split_at(3);
        for id in [world.bystander, world.publisher, other] {
            assert!(fresh.iter().any(|(written, _)| *written == id), "{id:?} is not in {fresh:?}");
        }
        assert_eq!(late.len(), RECEIVERS_MAX);
        assert!(late.iter().all(|(_, len)| *len == 6), "{late:?}");
        assert!(world.shard.is_reading_paused(world.publisher), "output is still deferred");
        assert_eq!(world.network.actions, []);
        assert_eq!(world.turn(), NextTurn::Until(world.shard.next_due_ms()), "no output is deferred");
        assert_eq!(world.network.written.len(), SUBSCRIBERS - RECEIVERS_MAX);
        assert!(!world.shard.is_reading_paused(world.publisher));
        assert_eq!(world.network.actions, [Action::Resume(world.publisher)]);
    }

    #[test]
    fn a_shard_is_busy_while_output_is_deferred() {
        let mut world = TestShard::new();
        world.send_bytes(world.publisher, &[0x30, 4, 0, 1, b't', b'x']);
        assert_eq!(world.turn(), NextTurn::Busy);
    }

    #[test]
    fn input_is_limited_by_memory() {
        let mut world = TestShard::new();
        let mut message = vec![0x30, 0x84, 0x1f, 0, 1, b't'];
        message.resize(3 + 3972, b'x');
        let packets = message.repeat(30);
        world.send_bytes(world.publisher, &packets);
        let (mut taken, mut written) = (0, 0);
        let mut rest = NextTurn::Busy;
        while rest == NextTurn::Busy {
            rest = world.turn();
            let so_far = if world.network.input.is_empty() { packets.len() } else { world.network.taken };
            let count = so_far - taken;
            assert!(count.is_multiple_of(message.len()), "{count} of {}", packets.len() - taken);
            assert!(count == 0 || (count - message.len()) * SUBSCRIBERS <= SOURCE_MAX_BYTES as usize, "{count}");
            taken = so_far;
            // Reading from a resumed connection continues in the next turn.
            if !world.network.actions.is_empty() && !world.network.input.is_empty() {
                world.network.actions.clear();
                rest = NextTurn::Busy;
            }
            written += world.network.written.drain(..).map(|(_, len)| len).sum::<usize>();
        }
        assert_eq!(written, packets.len() * SUBSCRIBERS);
        assert_eq!(world.shard.counters().fan_outs_deferred.get(), 3, "4 MiB are 11 messages for 100 receivers");
    }

    #[test]
    fn many_waiting_publishers_are_written_at_once() {
        for (waiting, at_once) in [(PAUSED_MAX - 1, RECEIVERS_MAX), (PAUSED_MAX, SUBSCRIBERS)] {
            let mut world = TestShard::new();
            let others: Vec<_> = (0..waiting).map(|number| world.client(&format!("{number:02}x"))).collect();
            let _ = world.written();
            for other in others {
                world.shard.pause_for_fan_out(other);
            }
            world.send_bytes(world.publisher, &[0x30, 4, 0, 1, b't', b'x']);
            assert_eq!(world.written().len(), at_once);
        }
    }
}
