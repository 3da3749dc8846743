//! Clients that come and break off again and again: two devices with one identifier that take it from each other, or one that fails at
//! something as soon as it is connected.

use std::hash::{BuildHasher, RandomState};

/// Identifiers that are remembered, of those whose connections have broken off lately. It takes 96 KiB, once the first has.
const CLIENTS_MAX: usize = 4_096;
/// Any identifier may be in the places of one set, whose number its hash gives.
const SETS: usize = CLIENTS_MAX / WAYS;
const WAYS: usize = 4;

/// When a client is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlappingRule {
    /// So many connections have broken off
    losses: u32,
    /// within this time, from the first of them on.
    within_ms: u64,
    /// So long it stays outside then.
    block_ms: u64,
}

impl FlappingRule {
    /// `None` where nobody is held back.
    pub(crate) fn new(losses: u32, within_s: u32, block_s: u32) -> Option<FlappingRule> {
        let (within_ms, block_ms) = (u64::from(within_s) * 1_000, u64::from(block_s) * 1_000);
        (losses > 0).then_some(FlappingRule { losses, within_ms, block_ms })
    }
}

/// What is known of the clients whose connections break off.
#[derive(Debug)]
pub(crate) struct FlappingDetector {
    rule: FlappingRule,
    /// Empty until the first place is needed.
    sets: Box<[[Option<FlappingEntry>; WAYS]]>,
    /// Seeded, so that nobody can aim at the place of another.
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy)]
struct FlappingEntry {
    /// A hash of the Client Identifier: two that share one would be counted together, which never happens.
    client: u64,
    /// When the first one broke off that counts, or when the client began to be held back.
    since_ms: u64,
    state: FlappingState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlappingState {
    Counted(u32),
    Blocked,
}

/// What comes of a connection that has broken off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FlappingUpdate {
    /// The client is held back from now on.
    pub(crate) is_blocked: bool,
    /// What was known of another one was forgotten for it.
    pub(crate) has_evicted: bool,
}

impl FlappingDetector {
    pub(crate) fn new(rule: FlappingRule) -> FlappingDetector {
        FlappingDetector { rule, sets: Box::default(), hasher: RandomState::new() }
    }

    /// From now on another rule holds. What is remembered stays.
    pub(crate) fn apply_limits(&mut self, rule: FlappingRule) {
        self.rule = rule;
    }

    /// Whether the client stays outside.
    pub(crate) fn is_blocked(&self, client_id: &str, now_ms: u64) -> bool {
        if self.sets.is_empty() {
            return false;
        }
        let client = self.hasher.hash_one(client_id);
        let entry = self.sets[set_of(client)].iter().flatten().find(|entry| entry.client == client);
        entry.is_some_and(|entry| entry.state == FlappingState::Blocked && self.rule.counts(entry, now_ms))
    }

    /// A connection of the client has broken off.
    pub(crate) fn record_loss(&mut self, client_id: &str, now_ms: u64) -> FlappingUpdate {
        if self.sets.is_empty() {
            self.sets = vec![[None; WAYS]; SETS].into();
        }
        let rule = self.rule;
        let client = self.hasher.hash_one(client_id);
        let set = &mut self.sets[set_of(client)];
        let known = set.iter().position(|entry| entry.is_some_and(|entry| entry.client == client));
        // The one goes that says least.
        let at = known.or_else(|| (0..WAYS).min_by_key(|at| rule.weight(set[*at].as_ref(), now_ms))).unwrap_or(0);
        let has_evicted = known.is_none() && rule.weight(set[at].as_ref(), now_ms) > 0;
        let before = set[at].filter(|entry| known.is_some() && rule.counts(entry, now_ms));
        let (since_ms, count) = match before {
            // It goes on with the one that it has.
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
    /// Whether a place still says something.
    fn counts(self, entry: &FlappingEntry, now_ms: u64) -> bool {
        let lasts_ms = match entry.state {
            FlappingState::Counted(_) => self.within_ms,
            FlappingState::Blocked => self.block_ms,
        };
        now_ms.saturating_sub(entry.since_ms) < lasts_ms
    }

    /// How much a place says: nothing where it does not count any more.
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
        // What was let in before may break off meanwhile.
        assert_eq!(flapping.record_loss("a", NOW_MS + 29_998), FlappingUpdate::default());
        assert!(!flapping.is_blocked("a", NOW_MS + 29_999), "its time is over");
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
        let mut forgotten = 0;
        for number in 0..4 * CLIENTS_MAX {
            forgotten += usize::from(flapping.record_loss(&number.to_string(), NOW_MS).has_evicted);
        }
        assert!((3 * CLIENTS_MAX..4 * CLIENTS_MAX).contains(&forgotten), "{forgotten}");
        assert!(flapping.is_blocked("held", NOW_MS));
        assert!(!flapping.record_loss("later", NOW_MS + 30_000).has_evicted, "the others say nothing any more");
    }
}
