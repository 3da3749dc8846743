//! Messages to many at once. Their receivers stand in line to be written to, and whoever sent them is not read from meanwhile:
//! a message to ten thousand clients holds nobody else up, and a hundred kilobytes for each of them are never held together.

use tautwire_session::Journal;

use crate::connection::ConnectionId;
use crate::frames::SHARED_PAYLOAD_BYTES;
use crate::hub::Hub;
use crate::shard::Shard;

/// With more receivers than this, what one source gives to write at a time stands in line; so many are written to in one turn.
const RECEIVERS_MAX: usize = 64;
/// Memory that what one source gives at a time may take.
const BURST_MAX_BYTES: u64 = 4 << 20;
/// Connections that are not read from for this. Each may keep the chunk that its messages lie in; with more, the whole line is
/// written to in one turn.
const BRAKED_MAX: usize = 64;

/// What one source, a client or another shard, gives to write at a time.
pub(crate) struct Burst {
    /// Connections with fresh output when it began.
    dirty: usize,
    /// [`Hub::given`] when it was last looked at.
    given: u64,
    bytes: u64,
}

impl Burst {
    #[inline]
    pub(crate) fn begin<J>(hub: &Hub<J>) -> Burst {
        Burst { dirty: hub.dirty.len(), given: hub.given, bytes: 0 }
    }

    /// Counts what a message of `len` bytes has led to; says whether that is enough for now. Larger payloads are not copied for
    /// each receiver.
    #[inline]
    pub(crate) fn is_enough_with<J>(&mut self, hub: &Hub<J>, len: usize) -> bool {
        self.bytes += (hub.given - self.given) * len.min(SHARED_PAYLOAD_BYTES) as u64;
        self.given = hub.given;
        self.bytes > BURST_MAX_BYTES
    }
}

impl<J: Journal> Shard<J> {
    /// Has the receivers stand in line if there are many, or there is much for them; says whether.
    #[inline]
    pub(crate) fn end_burst(&mut self, burst: &Burst) -> bool {
        let is_large = burst.bytes > BURST_MAX_BYTES || self.hub.dirty.len() > burst.dirty + RECEIVERS_MAX;
        if is_large {
            self.put_off(burst.dirty);
        }
        is_large
    }

    #[cold]
    fn put_off(&mut self, from: usize) {
        self.hub.counters().fan_outs_put_off.add(1);
        let hub = &mut self.hub;
        hub.late.extend(hub.dirty.drain(from..));
    }

    /// Does not read from the connection until those who stand in line have been written to. Its own answers go at once.
    pub(crate) fn brake(&mut self, id: ConnectionId) {
        let Some(connection) = self.hub.connection(id) else { return };
        connection.braked = true;
        if connection.dirty {
            self.hub.dirty.push(id.index);
        }
        self.hub.braked.push(id);
    }

    /// How many of those who stand in line are to be written to in this turn, with [`Shard::next_late`].
    pub fn late_share(&self) -> usize {
        let all = self.hub.late.len();
        if self.hub.braked.len() > BRAKED_MAX { all } else { all.min(RECEIVERS_MAX) }
    }

    /// The first in line of the connections whose output has grown. Output of others goes first: [`Shard::next_dirty`].
    #[inline]
    pub fn next_late(&mut self) -> Option<ConnectionId> {
        while let Some(index) = self.hub.late.pop_front() {
            if self.hub.take_dirty(index) {
                return Some(self.hub.id(index));
            }
        }
        None
    }

    /// Whether somebody stands in line, or waits for those who do. To be looked at before sleeping.
    #[inline]
    pub fn has_fan_outs(&self) -> bool {
        !self.hub.late.is_empty() || !self.hub.braked.is_empty() || self.hub.batches_wait
    }

    /// Whether batches are to be brought: not while the receivers of an earlier one stand in line.
    pub fn takes_batches(&self) -> bool {
        !self.hub.batches_wait
    }

    /// Goes on with what has waited for those in line, if they have all been written to. To be called once a turn, after that.
    #[inline]
    pub fn end_fan_outs(&mut self, now_ms: u64) {
        if self.has_fan_outs() && self.hub.late.is_empty() {
            self.go_on(now_ms);
        }
    }

    #[cold]
    fn go_on(&mut self, now_ms: u64) {
        self.hub.batches_wait = false;
        self.hub.now_ms = now_ms;
        for id in std::mem::take(&mut self.hub.braked) {
            self.hub.hear_again(id, |connection| connection.braked = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_router::{Exchange, RetainedLimits, ShardIndex};
    use tautwire_session::Volatile;

    use crate::{Action, Chunk, Settings, Shared};

    const NOW_MS: u64 = 1_700_000_000_000;
    const AUDIENCE: usize = 100;

    struct World {
        shard: Shard<Volatile>,
        bystander: ConnectionId,
        publisher: ConnectionId,
    }

    impl World {
        fn new() -> World {
            let limits = RetainedLimits { messages: 1, bytes: 1_000 };
            let settings = Settings { sys_interval_s: 0, ..Settings::default() };
            let shared = Shared::new(settings, Exchange::new(1, limits));
            let mut shard = Shard::new(ShardIndex(0), shared, Volatile, NOW_MS);
            for number in 0..AUDIENCE {
                let id = client(&mut shard, &format!("{number:03}"));
                say(&mut shard, id, &[0x82, 6, 0, 1, 0, 1, b't', 0]);
            }
            let bystander = client(&mut shard, "one");
            say(&mut shard, bystander, &[0x82, 6, 0, 1, 0, 1, b'b', 0]);
            let publisher = client(&mut shard, "two");
            let mut world = World { shard, bystander, publisher };
            world.write_fresh();
            world
        }

        fn write(&mut self, id: ConnectionId) -> usize {
            let len = self.shard.output(id).map_or(0, |output| output.pending_bytes());
            self.shard.sent(id, len, NOW_MS);
            len
        }

        /// Writes to those who do not stand in line; gives who they are.
        fn write_fresh(&mut self) -> Vec<ConnectionId> {
            let mut fresh = Vec::new();
            while let Some(id) = self.shard.next_dirty() {
                self.write(id);
                fresh.push(id);
            }
            fresh
        }

        /// Writes to those whose turn it is; gives how many they are, and the bytes for them.
        fn write_late(&mut self) -> (usize, usize) {
            let mut sum = (0, 0);
            for _ in 0..self.shard.late_share() {
                if let Some(id) = self.shard.next_late() {
                    sum = (sum.0 + 1, sum.1 + self.write(id));
                }
            }
            self.shard.end_fan_outs(NOW_MS);
            sum
        }
    }

    fn client(shard: &mut Shard<Volatile>, name: &str) -> ConnectionId {
        let id = shard.accept(NOW_MS).expect("there is room");
        let connect = [&[0x10, 15, 0, 4], &b"MQTT"[..], &[4, 2, 0, 0, 0, 3], name.as_bytes()].concat();
        say(shard, id, &connect);
        id
    }

    fn say(shard: &mut Shard<Volatile>, id: ConnectionId, bytes: &[u8]) {
        assert_eq!(receive(shard, id, bytes), bytes.len());
    }

    fn receive(shard: &mut Shard<Volatile>, id: ConnectionId, bytes: &[u8]) -> usize {
        shard.receive(id, &Chunk::from(bytes.to_vec()), 0..bytes.len(), NOW_MS)
    }

    #[test]
    fn others_go_before_those_in_line_and_the_publisher_waits_for_them() {
        let mut world = World::new();
        say(&mut world.shard, world.publisher, &[0x32, 6, 0, 1, b't', 0, 1, b'x']);
        assert!(world.shard.is_held(world.publisher) && world.shard.has_fan_outs());
        let other = client(&mut world.shard, "six");
        say(&mut world.shard, other, &[0x30, 4, 0, 1, b'b', b'x']);
        let fresh = world.write_fresh();
        assert!(fresh.contains(&world.bystander) && fresh.contains(&world.publisher), "{fresh:?}");
        assert_eq!(world.write_late(), (RECEIVERS_MAX, RECEIVERS_MAX * 6));
        assert!(world.shard.is_held(world.publisher), "some are left");
        let left = AUDIENCE - RECEIVERS_MAX;
        assert_eq!(world.write_late(), (left, left * 6));
        assert!(!world.shard.is_held(world.publisher) && !world.shard.has_fan_outs());
        assert_eq!(world.shard.next_action(), Some(Action::Resume(world.publisher)));
    }

    #[test]
    fn no_more_is_taken_than_may_be_held() {
        let mut world = World::new();
        let mut message = vec![0x30, 0x84, 0x1f, 0, 1, b't'];
        message.resize(3 + 3972, b'x');
        let packets = message.repeat(30);
        let (mut taken, mut written) = (0, 0);
        while taken < packets.len() {
            let count = receive(&mut world.shard, world.publisher, &packets[taken..]);
            assert!(count > 0 && count.is_multiple_of(message.len()), "{count} of {}", packets.len() - taken);
            assert!((count - message.len()) * AUDIENCE <= BURST_MAX_BYTES as usize, "{count}");
            taken += count;
            while world.shard.has_fan_outs() {
                written += world.write_late().1;
            }
        }
        assert_eq!(written, packets.len() * AUDIENCE);
        assert_eq!(world.shard.counters().fan_outs_put_off.get(), 3, "4 MiB are 11 messages for 100 receivers");
    }

    #[test]
    fn where_many_wait_all_is_written_at_once() {
        let mut world = World::new();
        say(&mut world.shard, world.publisher, &[0x30, 4, 0, 1, b't', b'x']);
        for number in 0..BRAKED_MAX {
            assert_eq!(world.shard.late_share(), RECEIVERS_MAX);
            let other = client(&mut world.shard, &format!("{number:02}x"));
            world.shard.brake(other);
        }
        assert_eq!(world.shard.late_share(), AUDIENCE);
    }
}
