//! The memory held by one shard.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::kind::{KINDS, Kind};

/// The memory held by one shard, by kind.
///
/// Only the shard's own thread enters and settles, which costs a plain addition. Any thread may give memory back, since a message that one
/// shard created may be dropped last by another. Any thread may read.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    /// Written only by the shard's thread; the sum over all kinds.
    all: AtomicU64,
    entered: [AtomicU64; KINDS],
    /// Written by every thread that drops memory of this shard.
    released: ReleasedBytes,
}

/// On a separate cache line, because other threads write here.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ReleasedBytes([AtomicU64; KINDS]);

impl MemoryLedger {
    /// Adds `bytes`. Only the shard's own thread may call it.
    #[inline]
    pub fn enter(&self, kind: Kind, bytes: usize) {
        self.settle(kind, 0, bytes);
    }

    /// Replaces `before` bytes by `after`. Only the shard's own thread may call it.
    #[inline]
    pub fn settle(&self, kind: Kind, before: usize, after: usize) {
        let change = (after as u64).wrapping_sub(before as u64);
        add(&self.entered[kind as usize], change);
        add(&self.all, change);
    }

    /// Releases `bytes` that were entered here; any thread may call it.
    #[inline]
    pub fn give_back(&self, kind: Kind, bytes: usize) {
        debug_assert!(CHARGED.contains(&kind), "the sum of all kinds includes only these");
        self.released.0[kind as usize].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes held of one kind.
    #[inline]
    pub fn held(&self, kind: Kind) -> u64 {
        let entered = self.entered[kind as usize].load(Ordering::Relaxed);
        entered.wrapping_sub(self.released.0[kind as usize].load(Ordering::Relaxed))
    }

    /// Bytes held of all kinds together.
    #[inline]
    pub fn all(&self) -> u64 {
        let released = |kind: Kind| self.released.0[kind as usize].load(Ordering::Relaxed);
        let released = CHARGED.iter().fold(0u64, |sum, kind| sum.wrapping_add(released(*kind)));
        self.all.load(Ordering::Relaxed).wrapping_sub(released)
    }
}

/// The memory that belongs to no shard. Only one thread changes it, so the sum is a single number, which each shard reads once a turn.
#[derive(Debug, Default)]
pub struct DetachedLedger(MemoryLedger);

impl DetachedLedger {
    /// Replaces `before` bytes by `after`. Only one thread may call it.
    #[inline]
    pub fn settle(&self, kind: Kind, before: usize, after: usize) {
        self.0.settle(kind, before, after);
    }

    /// Bytes held of one kind.
    #[inline]
    pub fn held(&self, kind: Kind) -> u64 {
        self.0.held(kind)
    }

    /// Bytes held of all kinds together.
    #[inline]
    pub fn all(&self) -> u64 {
        self.0.all.load(Ordering::Relaxed)
    }
}

/// The kinds that are released through [`MemoryLedger::give_back`]. The others are settled.
const CHARGED: [Kind; 11] = [
    Kind::Message,
    Kind::Spilled,
    Kind::Transit,
    Kind::Input,
    Kind::Output,
    Kind::Alias,
    Kind::Replay,
    Kind::Contract,
    Kind::Job,
    Kind::Subscription,
    Kind::Transport,
];

/// With a single writer, a load and a store are enough.
#[inline]
fn add(counter: &AtomicU64, change: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_bytes_are_no_longer_held() {
        let ledger = MemoryLedger::default();
        ledger.enter(Kind::Message, 300);
        ledger.enter(Kind::Queue, 40);
        for _ in 0..3 {
            ledger.give_back(Kind::Message, 100);
        }
        assert_eq!(ledger.held(Kind::Message), 0);
        assert_eq!(ledger.all(), 40);
        ledger.settle(Kind::Queue, 40, 0);
        assert_eq!(ledger.all(), 0);
    }
}
