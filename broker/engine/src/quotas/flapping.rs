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
    breaks: u32,
    /// within this time, from the first of them on.
    within_ms: u64,
    /// So long it stays outside then.
    hold_ms: u64,
}

impl FlappingRule {
    /// `None` where nobody is held back.
    pub(crate) fn new(breaks: u32, within_s: u32, hold_s: u32) -> Option<FlappingRule> {
        let (within_ms, hold_ms) = (u64::from(within_s) * 1_000, u64::from(hold_s) * 1_000);
        (breaks > 0).then_some(FlappingRule { breaks, within_ms, hold_ms })
    }
}

/// What is known of the clients whose connections break off.
#[derive(Debug)]
pub(crate) struct Flapping {
    rule: FlappingRule,
    /// Empty until the first place is needed.
    sets: Box<[[Option<Place>; WAYS]]>,
    /// Seeded, so that nobody can aim at the place of another.
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// A hash of the Client Identifier: two that share one would be counted together, which never happens.
    client: u64,
    /// When the first one broke off that counts, or when the client began to be held back.
    since_ms: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Counted(u32),
    HeldBack,
}

/// What comes of a connection that has broken off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// The client is held back from now on.
    pub(crate) holds_back: bool,
    /// What was known of another one was forgotten for it.
    pub(crate) has_forgotten: bool,
}

impl Flapping {
    pub(crate) fn new(rule: FlappingRule) -> Flapping {
        Flapping { rule, sets: Box::default(), hasher: RandomState::new() }
    }

    /// From now on another rule holds. What is remembered stays.
    pub(crate) fn keep_to(&mut self, rule: FlappingRule) {
        self.rule = rule;
    }

    /// Whether the client stays outside.
    pub(crate) fn holds_back(&self, client_id: &str, now_ms: u64) -> bool {
        if self.sets.is_empty() {
            return false;
        }
        let client = self.hasher.hash_one(client_id);
        let place = self.sets[set_of(client)].iter().flatten().find(|place| place.client == client);
        place.is_some_and(|place| place.state == State::HeldBack && self.rule.counts(place, now_ms))
    }

    /// A connection of the client has broken off.
    pub(crate) fn note(&mut self, client_id: &str, now_ms: u64) -> Noted {
        if self.sets.is_empty() {
            self.sets = vec![[None; WAYS]; SETS].into();
        }
        let rule = self.rule;
        let client = self.hasher.hash_one(client_id);
        let set = &mut self.sets[set_of(client)];
        let known = set.iter().position(|place| place.is_some_and(|place| place.client == client));
        // The one goes that says least.
        let at = known.or_else(|| (0..WAYS).min_by_key(|at| rule.weight(set[*at].as_ref(), now_ms))).unwrap_or(0);
        let has_forgotten = known.is_none() && rule.weight(set[at].as_ref(), now_ms) > 0;
        let before = set[at].filter(|place| known.is_some() && rule.counts(place, now_ms));
        let (since_ms, count) = match before {
            // It goes on with the one that it has.
            Some(Place { state: State::HeldBack, .. }) => return Noted::default(),
            Some(Place { state: State::Counted(count), since_ms, .. }) => (since_ms, count + 1),
            None => (now_ms, 1),
        };
        let holds_back = count >= rule.breaks;
        let (since_ms, state) = if holds_back { (now_ms, State::HeldBack) } else { (since_ms, State::Counted(count)) };
        set[at] = Some(Place { client, since_ms, state });
        Noted { holds_back, has_forgotten }
    }
}

fn set_of(client: u64) -> usize {
    client as usize % SETS
}

impl FlappingRule {
    /// Whether a place still says something.
    fn counts(self, place: &Place, now_ms: u64) -> bool {
        let lasts_ms = match place.state {
            State::Counted(_) => self.within_ms,
            State::HeldBack => self.hold_ms,
        };
        now_ms.saturating_sub(place.since_ms) < lasts_ms
    }

    /// How much a place says: nothing where it does not count any more.
    fn weight(self, place: Option<&Place>, now_ms: u64) -> u32 {
        match place.filter(|place| self.counts(place, now_ms)).map(|place| place.state) {
            None => 0,
            Some(State::Counted(count)) => count,
            Some(State::HeldBack) => u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn flapping(breaks: u32) -> Flapping {
        Flapping::new(FlappingRule::new(breaks, 10, 20).expect("a rule"))
    }

    #[test]
    fn a_client_is_held_back_when_so_many_have_broken_off_and_for_so_long() {
        assert!(FlappingRule::new(0, 10, 20).is_none());
        let mut flapping = flapping(3);
        assert!(!flapping.holds_back("a", NOW_MS));
        assert!(!flapping.note("a", NOW_MS).holds_back);
        assert!(!flapping.note("a", NOW_MS + 5_000).holds_back);
        assert!(!flapping.holds_back("a", NOW_MS + 5_000));
        assert!(flapping.note("a", NOW_MS + 9_999).holds_back);
        assert!(flapping.holds_back("a", NOW_MS + 29_998) && !flapping.holds_back("b", NOW_MS + 29_998));
        // What was let in before may break off meanwhile.
        assert_eq!(flapping.note("a", NOW_MS + 29_998), Noted::default());
        assert!(!flapping.holds_back("a", NOW_MS + 29_999), "its time is over");
        assert!(!flapping.note("a", NOW_MS + 30_000).holds_back, "it is counted anew");
    }

    #[test]
    fn another_rule_holds_for_what_is_remembered() {
        let mut flapping = flapping(3);
        assert!(!flapping.note("a", NOW_MS).holds_back);
        flapping.keep_to(FlappingRule::new(2, 10, 5).expect("a rule"));
        assert!(flapping.note("a", NOW_MS).holds_back);
        assert!(flapping.holds_back("a", NOW_MS + 4_999) && !flapping.holds_back("a", NOW_MS + 5_000));
    }

    #[test]
    fn those_that_break_off_now_and_then_are_let_in() {
        let mut flapping = flapping(3);
        for number in 0..100 {
            assert!(!flapping.note("a", NOW_MS + number * 5_001).holds_back, "{number}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_those_held_back_are_forgotten_last() {
        assert!(size_of::<Option<Place>>() <= 24);
        let mut flapping = flapping(2);
        assert!(!flapping.note("held", NOW_MS).holds_back && flapping.note("held", NOW_MS).holds_back);
        let mut forgotten = 0;
        for number in 0..4 * CLIENTS_MAX {
            forgotten += usize::from(flapping.note(&number.to_string(), NOW_MS).has_forgotten);
        }
        assert!((3 * CLIENTS_MAX..4 * CLIENTS_MAX).contains(&forgotten), "{forgotten}");
        assert!(flapping.holds_back("held", NOW_MS));
        assert!(!flapping.note("later", NOW_MS + 30_000).has_forgotten, "the others say nothing any more");
    }
}
