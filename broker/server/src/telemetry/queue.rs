//! What waits to be sent. Whoever puts something in never waits; what finds no room is dropped and counted.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Records that wait.
pub(super) const RECORDS_MAX: usize = 2_048;
/// Bytes of the texts in them.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Something that waits.
pub(super) trait Record: Send {
    /// Bytes of its texts.
    fn bytes(&self) -> usize;
}

/// Nothing is allocated before somebody wants what it is for.
pub(super) struct Queue<R> {
    is_wanted: AtomicBool,
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
            is_wanted: AtomicBool::new(false),
            ends: OnceLock::new(),
            bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// From now on things are put in, or no more. What is in stays.
    pub(super) fn enable(&self, is_wanted: bool) {
        if is_wanted {
            self.ends.get_or_init(|| {
                let (sender, receiver) = sync_channel(RECORDS_MAX);
                ChannelEnds { sender, receiver: Mutex::new(receiver) }
            });
        }
        self.is_wanted.store(is_wanted, Ordering::Release);
    }

    /// Whether things are put in.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Puts something in, unless there is no room. Never waits.
    pub(super) fn offer(&self, record: R) {
        let Some(ends) = self.ends.get() else { return };
        let bytes = record.bytes();
        let held = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if held.saturating_add(bytes) > BYTES_MAX || ends.sender.try_send(record).is_err() {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.count_dropped(1);
        }
    }

    /// Takes out as many as there are, at most `max`.
    pub(super) fn take(&self, max: usize) -> Vec<R> {
        let Some(ends) = self.ends.get() else { return Vec::new() };
        let receiver = ends.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let taken: Vec<R> = receiver.try_iter().take(max).collect();
        self.bytes.fetch_sub(taken.iter().map(Record::bytes).sum(), Ordering::Relaxed);
        taken
    }

    /// Counts what is not sent after all.
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
    fn what_finds_no_room_is_counted_and_the_rest_comes_out_in_order() {
        let queue = Queue::new();
        queue.offer("nobody wants it".to_owned());
        assert_eq!((queue.take(10), queue.dropped()), (vec![], 0));
        queue.enable(true);
        (0..RECORDS_MAX + 3).for_each(|number| queue.offer(number.to_string()));
        assert_eq!(queue.dropped(), 3);
        assert_eq!(queue.take(2), ["0", "1"]);
        assert_eq!(queue.take(RECORDS_MAX).len(), RECORDS_MAX - 2);
        assert_eq!(queue.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn long_texts_do_not_fill_the_memory() {
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
