//! The thread that reads and writes for all shards.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer, RingBuffer};
use tautwire_message::{ColdAnswer, ColdOrder, ColdPort, Freed, Shelf, Slot};

use crate::bell::Bell;
use crate::files::Files;
use crate::store::{Stats, Store};

/// Orders of one shard that wait. A shard has fewer under way.
const RING_ORDERS: usize = 256;
/// How often slots are looked for that nobody holds any more, while there are messages.
const FREED_EACH: Duration = Duration::from_secs(1);
/// After an error of rewriting, so long is waited before the next attempt.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The thread of the store. It ends when this is dropped.
pub struct ColdThread {
    stop: Arc<AtomicBool>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for ColdThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColdThread").finish_non_exhaustive()
    }
}

impl ColdThread {
    /// Starts the thread, with a port for each of `shelves`. `wake` is called with the number of a shard for which there is an
    /// answer, `report` whenever something has changed.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start<F: Files>(
        store: Store<F>,
        freed: Arc<Freed>,
        shelves: Vec<Arc<Shelf>>,
        wake: impl Fn(usize) + Send + 'static,
        report: impl Fn(&Stats) + Send + 'static,
    ) -> io::Result<(ColdThread, Vec<Port>)> {
        let (stop, bell) = (Arc::new(AtomicBool::new(false)), Arc::new(Bell::default()));
        let (mut ways, mut ports) = (Vec::new(), Vec::new());
        for shelf in shelves {
            let (order_in, orders) = RingBuffer::new(RING_ORDERS);
            let (answers, answer_out) = RingBuffer::new(RING_ORDERS);
            ports.push(Port { orders: order_in, answers: answer_out, bell: bell.clone(), shelf });
            ways.push(Way { orders, answers, waiting: VecDeque::new() });
        }
        let worker = Worker {
            store,
            freed,
            ways,
            stop: stop.clone(),
            bell: bell.clone(),
            slots: Vec::new(),
            tend_at: None,
            reported: Stats::default(),
        };
        let thread = thread::Builder::new().name("cold".into()).spawn(move || worker.run(wake, report))?;
        Ok((ColdThread { stop, bell, thread: Some(thread) }, ports))
    }
}

impl Drop for ColdThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.bell.ring();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread of the cold store ended in a panic");
        }
    }
}

/// One shard's way to the thread.
#[derive(Debug)]
pub struct Port {
    orders: Producer<ColdOrder>,
    answers: Consumer<ColdAnswer>,
    bell: Arc<Bell>,
    shelf: Arc<Shelf>,
}

impl ColdPort for Port {
    fn post(&mut self, order: ColdOrder) -> Result<(), ColdOrder> {
        self.orders.push(order).map_err(|rtrb::PushError::Full(order)| order)?;
        self.bell.ring();
        Ok(())
    }

    fn has_answer(&self) -> bool {
        !self.answers.is_empty()
    }

    fn next_answer(&mut self) -> Option<ColdAnswer> {
        self.answers.pop().ok()
    }

    fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }
}

struct Worker<F: Files> {
    store: Store<F>,
    freed: Arc<Freed>,
    ways: Vec<Way>,
    stop: Arc<AtomicBool>,
    bell: Arc<Bell>,
    /// An empty list with room.
    slots: Vec<Slot>,
    /// After an error, when rewriting is tried again.
    tend_at: Option<Instant>,
    reported: Stats,
}

struct Way {
    orders: Consumer<ColdOrder>,
    answers: Producer<ColdAnswer>,
    /// Answers for which the ring has no room.
    waiting: VecDeque<ColdAnswer>,
}

impl<F: Files> Worker<F> {
    fn run(mut self, wake: impl Fn(usize), report: impl Fn(&Stats)) {
        self.bell.own();
        while !self.stop.load(Ordering::SeqCst) {
            self.free();
            let mut is_busy = false;
            for shard in 0..self.ways.len() {
                if self.serve(shard) {
                    is_busy = true;
                    wake(shard);
                }
            }
            is_busy = is_busy || self.tend();
            if self.store.stats() != self.reported {
                self.reported = self.store.stats();
                report(&self.reported);
            }
            if !is_busy {
                self.sleep();
            }
        }
        self.store.remove_files();
    }

    /// Serves one order of a shard, so that no shard waits for all of another one's; says whether there is something to wake it for.
    fn serve(&mut self, shard: usize) -> bool {
        let Way { orders, answers, waiting } = &mut self.ways[shard];
        if let Ok(order) = orders.pop() {
            waiting.push_back(self.store.answer(order));
        }
        let mut told = false;
        while let Some(answer) = waiting.pop_front() {
            if let Err(rtrb::PushError::Full(answer)) = answers.push(answer) {
                waiting.push_front(answer);
                break;
            }
            told = true;
        }
        told
    }

    fn free(&mut self) {
        let mut slots = self.freed.take(std::mem::take(&mut self.slots));
        for slot in slots.drain(..) {
            self.store.free(slot);
        }
        slots.shrink_to(1 << 10);
        self.slots = slots;
        self.store.tidy();
    }

    /// Whether the files were tended, and may have to be once more.
    fn tend(&mut self) -> bool {
        if self.tend_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        self.tend_at = None;
        self.store.tend().unwrap_or_else(|error| {
            log::error!("the files of the cold store cannot be rewritten now: {error}");
            self.tend_at = Some(Instant::now() + RETRY_AFTER);
            false
        })
    }

    fn sleep(&self) {
        let has_work = || self.stop.load(Ordering::SeqCst) || self.ways.iter().any(|way| !way.orders.is_empty());
        let is_needed = self.store.stats().messages > 0 || self.ways.iter().any(|way| !way.waiting.is_empty());
        self.bell.sleep_unless(has_work, is_needed.then_some(FREED_EACH));
    }
}

#[cfg(test)]
mod tests;
