//! Bounded queues of records to export. Queuing never blocks; records that do not fit are dropped and counted.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Limit for queued records.
pub(super) const RECORDS_MAX: usize = 2_048;
/// Limit for the bytes of their texts.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// A record to export.
pub(super) trait Record: Send {
    /// The size of its texts in bytes.
    fn bytes(&self) -> usize;
}

/// A queue that allocates nothing until enabled.
pub(super) struct Queue<R> {
    is_enabled: AtomicBool,
    ends: OnceLock<ChannelEnds<R>>,
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

struct ChannelEnds<R> {
    sender: SyncSender<R>,
    receiver: Mutex<Receiver<R>>,
}

impl<R: Record> Queue<R> {
    pub(super) const fn new() -> Queue<R> {
        Queue {
            is_enabled: AtomicBool::new(false),
            ends: OnceLock::new(),
            bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Enables or disables the queue. Queued records stay.
    pub(super) fn enable(&self, is_enabled: bool) {
        if is_enabled {
            self.ends.get_or_init(|| {
                let (sender, receiver) = sync_channel(RECORDS_MAX);
                ChannelEnds { sender, receiver: Mutex::new(receiver) }
            });
        }
        self.is_enabled.store(is_enabled, Ordering::Release);
    }

    /// Whether the queue is enabled.
    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Acquire)
    }

    /// Queues a record, or drops it if there is no room. Never blocks.
    pub(super) fn offer(&self, record: R) {
        let Some(ends) = self.ends.get() else { return };
        let bytes = record.bytes();
        let queued = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if queued.saturating_add(bytes) > BYTES_MAX || ends.sender.try_send(record).is_err() {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.count_dropped(1);
        }
    }

    /// Removes up to `max` records.
    pub(super) fn take(&self, max: usize) -> Vec<R> {
        let Some(ends) = self.ends.get() else { return Vec::new() };
        let receiver = ends.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let taken: Vec<R> = receiver.try_iter().take(max).collect();
        self.bytes.fetch_sub(taken.iter().map(Record::bytes).sum(), Ordering::Relaxed);
        taken
    }

    /// Counts records that were dropped later.
    pub(super) fn count_dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Record for String {
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    #[test]
    fn items_beyond_the_limit_are_counted_and_the_rest_stays_in_order() {
        let queue = Queue::new();
        queue.offer("not enabled".to_owned());
        assert_eq!((queue.take(10), queue.dropped()), (vec![], 0));
        queue.enable(true);
        (0..RECORDS_MAX + 3).for_each(|number| queue.offer(number.to_string()));
        assert_eq!(queue.dropped(), 3);
        assert_eq!(queue.take(2), ["0", "1"]);
        assert_eq!(queue.take(RECORDS_MAX).len(), RECORDS_MAX - 2);
        assert_eq!(queue.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn long_texts_are_bounded() {
        let queue = Queue::new();
        queue.enable(true);
        let half = "x".repeat(BYTES_MAX / 2);
        (0..3).for_each(|_| queue.offer(half.clone()));
        assert_eq!(queue.dropped(), 1);
        queue.take(1);
        queue.offer(half);
        assert_eq!((queue.dropped(), queue.take(10).len()), (1, 2));
    }
}
