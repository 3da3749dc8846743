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

/// The capacity of a shard's request ring. A shard has fewer requests in flight.
const RING_COMMANDS: usize = 256;
/// How often slots are checked for freed messages while the store has messages.
const FREE_INTERVAL: Duration = Duration::from_secs(1);
/// The delay before compaction is retried after an error.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Handle of the store's thread. Dropping it stops the thread.
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
    /// Starts the thread, with a port for each of `accounts`. `wake` is called with the index of a shard that has a response, `report`
    /// whenever the counters have changed.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start<F: Files>(
        store: Store<F>,
        freed: Arc<FreedSlots>,
        accounts: Vec<Arc<SpillAccount>>,
        wake: impl Fn(usize) + Send + 'static,
        report: impl Fn(&Stats) + Send + 'static,
    ) -> io::Result<(SpillThread, Vec<ShardPort>)> {
        let (stop, waker) = (Arc::new(AtomicBool::new(false)), Arc::new(Waker::default()));
        let (mut channels, mut ports) = (Vec::new(), Vec::new());
        for account in accounts {
            let (request_in, requests) = RingBuffer::new(RING_COMMANDS);
            let (responses, response_out) = RingBuffer::new(RING_COMMANDS);
            ports.push(ShardPort { requests: request_in, responses: response_out, waker: waker.clone(), account });
            channels.push(ShardChannel { requests, responses, pending: VecDeque::new() });
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
        let thread = thread::Builder::new().name("spilled".into()).spawn(move || worker.run(wake, report))?;
        Ok((SpillThread { stop, waker, thread: Some(thread) }, ports))
    }
}

impl Drop for SpillThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread of the spill store panicked");
        }
    }
}

/// A shard's connection to the thread.
#[derive(Debug)]
pub struct ShardPort {
    requests: Producer<SpillRequest>,
    responses: Consumer<SpillResponse>,
    waker: Arc<Waker>,
    account: Arc<SpillAccount>,
}

impl SpillClient for ShardPort {
    fn post(&mut self, request: SpillRequest) -> Result<(), SpillRequest> {
        self.requests.push(request).map_err(|rtrb::PushError::Full(request)| request)?;
        self.waker.wake();
        Ok(())
    }

    fn has_answer(&self) -> bool {
        !self.responses.is_empty()
    }

    fn next_answer(&mut self) -> Option<SpillResponse> {
        self.responses.pop().ok()
    }

    fn spill_account(&self) -> &Arc<SpillAccount> {
        &self.account
    }
}

struct SpillWorker<F: Files> {
    store: Store<F>,
    freed: Arc<FreedSlots>,
    channels: Vec<ShardChannel>,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    /// An empty list that is reused for its capacity.
    slots: Vec<SpillSlot>,
    /// The time of the next compaction attempt after an error.
    retry_at: Option<Instant>,
    reported: Stats,
}

struct ShardChannel {
    requests: Consumer<SpillRequest>,
    responses: Producer<SpillResponse>,
    /// Responses that do not fit into the ring.
    pending: VecDeque<SpillResponse>,
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

    /// Executes one request of a shard, so that no shard waits for all requests of another. Returns whether the shard must be woken.
    fn process_command(&mut self, shard: usize) -> bool {
        let ShardChannel { requests, responses, pending } = &mut self.channels[shard];
        if let Ok(request) = requests.pop() {
            pending.push_back(self.store.answer(request));
        }
        let mut has_delivered = false;
        while let Some(response) = pending.pop_front() {
            if let Err(rtrb::PushError::Full(response)) = responses.push(response) {
                pending.push_front(response);
                break;
            }
            has_delivered = true;
        }
        has_delivered
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

    /// Runs one step of compaction. Returns whether there may be more to do.
    fn compact_step(&mut self) -> bool {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        self.retry_at = None;
        self.store.compact_step().unwrap_or_else(|error| {
            log::error!("cannot compact the files of the spill store, will retry: {error}");
            self.retry_at = Some(Instant::now() + RETRY_INTERVAL);
            false
        })
    }

    fn sleep(&self) {
        let has_work =
            || self.stop.load(Ordering::SeqCst) || self.channels.iter().any(|channel| !channel.requests.is_empty());
        let is_needed =
            self.store.stats().messages > 0 || self.channels.iter().any(|channel| !channel.pending.is_empty());
        self.waker.sleep_unless(has_work, is_needed.then_some(FREE_INTERVAL));
    }
}

#[cfg(test)]
mod tests;
