//! What threads hand each other: one bounded ring for each ordered pair, and a way to wake a sleeper.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::Waker;
use mio::net::TcpStream;
use rtrb::{Consumer, Producer, RingBuffer};
use tautwire_router::{Batch, ShardIndex};

/// One piece of mail.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Messages.
    Batch(Batch),
    /// A connection whose client belongs to the receiver, with the bytes read and not consumed.
    Adopt(TcpStream, Vec<u8>),
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
        std::sync::atomic::fence(Ordering::SeqCst);
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
    pub(crate) moves: std::collections::VecDeque<Mail>,
}

impl Peer {
    /// Puts mail into the ring; gives it back where the ring is full.
    pub(crate) fn post(&mut self, mail: Mail) -> Result<(), Mail> {
        self.outgoing.push(mail).map_err(|rtrb::PushError::Full(mail)| mail)
    }
}

/// The peers of every thread, connected with rings of `capacity`.
pub(crate) fn connect(bells: &[Arc<Bell>], capacity: usize) -> Vec<Vec<Peer>> {
    let count = bells.len();
    let mut producers: Vec<Vec<Option<Producer<Mail>>>> = Vec::new();
    let mut consumers: Vec<Vec<Option<Consumer<Mail>>>> = (0..count).map(|_| Vec::new()).collect();
    for _from in 0..count {
        let mut row = Vec::new();
        for to in consumers.iter_mut() {
            let (producer, consumer) = RingBuffer::new(capacity);
            row.push(Some(producer));
            to.push(Some(consumer));
        }
        producers.push(row);
    }
    let mut all = Vec::new();
    for (own, (mut outgoing, mut incoming)) in producers.into_iter().zip(consumers).enumerate() {
        let others = (0..count).filter(|other| *other != own);
        all.push(
            others
                .filter_map(|other| {
                    Some(Peer {
                        shard: ShardIndex(other as u8),
                        outgoing: outgoing[other].take()?,
                        incoming: incoming[other].take()?,
                        bell: bells[other].clone(),
                        moves: Default::default(),
                    })
                })
                .collect(),
        );
    }
    all
}
