//! The thread that reads and writes for all shards.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer, RingBuffer};
use tautwire_message::{FreedSlots, SpillAccount, SpillClient, SpillRequest, SpillResponse, SpillSlot};

use crate::files::Files;
use crate::store::{Stats, Store};
use crate::waker::Waker;

/// Orders of one shard that wait. A shard has fewer under way.
const RING_COMMANDS: usize = 256;
/// How often slots are looked for that nobody holds any more, while there are messages.
const FREE_INTERVAL: Duration = Duration::from_secs(1);
/// After an error of rewriting, so long is waited before the next attempt.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The thread of the store. It ends when this is dropped.
pub struct SpillThread {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for SpillThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillThread").finish_non_exhaustive()
    }
}

impl SpillThread {
    /// Starts the thread, with a port for each of `shelves`. `wake` is called with the number of a shard for which there is an
    /// answer, `report` whenever something has changed.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start<F: Files>(
        store: Store<F>,
        freed: Arc<FreedSlots>,
        shelves: Vec<Arc<SpillAccount>>,
        wake: impl Fn(usize) + Send + 'static,
        report: impl Fn(&Stats) + Send + 'static,
    ) -> io::Result<(SpillThread, Vec<ShardPort>)> {
        let (stop, waker) = (Arc::new(AtomicBool::new(false)), Arc::new(Waker::default()));
        let (mut channels, mut ports) = (Vec::new(), Vec::new());
        for shelf in shelves {
            let (order_in, orders) = RingBuffer::new(RING_COMMANDS);
            let (answers, answer_out) = RingBuffer::new(RING_COMMANDS);
            ports.push(ShardPort { orders: order_in, answers: answer_out, waker: waker.clone(), shelf });
            channels.push(ShardChannel { orders, answers, waiting: VecDeque::new() });
        }
        let worker = SpillWorker {
            store,
            freed,
            channels,
            stop: stop.clone(),
            waker: waker.clone(),
            slots: Vec::new(),
            retry_at: None,
            reported: Stats::default(),
        };
        let thread = thread::Builder::new().name("cold".into()).spawn(move || worker.run(wake, report))?;
        Ok((SpillThread { stop, waker, thread: Some(thread) }, ports))
    }
}

impl Drop for SpillThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread of the cold store ended in a panic");
        }
    }
}

/// One shard's way to the thread.
#[derive(Debug)]
pub struct ShardPort {
    orders: Producer<SpillRequest>,
    answers: Consumer<SpillResponse>,
    waker: Arc<Waker>,
    shelf: Arc<SpillAccount>,
}

impl SpillClient for ShardPort {
    fn post(&mut self, order: SpillRequest) -> Result<(), SpillRequest> {
        self.orders.push(order).map_err(|rtrb::PushError::Full(order)| order)?;
        self.waker.wake();
        Ok(())
    }

    fn has_answer(&self) -> bool {
        !self.answers.is_empty()
    }

    fn next_answer(&mut self) -> Option<SpillResponse> {
        self.answers.pop().ok()
    }

    fn spill_account(&self) -> &Arc<SpillAccount> {
        &self.shelf
    }
}

struct SpillWorker<F: Files> {
    store: Store<F>,
    freed: Arc<FreedSlots>,
    channels: Vec<ShardChannel>,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    /// An empty list with room.
    slots: Vec<SpillSlot>,
    /// After an error, when rewriting is tried again.
    retry_at: Option<Instant>,
    reported: Stats,
}

struct ShardChannel {
    orders: Consumer<SpillRequest>,
    answers: Producer<SpillResponse>,
    /// Answers for which the ring has no room.
    waiting: VecDeque<SpillResponse>,
}

impl<F: Files> SpillWorker<F> {
    fn run(mut self, wake: impl Fn(usize), report: impl Fn(&Stats)) {
        self.waker.register_thread();
        while !self.stop.load(Ordering::SeqCst) {
            self.free();
            let mut is_busy = false;
            for shard in 0..self.channels.len() {
                if self.process_command(shard) {
                    is_busy = true;
                    wake(shard);
                }
            }
            is_busy = is_busy || self.compact_step();
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
    fn process_command(&mut self, shard: usize) -> bool {
        let ShardChannel { orders, answers, waiting } = &mut self.channels[shard];
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
        self.store.remove_dead_files();
    }

    /// Whether the files were tended, and may have to be once more.
    fn compact_step(&mut self) -> bool {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        self.retry_at = None;
        self.store.compact_step().unwrap_or_else(|error| {
            log::error!("the files of the cold store cannot be rewritten now: {error}");
            self.retry_at = Some(Instant::now() + RETRY_INTERVAL);
            false
        })
    }

    fn sleep(&self) {
        let has_work =
            || self.stop.load(Ordering::SeqCst) || self.channels.iter().any(|channel| !channel.orders.is_empty());
        let is_needed =
            self.store.stats().messages > 0 || self.channels.iter().any(|channel| !channel.waiting.is_empty());
        self.waker.sleep_unless(has_work, is_needed.then_some(FREE_INTERVAL));
    }
}

#[cfg(test)]
mod tests;
