//! A cache of matches by topic; see [`MatchCache`].

use core::hash::{BuildHasher, Hasher};
use core::mem::size_of;

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;

/// A cache of match results, for topics that repeat.
///
/// * Two-way associative. An entry that was used since the last conflict in its set stays, so that topics in one set do not evict each
///   other in turn.
/// * An entry is valid for one generation: when the caller's generation number changes, every entry is stale.
/// * Costs nothing until used and grows with the number of distinct topics, up to its limits, but only while topics repeat: topics that
///   are published once, such as retained ones that are set, get no slot. New entries reuse the memory of those they replace.
/// * Disables itself while topics do not repeat: if under 10 % of the lookups of a window hit, the next [`BYPASS_WINDOWS`] windows skip
///   the cache, then one window tests it again.
#[derive(Debug, Clone)]
pub struct MatchCache<R> {
    limits: MatchCacheLimits,
    hasher: SeedableRandomState,
    /// Empty, or a power of two of them.
    sets: Vec<[Slot<R>; WAYS]>,
    /// Results that are not cached are computed here.
    scratch: R,
    counters: CacheCounters,
    /// Heap bytes of topics and results in slots.
    content_bytes: usize,
    /// Misses in sets whose entries were all current, since the last growth.
    conflicts: usize,
    window: Window,
    next: LookupMode,
}

/// The limits of a [`MatchCache`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchCacheLimits {
    /// Maximum number of cached topics; rounded up to a power of two, at least 2.
    pub max_slots: usize,
    /// Maximum length of a cached topic, in bytes.
    pub max_topic_bytes: usize,
    /// Maximum heap bytes of cached topics and results together. A single entry over 1/16 of it is not cached; if the sum is exceeded, all
    /// entries are dropped.
    pub max_content_bytes: usize,
}

/// Counters since the cache was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Results from the cache.
    pub hits: u64,
    /// Lookups without a valid entry.
    pub misses: u64,
    /// Computed without a lookup, because the cache had disabled itself.
    pub bypassed: u64,
    /// Computed without a lookup, because the topic exceeds [`MatchCacheLimits::max_topic_bytes`].
    pub topics_too_long: u64,
    /// Computed and not cached, because the result exceeds its share of [`MatchCacheLimits::max_content_bytes`].
    pub results_too_large: u64,
    /// How often all entries were dropped because of [`MatchCacheLimits::max_content_bytes`].
    pub flushes: u64,
}

/// A result whose memory can be reused.
pub trait Reusable: Default {
    /// Empties it, keeping its memory.
    fn clear(&mut self);
    /// Its heap bytes.
    fn heap_bytes(&self) -> usize;
}

/// The number of windows without lookups after one in which topics did not repeat.
pub const BYPASS_WINDOWS: usize = 16;

const WAYS: usize = 2;
const FIRST_SETS: usize = 16;
/// In a window with fewer than one hit per this many lookups, the cache disables itself.
const LOOKUPS_PER_HIT: usize = 10;
/// Slots per hit that the cache may grow to. A few hits are enough: a cache that is too small gets only few.
const SLOTS_PER_HIT: u64 = 256;
/// Lookups per slot in a window, so that topics which fill the whole cache in turn still count as repeating.
const WINDOW_LOOKUPS_PER_SLOT: usize = 4;
/// The fraction of the content limit that one entry may take.
const ENTRY_SHARE: usize = 16;
/// A slot with this many times the memory that its new content needs is reallocated, so that one large result does not hold memory forever.
const KEEP_FACTOR: usize = 8;
const KEEP_BYTES: usize = 1024;

#[derive(Debug, Clone, Default)]
struct Slot<R> {
    hash: u64,
    generation: u64,
    /// Whether it was used since the last conflict with another topic.
    used: bool,
    filled: bool,
    topic: String,
    result: R,
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    lookups: usize,
    hits: usize,
}

/// How the next lookup is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LookupMode {
    Normal,
    /// It is the first of two for the same message, which count as one.
    First,
    Second,
    /// It is bypassed, as are this many others.
    Bypassed(usize),
}

impl Default for MatchCacheLimits {
    fn default() -> Self {
        Self { max_slots: 4096, max_topic_bytes: 256, max_content_bytes: 4 << 20 }
    }
}

impl<R: Reusable> Default for MatchCache<R> {
    fn default() -> Self {
        Self::new(MatchCacheLimits::default())
    }
}

impl<R: Reusable> MatchCache<R> {
    /// An empty cache. Its hash function has a random seed, so clients cannot choose topics that share a set.
    #[must_use]
    pub fn new(limits: MatchCacheLimits) -> Self {
        Self::with_hasher(limits, SeedableRandomState::random())
    }

    /// An empty cache with deterministic behaviour, for tests and simulation. Not for untrusted topics.
    #[must_use]
    pub fn with_seed(limits: MatchCacheLimits, seed: u64) -> Self {
        Self::with_hasher(limits, SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()))
    }

    fn with_hasher(limits: MatchCacheLimits, hasher: SeedableRandomState) -> Self {
        Self {
            limits: MatchCacheLimits { max_slots: limits.max_slots.max(WAYS).next_power_of_two(), ..limits },
            hasher,
            sets: Vec::new(),
            scratch: R::default(),
            counters: CacheCounters::default(),
            content_bytes: 0,
            conflicts: 0,
            window: Window::default(),
            next: LookupMode::Normal,
        }
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> CacheCounters {
        self.counters
    }

    /// Heap bytes in use.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.sets.capacity() * size_of::<[Slot<R>; WAYS]>() + self.content_bytes + self.scratch.heap_bytes()
    }

    /// The result for `topic`: cached if it was computed for the same `generation`, else computed by `fill` into an empty result.
    #[inline]
    pub fn get_or_fill(&mut self, topic: &str, generation: u64, fill: impl FnOnce(&mut R)) -> &R {
        if topic.len() > self.limits.max_topic_bytes {
            self.counters.topics_too_long += 1;
            return self.fill_scratch(fill);
        }
        let counts = match self.next {
            LookupMode::Normal => true,
            LookupMode::First => {
                self.next = LookupMode::Second;
                true
            }
            LookupMode::Second => {
                self.next = LookupMode::Normal;
                false
            }
            LookupMode::Bypassed(left) => {
                self.next = if left > 1 { LookupMode::Bypassed(left - 1) } else { LookupMode::Normal };
                self.counters.bypassed += 1;
                return self.fill_scratch(fill);
            }
        };
        let hash = self.hash(topic);
        let hit = self.find(topic, hash, generation);
        if counts {
            self.count_lookup(hit.is_some());
        }
        if let Some((set, way)) = hit {
            let slot = &mut self.sets[set][way];
            slot.used = true;
            return &slot.result;
        }
        self.resize();
        match self.slot_to_fill(self.set_of(hash), topic, generation) {
            Some(way) => self.fill_slot(way, topic, hash, generation, fill),
            None => self.fill_scratch(fill),
        }
    }

    /// As [`Self::get_or_fill`], for a message that is looked up again immediately: this does not count as a repeated topic.
    pub fn get_or_fill_first(&mut self, topic: &str, generation: u64, fill: impl FnOnce(&mut R)) -> &R {
        if self.next == LookupMode::Normal {
            self.next = LookupMode::First;
        }
        self.get_or_fill(topic, generation, fill)
    }

    /// Drops every entry and its memory.
    pub fn clear(&mut self) {
        self.sets = Vec::new();
        self.scratch = R::default();
        self.content_bytes = 0;
        self.conflicts = 0;
    }

    #[inline]
    fn find(&self, topic: &str, hash: u64, generation: u64) -> Option<(usize, usize)> {
        let set = self.set_of(hash);
        let slots = self.sets.get(set)?;
        let way = slots.iter().position(|slot| {
            slot.hash == hash && slot.filled && slot.generation == generation && slot.topic == topic
        })?;
        Some((set, way))
    }

    fn fill_slot(&mut self, way: usize, topic: &str, hash: u64, generation: u64, fill: impl FnOnce(&mut R)) -> &R {
        let set = self.set_of(hash);
        let slot = &mut self.sets[set][way];
        self.content_bytes -= slot.heap_bytes();
        slot.result.clear();
        fill(&mut slot.result);
        if slot.result.heap_bytes() > self.limits.max_content_bytes / ENTRY_SHARE {
            self.scratch = core::mem::take(&mut slot.result);
            *slot = Slot::default();
            self.counters.results_too_large += 1;
            return &self.scratch;
        }
        slot.topic.clear();
        slot.topic.push_str(topic);
        slot.hash = hash;
        slot.generation = generation;
        slot.filled = true;
        slot.used = false;
        self.content_bytes += slot.heap_bytes();
        &slot.result
    }

    /// The slot for a new entry: that of an old entry of the same topic, a vacant one, a stale entry, or one that was not used lately.
    /// `None` if both were used: they are spared this time.
    fn slot_to_fill(&mut self, set: usize, topic: &str, generation: u64) -> Option<usize> {
        let slots = &mut self.sets[set];
        let unwanted = |slot: &Slot<R>| !slot.filled || slot.generation != generation;
        let same = slots.iter().position(|slot| slot.filled && slot.topic == topic);
        if let Some(way) = same.or_else(|| slots.iter().position(unwanted)) {
            return Some(way);
        }
        self.conflicts += 1;
        let unused = slots.iter().position(|slot| !slot.used);
        for slot in slots {
            slot.used = false;
        }
        unused
    }

    /// Enforces the memory limit. Starts small, and doubles when conflicts reach a quarter of all slots, and there have been enough hits.
    /// Topics in rotation do have hits: of two in each set, one stays.
    fn resize(&mut self) {
        if self.content_bytes > self.limits.max_content_bytes {
            self.clear();
            self.counters.flushes += 1;
        }
        let max_sets = self.limits.max_slots / WAYS;
        let old_sets = self.sets.len();
        let conflicts = self.conflicts > old_sets * WAYS / 4;
        let repeats = self.counters.hits.saturating_mul(SLOTS_PER_HIT) > (old_sets * WAYS) as u64;
        if old_sets >= max_sets || (old_sets > 0 && !(conflicts && repeats)) {
            return;
        }
        let new_sets = if old_sets == 0 { FIRST_SETS.min(max_sets) } else { old_sets * 2 };
        self.conflicts = 0;
        self.sets.reserve_exact(new_sets - old_sets);
        self.sets.resize_with(new_sets, Default::default);
        // Set i of n splits into sets i and i + n of 2n.
        for set in 0..old_sets {
            for way in 0..WAYS {
                let slot = &mut self.sets[set][way];
                if slot.filled && slot.hash as usize & old_sets != 0 {
                    self.sets[set + old_sets][way] = core::mem::take(slot);
                }
            }
        }
    }

    fn count_lookup(&mut self, hit: bool) {
        self.window.lookups += 1;
        if hit {
            self.window.hits += 1;
            self.counters.hits += 1;
        } else {
            self.counters.misses += 1;
        }
        let window_lookups = self.limits.max_slots * WINDOW_LOOKUPS_PER_SLOT;
        if self.window.lookups < window_lookups {
            return;
        }
        if self.window.hits * LOOKUPS_PER_HIT < self.window.lookups {
            self.next = LookupMode::Bypassed(window_lookups * BYPASS_WINDOWS);
        }
        self.window = Window::default();
    }

    fn fill_scratch(&mut self, fill: impl FnOnce(&mut R)) -> &R {
        self.scratch.clear();
        fill(&mut self.scratch);
        &self.scratch
    }

    #[inline]
    fn set_of(&self, hash: u64) -> usize {
        hash as usize & self.sets.len().wrapping_sub(1)
    }

    #[inline]
    fn hash(&self, topic: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(topic.as_bytes());
        hasher.finish()
    }
}

impl<R: Reusable> Slot<R> {
    fn heap_bytes(&self) -> usize {
        self.topic.capacity() + self.result.heap_bytes()
    }
}

impl<T> Reusable for Vec<T> {
    /// A vector with much more capacity than its last content is reallocated.
    fn clear(&mut self) {
        let used_bytes = self.len() * size_of::<T>();
        if self.heap_bytes() > KEEP_BYTES.max(used_bytes * KEEP_FACTOR) {
            *self = Vec::new();
        }
        self.clear();
    }

    fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_collision_does_not_return_another_topic() {
        let one_set = MatchCacheLimits { max_slots: WAYS, ..MatchCacheLimits::default() };
        let mut cache: MatchCache<Vec<u8>> = MatchCache::new(one_set);
        cache.get_or_fill("a", 1, |result| result.push(b'a'));
        let colliding = cache.hash("b");
        cache.sets[0][0].hash = colliding;
        assert_eq!(cache.get_or_fill("b", 1, |result| result.push(b'b')), b"b");
    }
}
