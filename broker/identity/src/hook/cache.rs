//! Cached responses of a hook.

use std::collections::{HashMap, VecDeque};

use super::document::HookDecision;
use crate::Now;

/// Identifies an attempt.
pub(super) type CacheKey = [u8; 32];

/// Responses with an expiry. The oldest are evicted when the cache is full.
#[derive(Debug)]
pub(super) struct Cache {
    entries_max: usize,
    entries: HashMap<CacheKey, (u64, HookDecision)>,
    /// Keys in insertion order, with their expiry; a key that was inserted again occurs twice.
    order: VecDeque<(CacheKey, u64)>,
}

impl Cache {
    pub(super) fn new(entries_max: usize) -> Cache {
        Cache { entries_max, entries: HashMap::new(), order: VecDeque::new() }
    }

    pub(super) fn get(&mut self, key: &CacheKey, now: Now) -> Option<HookDecision> {
        let (until_ms, decision) = self.entries.get(key)?;
        (now.steady_ms < *until_ms).then(|| decision.clone())
    }

    pub(super) fn put(&mut self, key: CacheKey, decision: HookDecision, for_s: u64, now: Now) {
        if self.entries_max == 0 {
            return;
        }
        while self.order.len() >= self.entries_max
            && let Some((oldest, until_ms)) = self.order.pop_front()
        {
            if self.entries.get(&oldest).is_some_and(|(known_ms, _)| *known_ms == until_ms) {
                self.entries.remove(&oldest);
            }
        }
        let until_ms = now.steady_ms.saturating_add(for_s.saturating_mul(1_000));
        self.entries.insert(key, (until_ms, decision));
        self.order.push_back((key, until_ms));
    }
}
