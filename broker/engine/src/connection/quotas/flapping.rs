//! Flapping clients, whose connections are lost too often: two devices that take over each other's identifier, or one that fails at
//! something right after it connects.

use std::hash::{BuildHasher, RandomState};

/// The number of entries for identifiers whose connections were lost recently: 96 KiB, allocated at the first loss.
const CLIENTS_MAX: usize = 4_096;
/// An identifier is stored in any slot of one set, which its hash selects.
const SETS: usize = CLIENTS_MAX / WAYS;
const WAYS: usize = 4;

/// The rule by which a client is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlappingRule {
    /// The number of lost connections
    losses: u32,
    /// within this time, counted from the first of them.
    within_ms: u64,
    /// How long the client is blocked.
    block_ms: u64,
}

impl FlappingRule {
    /// Returns `None` if clients are never blocked.
    pub(crate) fn new(losses: u32, within_s: u32, block_s: u32) -> Option<FlappingRule> {
        let (within_ms, block_ms) = (u64::from(within_s) * 1_000, u64::from(block_s) * 1_000);
        (losses > 0).then_some(FlappingRule { losses, within_ms, block_ms })
    }
}

/// The recently lost connections, by client.
#[derive(Debug)]
pub(crate) struct FlappingDetector {
    rule: FlappingRule,
    /// Empty until the first loss.
    sets: Box<[[Option<FlappingEntry>; WAYS]]>,
    /// Seeded, so that an attacker cannot evict a chosen entry.
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy)]
struct FlappingEntry {
    /// A hash of the Client Identifier. Clients with equal hashes would be counted together, which is practically impossible.
    client: u64,
    /// When the first counted connection was lost, or when the block began.
    since_ms: u64,
    state: FlappingState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlappingState {
    Counted(u32),
    Blocked,
}

/// The effect of a lost connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FlappingUpdate {
    /// The client is blocked from now on.
    pub(in crate::connection) is_blocked: bool,
    /// The entry of another client was evicted.
    pub(in crate::connection) has_evicted: bool,
}

impl FlappingDetector {
    pub(crate) fn new(rule: FlappingRule) -> FlappingDetector {
        FlappingDetector { rule, sets: Box::default(), hasher: RandomState::new() }
    }

    /// Applies another rule. Entries stay.
    pub(crate) fn apply_limits(&mut self, rule: FlappingRule) {
        self.rule = rule;
    }

    /// Whether the client is blocked.
    pub(crate) fn is_blocked(&self, client_id: &str, now_ms: u64) -> bool {
        if self.sets.is_empty() {
            return false;
        }
        let client = self.hasher.hash_one(client_id);
        let entry = self.sets[set_of(client)].iter().flatten().find(|entry| entry.client == client);
        entry.is_some_and(|entry| entry.state == FlappingState::Blocked && self.rule.counts(entry, now_ms))
    }

    /// Records a lost connection of the client.
    pub(crate) fn record_loss(&mut self, client_id: &str, now_ms: u64) -> FlappingUpdate {
        if self.sets.is_empty() {
            self.sets = vec![[None; WAYS]; SETS].into();
        }
        let rule = self.rule;
        let client = self.hasher.hash_one(client_id);
        let set = &mut self.sets[set_of(client)];
        let known = set.iter().position(|entry| entry.is_some_and(|entry| entry.client == client));
        // Evicts the entry with the lowest weight.
        let at = known.or_else(|| (0..WAYS).min_by_key(|at| rule.weight(set[*at].as_ref(), now_ms))).unwrap_or(0);
        let has_evicted = known.is_none() && rule.weight(set[at].as_ref(), now_ms) > 0;
        let before = set[at].filter(|entry| known.is_some() && rule.counts(entry, now_ms));
        let (since_ms, count) = match before {
            // The current block continues.
            Some(FlappingEntry { state: FlappingState::Blocked, .. }) => return FlappingUpdate::default(),
            Some(FlappingEntry { state: FlappingState::Counted(count), since_ms, .. }) => (since_ms, count + 1),
            None => (now_ms, 1),
        };
        let is_blocked = count >= rule.losses;
        let (since_ms, state) =
            if is_blocked { (now_ms, FlappingState::Blocked) } else { (since_ms, FlappingState::Counted(count)) };
        set[at] = Some(FlappingEntry { client, since_ms, state });
        FlappingUpdate { is_blocked, has_evicted }
    }
}

fn set_of(client: u64) -> usize {
    client as usize % SETS
}

impl FlappingRule {
    /// Whether an entry is still valid.
    fn counts(self, entry: &FlappingEntry, now_ms: u64) -> bool {
        let valid_ms = match entry.state {
            FlappingState::Counted(_) => self.within_ms,
            FlappingState::Blocked => self.block_ms,
        };
        now_ms.saturating_sub(entry.since_ms) < valid_ms
    }

    /// The weight of an entry for eviction: 0 if it is no longer valid.
    fn weight(self, entry: Option<&FlappingEntry>, now_ms: u64) -> u32 {
        match entry.filter(|entry| self.counts(entry, now_ms)).map(|entry| entry.state) {
            None => 0,
            Some(FlappingState::Counted(count)) => count,
            Some(FlappingState::Blocked) => u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn flapping(losses: u32) -> FlappingDetector {
        FlappingDetector::new(FlappingRule::new(losses, 10, 20).expect("a rule"))
    }

    #[test]
    fn a_flapping_client_is_blocked_for_the_configured_time() {
        assert!(FlappingRule::new(0, 10, 20).is_none());
        let mut flapping = flapping(3);
        assert!(!flapping.is_blocked("a", NOW_MS));
        assert!(!flapping.record_loss("a", NOW_MS).is_blocked);
        assert!(!flapping.record_loss("a", NOW_MS + 5_000).is_blocked);
        assert!(!flapping.is_blocked("a", NOW_MS + 5_000));
        assert!(flapping.record_loss("a", NOW_MS + 9_999).is_blocked);
        assert!(flapping.is_blocked("a", NOW_MS + 29_998) && !flapping.is_blocked("b", NOW_MS + 29_998));
        // A connection accepted before the block may be lost meanwhile.
        assert_eq!(flapping.record_loss("a", NOW_MS + 29_998), FlappingUpdate::default());
        assert!(!flapping.is_blocked("a", NOW_MS + 29_999), "the block has ended");
        assert!(!flapping.record_loss("a", NOW_MS + 30_000).is_blocked, "the count starts again");
    }

    #[test]
    fn a_changed_rule_applies_to_stored_entries() {
        let mut flapping = flapping(3);
        assert!(!flapping.record_loss("a", NOW_MS).is_blocked);
        flapping.apply_limits(FlappingRule::new(2, 10, 5).expect("a rule"));
        assert!(flapping.record_loss("a", NOW_MS).is_blocked);
        assert!(flapping.is_blocked("a", NOW_MS + 4_999) && !flapping.is_blocked("a", NOW_MS + 5_000));
    }

    #[test]
    fn occasional_losses_are_tolerated() {
        let mut flapping = flapping(3);
        for number in 0..100 {
            assert!(!flapping.record_loss("a", NOW_MS + number * 5_001).is_blocked, "{number}");
        }
    }

    #[test]
    fn the_table_is_bounded_and_blocked_clients_are_evicted_last() {
        assert!(size_of::<Option<FlappingEntry>>() <= 24);
        let mut flapping = flapping(2);
        assert!(!flapping.record_loss("held", NOW_MS).is_blocked && flapping.record_loss("held", NOW_MS).is_blocked);
        let mut evicted = 0;
        for number in 0..4 * CLIENTS_MAX {
            evicted += usize::from(flapping.record_loss(&number.to_string(), NOW_MS).has_evicted);
        }
        assert!((3 * CLIENTS_MAX..4 * CLIENTS_MAX).contains(&evicted), "{evicted}");
        assert!(flapping.is_blocked("held", NOW_MS));
        assert!(!flapping.record_loss("later", NOW_MS + 30_000).has_evicted, "the other entries are no longer valid");
    }
}
