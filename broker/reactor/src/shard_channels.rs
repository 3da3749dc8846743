//! The channels between threads: for each ordered pair, a bounded ring of batches and one of migrating connections. A connection never
//! waits behind batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};
use tautwire_router::{Batch, ShardIndex};

use crate::accepted_connection::AcceptedConnection;
use crate::waker::Waker;

/// The capacity of the ring of connections. Further ones wait at the sending thread.
const MIGRATIONS_MAX: usize = 16;

/// A connection that migrates to the thread that owns its client.
#[derive(Debug)]
pub(crate) struct MigratingConnection {
    pub(crate) accepted: AcceptedConnection,
    /// Bytes that were read and not consumed.
    pub(crate) bytes: Vec<u8>,
}

/// All channels of one thread.
#[derive(Debug)]
pub(crate) struct ShardChannels {
    own: ShardIndex,
    /// The other threads, in order.
    peers: Vec<Peer>,
    /// How often the first thread has announced the end of churn, and how often this one has seen it.
    churn_ends: Arc<AtomicU32>,
    churn_ends_seen: u32,
}

/// The channels to and from one other thread.
#[derive(Debug)]
struct Peer {
    batches_out: Sender<Batch>,
    batches_in: Receiver<Batch>,
    migrations_out: Sender<MigratingConnection>,
    migrations_in: Receiver<MigratingConnection>,
    /// Connections that do not fit into `migrations_out`.
    migrations: VecDeque<MigratingConnection>,
    waker: Arc<Waker>,
}

impl ShardChannels {
    /// Returns the index of this thread.
    pub(crate) fn own_shard(&self) -> ShardIndex {
        self.own
    }

    pub(crate) fn is_of_first_thread(&self) -> bool {
        self.own == ShardIndex(0)
    }

    /// Notifies all other threads that churn has ended.
    pub(crate) fn notify_churn_ended(&self) {
        self.churn_ends.fetch_add(1, Ordering::Relaxed);
        self.peers.iter().for_each(|peer| peer.waker.wake());
    }

    /// Whether the first thread has announced the end of churn since the last call.
    #[inline]
    pub(crate) fn take_churn_ended(&mut self) -> bool {
        let gone = self.churn_ends.load(Ordering::Relaxed);
        std::mem::replace(&mut self.churn_ends_seen, gone) != gone
    }

    /// Returns the number of other threads.
    pub(crate) fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Returns how many batches the channel to `to` accepts now.
    pub(crate) fn room(&self, to: ShardIndex) -> usize {
        self.peers[self.at(to)].batches_out.ring.slots()
    }

    /// Sends batches, no more than there is space for.
    pub(crate) fn send(&mut self, to: ShardIndex, batches: impl Iterator<Item = Batch>) {
        let at = self.at(to);
        let peer = &mut self.peers[at];
        for batch in batches {
            let sent = peer.batches_out.ring.push(batch);
            debug_assert!(sent.is_ok(), "this is the only sender of the ring");
        }
        peer.waker.wake();
    }

    /// Whether a batch can be sent now. If not, the other thread wakes this one when it can be.
    pub(crate) fn has_room_or_waits(&self, to: ShardIndex) -> bool {
        self.peers[self.at(to)].batches_out.has_room_or_waits()
    }

    pub(crate) fn next_batch(&mut self, from: ShardIndex) -> Option<Batch> {
        let at = self.at(from);
        self.peers[at].batches_in.ring.pop().ok()
    }

    /// Whether batches have arrived from another thread.
    #[inline]
    pub(crate) fn has_batches(&self) -> bool {
        self.peers.iter().any(|peer| !peer.batches_in.ring.is_empty())
    }

    /// Wakes the thread that waits for space, if there is any now.
    pub(crate) fn notify_capacity(&self, from: ShardIndex) {
        let peer = &self.peers[self.at(from)];
        if peer.batches_in.has_waiter_and_room() {
            peer.waker.wake();
        }
    }

    /// Migrates a connection to another thread.
    pub(crate) fn send_connection(&mut self, to: ShardIndex, connection: MigratingConnection) {
        let at = self.at(to);
        self.peers[at].migrations.push_back(connection);
        self.peers[at].send_migrations();
    }

    /// Sends the connections that did not fit before.
    pub(crate) fn send_migrations(&mut self) {
        for peer in self.peers.iter_mut().filter(|peer| !peer.migrations.is_empty()) {
            peer.send_migrations();
        }
    }

    /// Returns the next connection that was migrated to this thread.
    pub(crate) fn next_migrated(&mut self) -> Option<MigratingConnection> {
        self.peers.iter_mut().find_map(|peer| {
            let migrating = peer.migrations_in.ring.pop().ok()?;
            if peer.migrations_in.has_waiter_and_room() {
                peer.waker.wake();
            }
            Some(migrating)
        })
    }

    /// Whether something has arrived, or can be sent now. Call it before sleeping: whatever is false now will wake the thread later. If the
    /// shard does not accept batches, arrived ones do not count.
    pub(crate) fn has_work(&self, accepts_batches: bool) -> bool {
        self.peers.iter().any(|peer| {
            !peer.migrations_in.ring.is_empty()
                || (accepts_batches && !peer.batches_in.ring.is_empty())
                || (!peer.migrations.is_empty() && peer.migrations_out.has_room_or_waits())
        })
    }

    fn at(&self, shard: ShardIndex) -> usize {
        usize::from(shard.0) - usize::from(shard.0 > self.own.0)
    }
}

impl Peer {
    fn send_migrations(&mut self) {
        let mut sent = false;
        while let Some(connection) = self.migrations.pop_front() {
            if let Err(rtrb::PushError::Full(connection)) = self.migrations_out.ring.push(connection) {
                self.migrations.push_front(connection);
                break;
            }
            sent = true;
        }
        if sent {
            self.waker.wake();
        }
    }
}

/// The sending end of a ring.
#[derive(Debug)]
struct Sender<T> {
    ring: Producer<T>,
    /// The sender waits for space.
    is_waiting: Arc<AtomicBool>,
}

/// The receiving end of a ring.
#[derive(Debug)]
struct Receiver<T> {
    ring: Consumer<T>,
    /// The sender waits for space.
    is_sender_waiting: Arc<AtomicBool>,
}

impl<T> Sender<T> {
    fn has_room_or_waits(&self) -> bool {
        if !self.ring.is_full() {
            return true;
        }
        self.is_waiting.store(true, Ordering::SeqCst);
        // The receiver may have made space and checked the flag before it was set.
        fence(Ordering::SeqCst);
        !self.ring.is_full()
    }
}

impl<T> Receiver<T> {
    /// Whether to wake the sender; clears its request. Call it after something was taken.
    fn has_waiter_and_room(&self) -> bool {
        fence(Ordering::SeqCst);
        let is_full = || self.ring.slots() == self.ring.buffer().capacity();
        if !self.is_sender_waiting.load(Ordering::Relaxed) || is_full() {
            return false;
        }
        self.is_sender_waiting.store(false, Ordering::SeqCst);
        true
    }
}

fn waking_ring<T>(capacity: usize) -> (Option<Sender<T>>, Option<Receiver<T>>) {
    let (producer, consumer) = RingBuffer::new(capacity);
    let is_waiting = Arc::<AtomicBool>::default();
    (
        Some(Sender { ring: producer, is_waiting: is_waiting.clone() }),
        Some(Receiver { ring: consumer, is_sender_waiting: is_waiting }),
    )
}

/// One direction between two threads, until its ends are distributed.
struct ShardChannel {
    batches: (Option<Sender<Batch>>, Option<Receiver<Batch>>),
    migrations: (Option<Sender<MigratingConnection>>, Option<Receiver<MigratingConnection>>),
}

/// Connects all threads, with rings for this many batches.
pub(crate) fn connect(wakers: &[Arc<Waker>], batches: usize) -> Vec<ShardChannels> {
    let count = wakers.len();
    let channel = |_| ShardChannel { batches: waking_ring(batches), migrations: waking_ring(MIGRATIONS_MAX) };
    let mut shard_channels: Vec<Vec<ShardChannel>> = (0..count).map(|_| (0..count).map(channel).collect()).collect();
    let mut peer = |own: usize, other: usize| {
        Some(Peer {
            batches_out: shard_channels[own][other].batches.0.take()?,
            batches_in: shard_channels[other][own].batches.1.take()?,
            migrations_out: shard_channels[own][other].migrations.0.take()?,
            migrations_in: shard_channels[other][own].migrations.1.take()?,
            migrations: VecDeque::new(),
            waker: wakers[other].clone(),
        })
    };
    let churn_ends = Arc::new(AtomicU32::new(0));
    (0..count)
        .map(|own| ShardChannels {
            own: ShardIndex(own as u8),
            churn_ends: churn_ends.clone(),
            churn_ends_seen: 0,
            peers: (0..count).filter(|other| *other != own).filter_map(|other| peer(own, other)).collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::Ipv4Addr;
    use tautwire_router::BatchSize;

    use mio::net::{TcpListener, TcpStream};
    use mio::{Poll, Token};
    use tautwire_engine::{ConnectionOrigin, Peer};
    use tautwire_session::AckLevel;

    use crate::accept_limiter::AcceptLimiter;
    use crate::accept_rate::{AcceptLimits, AcceptRate};
    use crate::listener_config::ListenerConfig;

    const OWN: ShardIndex = ShardIndex(0);
    const OTHER: ShardIndex = ShardIndex(1);

    struct World {
        polls: Vec<Poll>,
        shard_channels: Vec<ShardChannels>,
        wakers: Vec<Arc<Waker>>,
        listener: TcpListener,
    }

    fn world() -> World {
        let polls: Vec<_> = (0..2).map(|_| Poll::new().expect("a poll")).collect();
        let wakers: Vec<_> = polls
            .iter()
            .map(|poll| Arc::new(Waker::new(mio::Waker::new(poll.registry(), Token(0)).expect("a waker"))))
            .collect();
        let shard_channels = connect(&wakers, 1);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port chosen by the kernel");
        World { polls, shard_channels, wakers, listener }
    }

    impl World {
        fn connection(&self) -> MigratingConnection {
            let stream = TcpStream::connect(self.listener.local_addr().expect("bound")).expect("a socket");
            let address = self.listener.local_addr().expect("bound");
            let listen = ListenerConfig::plain(address, AckLevel::default());
            let accept_limiter =
                Arc::new(AcceptLimiter::new(&listen, Arc::new(AcceptRate::new(AcceptLimits::default()))));
            let origin = Arc::new(ConnectionOrigin::new(accept_limiter, Peer::Local { uid: None }));
            let accepted =
                AcceptedConnection { stream, origin, layers: None, ack_level: AckLevel::default(), auth_state: None };
            MigratingConnection { accepted, bytes: Vec::new() }
        }

        /// Whether a thread that is about to sleep has been woken.
        fn is_woken(&mut self, thread: usize) -> bool {
            let mut events = mio::Events::with_capacity(1);
            self.polls[thread].poll(&mut events, Some(std::time::Duration::ZERO)).expect("it polls");
            !events.is_empty()
        }
    }

    fn batch() -> Batch {
        Batch::with_size_of(&BatchSize::default(), 0, &Arc::default())
    }

    #[test]
    fn a_connection_does_not_wait_behind_batches() {
        let mut world = world();
        world.shard_channels[0].send(OTHER, std::iter::once(batch()));
        assert_eq!(world.shard_channels[0].room(OTHER), 0);
        let connection = world.connection();
        world.shard_channels[0].send_connection(OTHER, connection);
        assert!(world.shard_channels[1].has_work(true));
        assert!(world.shard_channels[1].next_migrated().is_some());
        assert!(
            world.shard_channels[1].has_work(true) && !world.shard_channels[1].has_work(false),
            "only batches are left"
        );
        assert!(world.shard_channels[1].next_batch(OWN).is_some());
        assert!(!world.shard_channels[1].has_work(true));
    }

    #[test]
    fn a_sender_that_waits_for_a_slot_is_woken() {
        let mut world = world();
        world.shard_channels[0].send(OTHER, std::iter::once(batch()));
        world.wakers[0].before_sleep();
        assert!(!world.shard_channels[0].has_room_or_waits(OTHER));
        world.shard_channels[1].notify_capacity(OWN);
        assert!(!world.is_woken(0), "there is no space");
        assert!(world.shard_channels[1].next_batch(OWN).is_some());
        world.shard_channels[1].notify_capacity(OWN);
        assert!(world.is_woken(0));
        assert!(world.shard_channels[0].has_room_or_waits(OTHER));
    }

    #[test]
    fn connections_beyond_the_ring_follow_when_a_slot_is_free() {
        let mut world = world();
        for _ in 0..=MIGRATIONS_MAX {
            let connection = world.connection();
            world.shard_channels[0].send_connection(OTHER, connection);
        }
        world.wakers[0].before_sleep();
        assert!(!world.shard_channels[0].has_work(true), "the last one does not fit");
        assert!(world.shard_channels[1].next_migrated().is_some());
        assert!(world.is_woken(0));
        assert!(world.shard_channels[0].has_work(true));
        world.shard_channels[0].send_migrations();
        assert!(!world.shard_channels[0].has_work(true));
        let rest = std::iter::from_fn(|| world.shard_channels[1].next_migrated()).count();
        assert_eq!(rest, MIGRATIONS_MAX);
    }
}
