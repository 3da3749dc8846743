//! The ways between threads: for each ordered pair a bounded ring of batches, and one of connections that move. A connection
//! never waits behind batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};
use tautwire_router::{Batch, ShardIndex};

use crate::bell::Bell;
use crate::door::Newcomer;

/// Connections in the ring from one thread to another. Others wait for room with the thread that gives them away.
const ADOPTIONS_MAX: usize = 16;

/// A connection on its way to the thread that its client belongs to.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub(crate) newcomer: Newcomer,
    /// What has been read and not consumed.
    pub(crate) bytes: Vec<u8>,
}

/// All ways of one thread.
#[derive(Debug)]
pub(crate) struct Ways {
    own: ShardIndex,
    /// Of all threads but this one, in order.
    peers: Vec<Peer>,
    /// How often the first thread has said that a crowd has gone, and how often this one has heard it.
    crowds_gone: Arc<AtomicU32>,
    crowds_heard: u32,
}

/// The ways to and from one other thread.
#[derive(Debug)]
struct Peer {
    batches_out: Sender<Batch>,
    batches_in: Receiver<Batch>,
    adoptions_out: Sender<Adopted>,
    adoptions_in: Receiver<Adopted>,
    /// Connections that wait for room in `adoptions_out`.
    moves: VecDeque<Adopted>,
    bell: Arc<Bell>,
}

impl Ways {
    /// Which thread this is.
    pub(crate) fn own(&self) -> ShardIndex {
        self.own
    }

    pub(crate) fn is_of_first_thread(&self) -> bool {
        self.own == ShardIndex(0)
    }

    /// Tells all other threads that a crowd has gone.
    pub(crate) fn tell_that_a_crowd_has_gone(&self) {
        self.crowds_gone.fetch_add(1, Ordering::Relaxed);
        self.peers.iter().for_each(|peer| peer.bell.ring());
    }

    /// Whether the first thread has said so since this was last asked.
    #[inline]
    pub(crate) fn has_heard_that_a_crowd_has_gone(&mut self) -> bool {
        let gone = self.crowds_gone.load(Ordering::Relaxed);
        std::mem::replace(&mut self.crowds_heard, gone) != gone
    }

    /// How many other threads there are.
    pub(crate) fn peers(&self) -> usize {
        self.peers.len()
    }

    /// How many batches the way to `to` takes now.
    pub(crate) fn room(&self, to: ShardIndex) -> usize {
        self.peers[self.at(to)].batches_out.ring.slots()
    }

    /// Sends batches, no more than there is room for.
    pub(crate) fn send(&mut self, to: ShardIndex, batches: impl Iterator<Item = Batch>) {
        let at = self.at(to);
        let peer = &mut self.peers[at];
        for batch in batches {
            let sent = peer.batches_out.ring.push(batch);
            debug_assert!(sent.is_ok(), "nobody else puts anything into the ring");
        }
        peer.bell.ring();
    }

    /// Whether a batch can be sent now. If not, the other thread rings when it can be.
    pub(crate) fn has_room_or_waits(&self, to: ShardIndex) -> bool {
        self.peers[self.at(to)].batches_out.has_room_or_waits()
    }

    pub(crate) fn next_batch(&mut self, from: ShardIndex) -> Option<Batch> {
        let at = self.at(from);
        self.peers[at].batches_in.ring.pop().ok()
    }

    /// Whether messages have come from another thread.
    #[inline]
    pub(crate) fn has_batches(&self) -> bool {
        self.peers.iter().any(|peer| !peer.batches_in.ring.is_empty())
    }

    /// Wakes the thread that waits for room, if there is any now.
    pub(crate) fn tell_of_room(&self, from: ShardIndex) {
        let peer = &self.peers[self.at(from)];
        if peer.batches_in.has_waiter_and_room() {
            peer.bell.ring();
        }
    }

    /// Gives a connection to another thread.
    pub(crate) fn hand_over(&mut self, to: ShardIndex, connection: Adopted) {
        let at = self.at(to);
        self.peers[at].moves.push_back(connection);
        self.peers[at].send_moves();
    }

    /// Sends the connections for which there was no room before.
    pub(crate) fn send_moves(&mut self) {
        for peer in self.peers.iter_mut().filter(|peer| !peer.moves.is_empty()) {
            peer.send_moves();
        }
    }

    /// A connection whose client belongs to this thread.
    pub(crate) fn next_adopted(&mut self) -> Option<Adopted> {
        self.peers.iter_mut().find_map(|peer| {
            let adopted = peer.adoptions_in.ring.pop().ok()?;
            if peer.adoptions_in.has_waiter_and_room() {
                peer.bell.ring();
            }
            Some(adopted)
        })
    }

    /// Whether something has come, or could be sent now. To be asked before sleeping: what is false now will ring. Where the shard does
    /// not take batches, those that have come do not count.
    pub(crate) fn has_work(&self, accepts_batches: bool) -> bool {
        self.peers.iter().any(|peer| {
            !peer.adoptions_in.ring.is_empty()
                || (accepts_batches && !peer.batches_in.ring.is_empty())
                || (!peer.moves.is_empty() && peer.adoptions_out.has_room_or_waits())
        })
    }

    fn at(&self, shard: ShardIndex) -> usize {
        usize::from(shard.0) - usize::from(shard.0 > self.own.0)
    }
}

impl Peer {
    fn send_moves(&mut self) {
        let mut sent = false;
        while let Some(connection) = self.moves.pop_front() {
            if let Err(rtrb::PushError::Full(connection)) = self.adoptions_out.ring.push(connection) {
                self.moves.push_front(connection);
                break;
            }
            sent = true;
        }
        if sent {
            self.bell.ring();
        }
    }
}

/// The end of a ring into which one thread puts.
#[derive(Debug)]
struct Sender<T> {
    ring: Producer<T>,
    /// We wait for room.
    waits: Arc<AtomicBool>,
}

/// The end of a ring from which one thread takes.
#[derive(Debug)]
struct Receiver<T> {
    ring: Consumer<T>,
    /// The sender waits for room.
    sender_waits: Arc<AtomicBool>,
}

impl<T> Sender<T> {
    fn has_room_or_waits(&self) -> bool {
        if !self.ring.is_full() {
            return true;
        }
        self.waits.store(true, Ordering::SeqCst);
        // The receiver may have made room and looked at the flag before it was set.
        fence(Ordering::SeqCst);
        !self.ring.is_full()
    }
}

impl<T> Receiver<T> {
    /// Whether the sender is to be woken, which is then no longer asked for. To be called after something has been taken.
    fn has_waiter_and_room(&self) -> bool {
        fence(Ordering::SeqCst);
        let is_full = || self.ring.slots() == self.ring.buffer().capacity();
        if !self.sender_waits.load(Ordering::Relaxed) || is_full() {
            return false;
        }
        self.sender_waits.store(false, Ordering::SeqCst);
        true
    }
}

fn ring<T>(capacity: usize) -> (Option<Sender<T>>, Option<Receiver<T>>) {
    let (producer, consumer) = RingBuffer::new(capacity);
    let waits = Arc::<AtomicBool>::default();
    (Some(Sender { ring: producer, waits: waits.clone() }), Some(Receiver { ring: consumer, sender_waits: waits }))
}

/// One direction between two threads, until its ends are given away.
struct Way {
    batches: (Option<Sender<Batch>>, Option<Receiver<Batch>>),
    adoptions: (Option<Sender<Adopted>>, Option<Receiver<Adopted>>),
}

/// The ways of every thread, with rings for so many batches.
pub(crate) fn connect(bells: &[Arc<Bell>], batches: usize) -> Vec<Ways> {
    let count = bells.len();
    let way = |_| Way { batches: ring(batches), adoptions: ring(ADOPTIONS_MAX) };
    let mut ways: Vec<Vec<Way>> = (0..count).map(|_| (0..count).map(way).collect()).collect();
    let mut peer = |own: usize, other: usize| {
        Some(Peer {
            batches_out: ways[own][other].batches.0.take()?,
            batches_in: ways[other][own].batches.1.take()?,
            adoptions_out: ways[own][other].adoptions.0.take()?,
            adoptions_in: ways[other][own].adoptions.1.take()?,
            moves: VecDeque::new(),
            bell: bells[other].clone(),
        })
    };
    let crowds_gone = Arc::new(AtomicU32::new(0));
    (0..count)
        .map(|own| Ways {
            own: ShardIndex(own as u8),
            crowds_gone: crowds_gone.clone(),
            crowds_heard: 0,
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
    use mio::{Poll, Token, Waker};
    use tautwire_engine::{ConnectionOrigin, Peer};
    use tautwire_session::AckLevel;

    use crate::arrivals::{ArrivalLimits, Arrivals};
    use crate::gate::Gate;
    use crate::listener::Listen;

    const OWN: ShardIndex = ShardIndex(0);
    const OTHER: ShardIndex = ShardIndex(1);

    struct World {
        polls: Vec<Poll>,
        ways: Vec<Ways>,
        bells: Vec<Arc<Bell>>,
        listener: TcpListener,
    }

    fn world() -> World {
        let polls: Vec<_> = (0..2).map(|_| Poll::new().expect("a poll")).collect();
        let bells: Vec<_> = polls
            .iter()
            .map(|poll| Arc::new(Bell::new(Waker::new(poll.registry(), Token(0)).expect("a waker"))))
            .collect();
        let ways = connect(&bells, 1);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port of the kernel's choice");
        World { polls, ways, bells, listener }
    }

    impl World {
        fn connection(&self) -> Adopted {
            let stream = TcpStream::connect(self.listener.local_addr().expect("it is bound")).expect("a socket");
            let address = self.listener.local_addr().expect("it is bound");
            let listen = Listen::plain(address, AckLevel::default());
            let gate = Arc::new(Gate::new(&listen, Arc::new(Arrivals::new(ArrivalLimits::default()))));
            let origin = Arc::new(ConnectionOrigin::new(gate, Peer::Local { uid: None }));
            let newcomer = Newcomer { stream, origin, layers: None, ack_level: AckLevel::default(), standing: None };
            Adopted { newcomer, bytes: Vec::new() }
        }

        /// Whether the bell of a thread, which is about to sleep, has rung.
        fn is_rung(&mut self, thread: usize) -> bool {
            let mut events = mio::Events::with_capacity(1);
            self.polls[thread].poll(&mut events, Some(std::time::Duration::ZERO)).expect("it polls");
            !events.is_empty()
        }
    }

    fn batch() -> Batch {
        Batch::like(&BatchSize::default(), 0, &Arc::default())
    }

    #[test]
    fn a_connection_does_not_wait_behind_batches() {
        let mut world = world();
        world.ways[0].send(OTHER, std::iter::once(batch()));
        assert_eq!(world.ways[0].room(OTHER), 0);
        let connection = world.connection();
        world.ways[0].hand_over(OTHER, connection);
        assert!(world.ways[1].has_work(true));
        assert!(world.ways[1].next_adopted().is_some());
        assert!(world.ways[1].has_work(true) && !world.ways[1].has_work(false), "batches alone are left");
        assert!(world.ways[1].next_batch(OWN).is_some());
        assert!(!world.ways[1].has_work(true));
    }

    #[test]
    fn who_waits_for_room_is_rung_for_when_there_is_some() {
        let mut world = world();
        world.ways[0].send(OTHER, std::iter::once(batch()));
        world.bells[0].before_sleep();
        assert!(!world.ways[0].has_room_or_waits(OTHER));
        world.ways[1].tell_of_room(OWN);
        assert!(!world.is_rung(0), "there is none");
        assert!(world.ways[1].next_batch(OWN).is_some());
        world.ways[1].tell_of_room(OWN);
        assert!(world.is_rung(0));
        assert!(world.ways[0].has_room_or_waits(OTHER));
    }

    #[test]
    fn connections_beyond_the_ring_follow_when_there_is_room() {
        let mut world = world();
        for _ in 0..=ADOPTIONS_MAX {
            let connection = world.connection();
            world.ways[0].hand_over(OTHER, connection);
        }
        world.bells[0].before_sleep();
        assert!(!world.ways[0].has_work(true), "there is no room for the last one");
        assert!(world.ways[1].next_adopted().is_some());
        assert!(world.is_rung(0));
        assert!(world.ways[0].has_work(true));
        world.ways[0].send_moves();
        assert!(!world.ways[0].has_work(true));
        let rest = std::iter::from_fn(|| world.ways[1].next_adopted()).count();
        assert_eq!(rest, ADOPTIONS_MAX);
    }
}
