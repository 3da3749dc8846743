//! Memory limits, and how much is free.

use std::cell::Cell;
use std::sync::Arc;

use crate::kind::Kind;
use crate::ledger::{DetachedLedger, MemoryLedger};

/// The memory limits.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For all clients together, without retained messages, which have their own limit.
    pub all_bytes: u64,
    /// For one client.
    pub client_bytes: u64,
}

/// The limit that would be exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLimitError {
    /// The limit of one client.
    Client,
    /// The limit of the broker.
    Broker,
}

/// The ledgers of all shards, and the limits.
#[derive(Debug)]
pub struct Memory {
    ledgers: Box<[Arc<MemoryLedger>]>,
    detached: Arc<DetachedLedger>,
    /// The initial limits of each share.
    limits: Limits,
}

impl Memory {
    /// Empty ledgers for `shards` shards.
    pub fn new(shards: usize, limits: Limits) -> Memory {
        Memory { ledgers: (0..shards).map(|_| Arc::default()).collect(), detached: Arc::default(), limits }
    }

    /// The ledger of shard `index`.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn ledger(&self, index: usize) -> &Arc<MemoryLedger> {
        &self.ledgers[index]
    }

    /// The ledger of memory that belongs to no shard. One thread uses it: the one that writes snapshots, and before it the one that reads
    /// the log at startup.
    pub fn detached(&self) -> &Arc<DetachedLedger> {
        &self.detached
    }

    /// Adds up a value of each shard's ledger, and `detached`. The sum may be below zero: see [`at_least_zero`].
    fn sum(&self, detached: u64, held: impl Fn(&MemoryLedger) -> u64) -> u64 {
        self.ledgers.iter().fold(detached, |sum, ledger| sum.wrapping_add(held(ledger)))
    }

    /// Bytes held of one kind, by all shards together.
    pub fn held(&self, kind: Kind) -> u64 {
        // Shards are read at slightly different moments, so bytes that one releases for another may be missed.
        at_least_zero(self.sum(self.detached.held(kind), |ledger| ledger.held(kind)))
    }

    /// Bytes held of all kinds, by all shards together.
    pub fn total_held(&self) -> u64 {
        at_least_zero(self.sum(self.detached.all(), MemoryLedger::all))
    }
}

/// Clamps a sum of gauges at zero: they are read at slightly different moments, so it may be negative.
fn at_least_zero(sum: u64) -> u64 {
    if sum > u64::MAX / 2 { 0 } else { sum }
}

/// One shard's view of all memory: its own ledger, and a cached sum of the others. It refreshes the sum whenever it has used a small step
/// since, so that shards do not use the same free bytes.
#[derive(Debug)]
pub struct ShardMemory {
    memory: Arc<Memory>,
    limits: Limits,
    own_ledger: Arc<MemoryLedger>,
    /// Memory of the other shards, without retained messages. Below zero if they have released memory for this shard.
    others: Cell<u64>,
    /// While this many bytes are free, no refresh is needed.
    cached_free_bytes: Cell<u64>,
    /// How much this shard may use without a refresh.
    step_bytes: u64,
    retained_bytes: u64,
}

impl ShardMemory {
    /// The view of shard `index`.
    pub fn new(memory: Arc<Memory>, index: usize) -> ShardMemory {
        let (own_ledger, limits) = (memory.ledger(index).clone(), memory.limits);
        let (others, cached_free_bytes) = (Cell::new(0), Cell::new(u64::MAX));
        let mut share =
            ShardMemory { memory, limits, own_ledger, others, cached_free_bytes, step_bytes: 0, retained_bytes: 0 };
        share.set_limits(limits);
        share
    }

    /// The current limits.
    #[inline]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets the limits. Memory that is already held stays held; above the limits, nothing is free until enough has been released.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.step_bytes = match self.memory.ledgers.len() as u64 {
            0 | 1 => u64::MAX,
            shards => limits.all_bytes / UNSYNCED_PART / shards,
        };
        self.cached_free_bytes.set(u64::MAX);
    }

    /// The shard's own ledger.
    #[inline]
    pub fn ledger(&self) -> &Arc<MemoryLedger> {
        &self.own_ledger
    }

    /// The memory of all shards.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Refreshes the view of the other shards. `retained_bytes` belong to retained messages, which have their own limit.
    #[inline]
    pub fn look(&mut self, retained_bytes: u64) {
        self.retained_bytes = retained_bytes;
        self.refresh_others();
    }

    #[inline]
    fn refresh_others(&self) {
        let others = 0u64.wrapping_sub(self.retained_bytes);
        if self.memory.ledgers.len() == 1 {
            self.others.set(others.wrapping_add(self.memory.detached.all()));
            self.cached_free_bytes.set(0);
            return;
        }
        let all = self.memory.sum(self.memory.detached.all(), MemoryLedger::all);
        self.others.set(others.wrapping_add(all).wrapping_sub(self.own_ledger.all()));
        self.cached_free_bytes.set(self.free_bytes_by_view().saturating_sub(self.step_bytes));
    }

    /// How much this shard may use without a refresh.
    #[inline]
    pub fn step_bytes(&self) -> u64 {
        self.step_bytes
    }

    /// The free bytes.
    #[inline]
    pub fn free_bytes(&self) -> u64 {
        let free_bytes = self.free_bytes_by_view();
        if free_bytes >= self.cached_free_bytes.get() {
            return free_bytes;
        }
        self.refresh_others();
        self.free_bytes_by_view()
    }

    #[inline]
    fn free_bytes_by_view(&self) -> u64 {
        let held = at_least_zero(self.own_ledger.all().wrapping_add(self.others.get()));
        self.limits.all_bytes.saturating_sub(held)
    }

    /// The free bytes for clients that hold much: without the reserve.
    #[inline]
    pub fn unreserved_bytes(&self) -> u64 {
        self.unreserved_of(self.free_bytes())
    }

    /// As [`Self::unreserved_bytes`], for a given number of free bytes.
    #[inline]
    pub fn unreserved_of(&self, free_bytes: u64) -> u64 {
        free_bytes.saturating_sub(self.limits.all_bytes / RESERVED_PART)
    }

    /// Whether a client may keep input that has been entered and makes its total `held_bytes`. A client may hold as much as it leaves free,
    /// without half of the reserve. Input may use at most half of all memory, since processing it needs free memory as well.
    #[inline]
    pub fn can_buffer_input(&self, held_bytes: usize) -> bool {
        held_bytes as u64 <= self.extra_input_bytes() && self.memory.held(Kind::Input) <= self.limits.all_bytes / 2
    }

    /// The free bytes for more input.
    #[inline]
    pub fn input_bytes(&self) -> u64 {
        let part_bytes = (self.limits.all_bytes / 2).saturating_sub(self.memory.held(Kind::Input));
        self.extra_input_bytes().min(part_bytes)
    }

    /// The free bytes for the input of one client once input uses its half of all memory.
    #[inline]
    pub fn extra_input_bytes(&self) -> u64 {
        self.free_bytes().saturating_sub(self.limits.all_bytes / RESERVED_PART / 2)
    }

    /// Whether no more input may be kept: it uses more than its half of all memory, and nothing is free.
    pub fn is_input_full(&self) -> bool {
        self.memory.held(Kind::Input) > self.limits.all_bytes / 2 && self.free_bytes() == 0
    }

    /// Bytes to read from one client at a time: a sixteenth of the free memory above a quarter of all. This many clients with paused input
    /// leave memory for others.
    #[inline]
    pub fn read_bytes(&self) -> u64 {
        self.free_bytes().saturating_sub(self.limits.all_bytes / 4) / 16
    }

    /// Checks whether a client that holds `held_bytes` may hold `more_bytes` in addition.
    ///
    /// A client may hold as much as it leaves free, and no more than the limit for one client. So a single client can use half, two use a
    /// third each, and so on. A sixteenth of all memory is reserved for clients that hold less than a thousandth.
    ///
    /// # Errors
    /// The limit that would be exceeded.
    #[inline]
    pub fn admits(&self, held_bytes: usize, more_bytes: usize) -> Result<(), MemoryLimitError> {
        let client_bytes = self.limits.client_bytes;
        let more_bytes = more_bytes as u64;
        let held_bytes = (held_bytes as u64).saturating_add(more_bytes);
        let free_bytes = self.free_for(held_bytes);
        if more_bytes > free_bytes {
            return Err(MemoryLimitError::Broker);
        }
        if held_bytes > client_bytes || held_bytes > free_bytes {
            return Err(MemoryLimitError::Client);
        }
        Ok(())
    }

    /// Whether `more_bytes` are free for several clients together, each with its own limit.
    #[inline]
    pub fn has_free(&self, more_bytes: usize) -> bool {
        more_bytes as u64 <= self.free_for(more_bytes as u64)
    }

    /// Whether a client that holds `held_bytes` is small, however little is free: at most a sixteenth of all memory.
    #[inline]
    pub fn is_small_holder(&self, held_bytes: u64) -> bool {
        held_bytes <= self.limits.all_bytes / SMALL_PART
    }

    /// Whether a client that holds `held_bytes` is minor: less than a thousandth of all memory.
    #[inline]
    fn is_minor_holder(&self, held_bytes: u64) -> bool {
        let all_bytes = self.limits.all_bytes;
        held_bytes <= (all_bytes / MINOR_PART).max(MINOR_MIN_BYTES.min(all_bytes / 256))
    }

    /// The free bytes for a client that holds `held_bytes`.
    #[inline(always)]
    fn free_for(&self, held_bytes: u64) -> u64 {
        let free_bytes = self.free_bytes();
        if self.is_minor_holder(held_bytes) { free_bytes } else { self.unreserved_of(free_bytes) }
    }
}

/// Memory that all shards together may use without a refresh, as a fraction of all.
const UNSYNCED_PART: u64 = 64;
/// The reserve for clients that hold little, as a fraction of all.
const RESERVED_PART: u64 = 16;
/// A client that holds less than this fraction of all is minor.
const MINOR_PART: u64 = 1_024;
/// A client that holds no more than this fraction of all is small.
const SMALL_PART: u64 = 16;
/// The lower bound of the minor limit: the size of a session with a connection and a few filters.
const MINOR_MIN_BYTES: u64 = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(count: usize, all_bytes: u64, client_bytes: u64) -> Vec<ShardMemory> {
        let memory = Arc::new(Memory::new(count, Limits { all_bytes, client_bytes }));
        (0..count).map(|index| ShardMemory::new(memory.clone(), index)).collect()
    }

    /// A client that takes single bytes until it is refused; returns the bytes held.
    fn fill(share: &ShardMemory) -> usize {
        let mut held_bytes = 0;
        while share.admits(held_bytes, 1).is_ok() {
            share.ledger().enter(Kind::Queue, 1);
            held_bytes += 1;
        }
        held_bytes
    }

    #[test]
    fn a_client_at_its_limit_leaves_as_much_free_memory() {
        let share = &shares(1, 16_000, 16_000)[0];
        assert_eq!(fill(share), 7_500, "half of the unreserved memory");
        assert_eq!(fill(share), 3_750);
        assert_eq!(share.admits(0, 1_000), Ok(()), "the reserve is free for a client that holds nothing");
        assert_eq!(share.admits(3_000, 1_000), Err(MemoryLimitError::Client));
        assert_eq!(share.admits(0, 3_800), Err(MemoryLimitError::Broker));
    }

    #[test]
    fn some_memory_is_reserved_for_clients_that_hold_little() {
        let share = &shares(1, 1 << 20, 1 << 20)[0];
        share.ledger().enter(Kind::Queue, (1 << 20) - (1 << 16));
        assert_eq!(share.admits(0, 5_000), Err(MemoryLimitError::Broker));
        assert_eq!(share.admits(0, 1_000), Ok(()));
        assert_eq!(share.admits(4_000, 1_000), Err(MemoryLimitError::Broker), "no longer a minor holder");
    }

    #[test]
    fn one_client_stays_within_its_limit() {
        assert_eq!(fill(&shares(1, 16_000, 100)[0]), 100);
    }

    #[test]
    fn shards_share_one_limit() {
        let mut shares = shares(3, 1_000, 1_000);
        shares[0].ledger().enter(Kind::Message, 600);
        shares[2].ledger().enter(Kind::Output, 300);
        shares[1].look(0);
        assert_eq!(shares[1].free_bytes(), 100);
        // Released by another thread than the one that entered it.
        shares[0].ledger().give_back(Kind::Message, 600);
        shares[1].look(0);
        assert_eq!(shares[1].free_bytes(), 700);
        assert_eq!(shares[1].memory().held(Kind::Output), 300);
    }

    #[test]
    fn unassigned_bytes_are_not_free() {
        for count in [1, 2] {
            let mut shares = shares(count, 1_000, 1_000);
            let detached = shares[0].memory().detached().clone();
            detached.settle(Kind::Snapshot, 0, 400);
            shares[0].look(0);
            assert_eq!((shares[0].free_bytes(), shares[0].memory().total_held()), (600, 400));
            detached.settle(Kind::Snapshot, 400, 0);
            shares[0].look(0);
            assert_eq!((shares[0].free_bytes(), shares[0].memory().held(Kind::Snapshot)), (1_000, 0));
        }
    }

    #[test]
    fn shards_do_not_take_the_same_bytes() {
        for count in [2, 3, 16] {
            let mut shares = shares(count, 1_000_000, 1_000_000);
            shares.iter_mut().for_each(|share| share.look(0));
            for share in &shares {
                while share.admits(0, 5_000).is_ok() {
                    share.ledger().enter(Kind::Message, 5_000);
                }
            }
            let held = shares[0].memory().total_held();
            assert!(
                held <= 937_500 + 1_000_000 / UNSYNCED_PART + 5_000 * count as u64 && held > 930_000,
                "{count} shards hold {held}"
            );
        }
    }

    #[test]
    fn input_takes_at_most_half_of_the_memory() {
        let mut shares = shares(2, 6_400, 6_400);
        assert_eq!(shares[0].input_bytes(), 3_200);
        shares[1].ledger().enter(Kind::Input, 3_000);
        shares[0].look(0);
        assert_eq!(shares[0].input_bytes(), 200);
        assert!(shares[0].can_buffer_input(3_000) && !shares[0].can_buffer_input(3_300));
        shares[1].ledger().enter(Kind::Queue, 3_100);
        shares[0].look(0);
        assert_eq!(shares[0].input_bytes(), 100, "a thirty-second is reserved");
    }

    #[test]
    fn retained_messages_are_counted_once() {
        let mut share = shares(1, 1_000, 1_000).remove(0);
        share.ledger().enter(Kind::Message, 700);
        share.look(600);
        assert_eq!(share.free_bytes(), 900);
    }
}
