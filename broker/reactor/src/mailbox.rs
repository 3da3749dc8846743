//! What threads hand each other: one bounded ring for each ordered pair, and a way to wake a sleeper.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use mio::Waker;
use mio::net::TcpStream;
use rtrb::{Consumer, Producer, RingBuffer};
use tautwire_router::{Batch, ShardIndex};
use tautwire_websocket::WebSocket;

/// One piece of mail.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Messages.
    Batch(Batch),
    /// A connection whose client belongs to the receiver.
    Adopt(Adopted),
}

/// A connection on its way.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub(crate) stream: TcpStream,
    /// What has been read and not consumed.
    pub(crate) bytes: Vec<u8>,
    pub(crate) websocket: Option<Box<WebSocket>>,
}

/// How a thread is woken.
#[derive(Debug)]
pub(crate) struct Bell {
    waker: Waker,
    asleep: AtomicBool,
}

impl Bell {
    pub(crate) fn new(waker: Waker) -> Bell {
        Bell { waker, asleep: AtomicBool::new(false) }
    }

    /// The owner is about to look whether there is mail, and to sleep if there is none.
    pub(crate) fn before_sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    pub(crate) fn after_sleep(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the owner if it sleeps or is about to. To be called after the mail is in the ring.
    pub(crate) fn ring(&self) {
        // The owner says that it sleeps before it looks for mail, and mail is put in before this is read: in one order
        // of all these, one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            log::error!("a thread could not be woken: {error}");
        }
    }
}

/// One thread's ends of the ways to one other thread.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) shard: ShardIndex,
    pub(crate) outgoing: Producer<Mail>,
    pub(crate) incoming: Consumer<Mail>,
    pub(crate) bell: Arc<Bell>,
    /// Connections that wait for room in the ring.
    pub(crate) moves: VecDeque<Mail>,
    /// What has been taken from `incoming` and is not done with, and how many of its entries are.
    pub(crate) begun: Option<(Batch, usize)>,
    /// We wait for room in `outgoing`.
    waiting: Arc<AtomicBool>,
    /// The other thread waits for room in `incoming`.
    awaited: Arc<AtomicBool>,
}

impl Peer {
    /// Puts mail into the ring; gives it back where the ring is full.
    pub(crate) fn post(&mut self, mail: Mail) -> Result<(), Mail> {
        self.outgoing.push(mail).map_err(|rtrb::PushError::Full(mail)| mail)
    }

    /// Whether mail can be posted now. If not, the other thread will ring when it can be.
    pub(crate) fn has_room_or_waits(&self) -> bool {
        if !self.outgoing.is_full() {
            return true;
        }
        self.waiting.store(true, Ordering::SeqCst);
        // The receiver may have made room and looked at the flag before it was set.
        fence(Ordering::SeqCst);
        !self.outgoing.is_full()
    }

    /// Rings the other thread if it waits for room. To be called after mail has been taken.
    pub(crate) fn tell_of_room(&self) {
        fence(Ordering::SeqCst);
        if self.awaited.load(Ordering::Relaxed) && !self.incoming_is_full() {
            self.awaited.store(false, Ordering::SeqCst);
            self.bell.ring();
        }
    }

    fn incoming_is_full(&self) -> bool {
        self.incoming.slots() == self.incoming.buffer().capacity()
    }
}

/// One direction between two threads.
struct Way {
    producer: Option<Producer<Mail>>,
    consumer: Option<Consumer<Mail>>,
    waiting: Arc<AtomicBool>,
}

/// The peers of every thread, connected with rings of `capacity`.
pub(crate) fn connect(bells: &[Arc<Bell>], capacity: usize) -> Vec<Vec<Peer>> {
    let count = bells.len();
    let way = || {
        let (producer, consumer) = RingBuffer::new(capacity);
        Way { producer: Some(producer), consumer: Some(consumer), waiting: Arc::default() }
    };
    let mut ways: Vec<Vec<Way>> = (0..count).map(|_| (0..count).map(|_| way()).collect()).collect();
    let mut peer = |own: usize, other: usize| {
        Some(Peer {
            shard: ShardIndex(other as u8),
            outgoing: ways[own][other].producer.take()?,
            incoming: ways[other][own].consumer.take()?,
            bell: bells[other].clone(),
            moves: VecDeque::new(),
            begun: None,
            waiting: ways[own][other].waiting.clone(),
            awaited: ways[other][own].waiting.clone(),
        })
    };
    (0..count)
        .map(|own| (0..count).filter(|other| *other != own).filter_map(|other| peer(own, other)).collect())
        .collect()
}
