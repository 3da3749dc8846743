//! The limit on transcoding in one turn. Transcoding payloads and answering contract requests is slow.
//!
//! The limit holds however many connections cause the work. When it is reached, a client whose message needs more is paused. Paused
//! clients resume one after the other, in order of arrival.

use tautwire_protocol::Publish;

use crate::connection::connections::PauseReason;
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::routing::discovery;
use crate::scheduling::io::Io;
use crate::shard::{Handled, Shard};

impl<M: Mode> Shard<M> {
    /// Whether a message to `topic` needs work for which this turn has no budget left.
    #[inline]
    pub(crate) fn is_transcoding_deferred(&mut self, topic: &str) -> bool {
        !self.state.work_budget.can_transcode() && self.has_transcoding_work(topic)
    }

    #[cold]
    fn has_transcoding_work(&mut self, topic: &str) -> bool {
        discovery::is_request(topic) || self.needs_transcoding(topic)
    }

    /// Pauses reading from the client until a turn has budget for its message.
    #[cold]
    pub(crate) fn pause_for_transcoding(&mut self, index: ConnectionIndex, publish: &Publish<'_>) -> Handled {
        self.uncount_publish(publish);
        self.state.counters().clients_paused_for_transcoding.add(1);
        self.state.connections[index].pause_reading(PauseReason::Transcoding);
        let id = self.state.id(index);
        self.state.paused_readers.pause_for_transcoding(id);
        Handled::Later
    }

    /// Resumes reading from paused clients, as long as there is budget.
    #[inline]
    pub(crate) fn resume_after_transcoding(&mut self, io: &mut impl Io<M>) {
        // One at a time: a client that needs more than its share goes to the end of the queue.
        while self.state.work_budget.can_transcode()
            && let Some(id) = self.state.paused_readers.next_for_transcoding()
        {
            self.state.resume_reading(id, PauseReason::Transcoding);
            self.perform_actions(io);
            self.state.log.end_large_frame();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    use crate::mode::Volatile;
    use tautwire_router::{Batch, Exchange, RetainedLimits, ShardIndex};

    use crate::{Action, Chunk, ConnectionId, NextTurn, Settings, Shared, turn};

    const NOW_MS: u64 = 1_700_000_000_000;
    const PUBLISHERS: usize = 100;
    /// Messages transcoded in one turn: the limit is 64 KiB, and each message counts 4,000 bytes plus 256.
    const TURN_MESSAGES: usize = 16;

    /// Input from clients that the shard has not read yet.
    #[derive(Default)]
    struct Network {
        input: VecDeque<(ConnectionId, Vec<u8>)>,
        answers: usize,
    }

    impl Network {
        /// Passes a client's input to the shard, as far as the shard accepts it.
        fn deliver_input(&mut self, shard: &mut Shard<Volatile>, id: ConnectionId) {
            let Some(at) = self.input.iter().position(|(from, _)| *from == id) else { return };
            let Some((_, bytes)) = self.input.remove(at) else { return };
            let taken = shard.receive(id, &Chunk::from(bytes.clone()), 0..bytes.len(), NOW_MS);
            if taken < bytes.len() {
                self.input.push_back((id, bytes[taken..].to_vec()));
            }
        }
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
            let readable = self.input.iter().map(|(id, _)| *id).find(|id| !shard.is_reading_paused(*id));
            readable.inspect(|id| self.deliver_input(shard, *id)).is_some()
        }

        fn accept(&mut self, _: &mut Shard<Volatile>) {}

        fn run_commands(&mut self, _: &mut Shard<Volatile>) {}

        fn perform(&mut self, shard: &mut Shard<Volatile>, action: Action) {
            if let Action::Resume(id) = action {
                self.deliver_input(shard, id);
            }
        }

        fn send(&mut self, _: ShardIndex, _: impl Iterator<Item = Batch>) {}

        fn write_ready(&mut self, _: &mut Shard<Volatile>) {}

        fn write(&mut self, shard: &mut Shard<Volatile>, id: ConnectionId) {
            let len = shard.output(id).map_or(0, |output| output.pending_bytes());
            shard.advance_output(id, len, NOW_MS);
            self.answers += 1;
        }

        fn end_turn(&mut self, _: &mut Shard<Volatile>) -> NextTurn {
            NextTurn::Until(None)
        }

        fn has_room_or_arm_waker(&mut self, _: ShardIndex) -> bool {
            false
        }
    }

    struct TestShard {
        shard: Shard<Volatile>,
        network: Network,
        publishers: Vec<ConnectionId>,
    }

    impl TestShard {
        /// A shard with a subscriber to `a/#` in JSON.
        fn new(settings: Settings) -> TestShard {
            let settings = Settings { sys_interval_s: 0, ..settings };
            let exchange = Exchange::new(1, RetainedLimits { messages: 1, bytes: 1_000 });
            let shard = Shard::new(ShardIndex(0), Shared::new(settings, exchange), Volatile, NOW_MS);
            let mut world = TestShard { shard, network: Network::default(), publishers: Vec::new() };
            let subscriber = world.client("sub");
            world.send_bytes(subscriber, &[&[0x82, 18, 0, 1, 0, 0, 12], &b"$as/json/a/#"[..], &[0]].concat());
            for number in 0..PUBLISHERS {
                let id = world.client(&format!("{number:03}"));
                world.publishers.push(id);
            }
            while world.turn() == NextTurn::Busy {}
            world
        }

        fn client(&mut self, name: &str) -> ConnectionId {
            let id = self.shard.accept(NOW_MS).expect("there is room");
            self.send_bytes(id, &[&[0x10, 16, 0, 4], &b"MQTT"[..], &[5, 2, 0, 0, 0, 0, 3], name.as_bytes()].concat());
            id
        }

        fn send_bytes(&mut self, id: ConnectionId, bytes: &[u8]) {
            self.network.input.push_back((id, bytes.to_vec()));
        }

        fn turn(&mut self) -> NextTurn {
            turn(&mut self.shard, &mut self.network, NOW_MS)
        }

        /// Runs a turn. Returns how many messages it accepted.
        fn taken(&mut self) -> usize {
            let before = self.shard.counters().publishes_received.get();
            let _ = self.turn();
            (self.shard.counters().publishes_received.get() - before) as usize
        }
    }

    fn publish(topic: &str, payload_bytes: usize) -> Vec<u8> {
        let length = 3 + topic.len() + payload_bytes;
        let mut packet = match length {
            0..128 => vec![0x30, length as u8],
            _ => vec![0x30, 0x80 | (length % 128) as u8, (length / 128) as u8],
        };
        let header_len = packet.len();
        packet.extend_from_slice(&[0, topic.len() as u8]);
        packet.extend_from_slice(topic.as_bytes());
        packet.push(0);
        packet.resize(header_len + length, b'x');
        packet
    }

    #[test]
    fn a_turn_transcodes_a_bounded_amount() {
        let mut world = TestShard::new(Settings::default());
        for id in world.publishers.clone() {
            world.send_bytes(id, &publish("a/b", 4_000));
        }
        let mut left = PUBLISHERS;
        while left > 0 {
            let taken = world.taken();
            assert_eq!(taken, left.min(TURN_MESSAGES));
            left -= taken;
            assert_eq!(world.shard.state.paused_readers.any_for_transcoding(), left > 0);
        }
        assert_eq!(world.shard.counters().publishes_received.get(), PUBLISHERS as u64);
        assert!(world.shard.counters().clients_paused_for_transcoding.get() >= (PUBLISHERS - TURN_MESSAGES) as u64);
    }

    #[test]
    fn publishers_without_transcoding_are_not_paused() {
        let mut world = TestShard::new(Settings::default());
        let bystander = world.publishers.pop().expect("there are some");
        for id in world.publishers.clone() {
            world.send_bytes(id, &publish("a/b", 4_000));
        }
        world.send_bytes(bystander, &publish("other", 4_000));
        assert_eq!(world.taken(), TURN_MESSAGES + 1);
        assert!(!world.shard.is_reading_paused(bystander));
    }

    #[test]
    fn a_busy_publisher_does_not_overtake_paused_ones() {
        let mut world = TestShard::new(Settings::default());
        let (many, few) = (world.publishers[0], world.publishers[1]);
        // Payloads so small that only the transcoding budget limits them.
        world.send_bytes(many, &publish("a/b", 16).repeat(1_000));
        world.send_bytes(few, &publish("a/b", 16));
        assert!(world.taken() < 250);
        let is_pending = |world: &TestShard, id| world.network.input.iter().any(|(from, _)| *from == id);
        while is_pending(&world, few) {
            assert!(world.taken() > 0);
        }
        assert!(is_pending(&world, many), "all messages of the busy publisher overtook the other");
    }

    #[test]
    fn contract_requests_are_budgeted_like_payloads() {
        let mut world = TestShard::new(Settings { contract_discovery: true, ..Settings::default() });
        world.network.answers = 0;
        for id in world.publishers.clone() {
            world.send_bytes(id, &publish("$SYS/contracts/request", 0));
        }
        let first = world.taken();
        assert!(first > 0 && first < PUBLISHERS / 2, "{first} requests answered in the first turn");
        assert_eq!(world.network.answers, first);
        while world.taken() > 0 {}
        assert_eq!(world.network.answers, PUBLISHERS);
    }
}
