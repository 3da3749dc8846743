//! Tests the interest of a node with a bus that delivers each message once per matching pattern.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tautwire_cluster::interest::{Change, Interest, PATTERNS_FEW, PATTERNS_MAX, SIBLINGS_MAX};
use tautwire_cluster::mutant::{Mutant, mutate};
use tautwire_cluster::names::Seed;
use tautwire_cluster::subject::{DIGESTS, matches, patterns_of, subject_of};

const SEED: Seed = Seed([3; 16]);
const FILTERS: [&str; 14] =
    ["a", "a/b", "a/+", "a/#", "#", "+/b", "+/#", "a/b/c", "a/b/+", "a/b/#", "c/d/e", "c/d/f", "!/b", "/"];
const TOPICS: [&str; 9] = ["a", "a/b", "a/b/c", "a/x", "c/d/e", "c/d/f", "!/b", "/", "z/z/z"];

/// A node and its part of the bus.
struct Bus {
    interest: Interest,
    filters: BTreeMap<&'static str, usize>,
    patterns: BTreeSet<String>,
    unconfirmed: Vec<String>,
    /// Filters that existed when all patterns were confirmed. Their messages must arrive from then on, even while patterns change.
    settled: BTreeSet<&'static str>,
}

impl Bus {
    fn new(max: usize, few: usize, siblings_max: usize) -> Bus {
        let interest = Interest::with_limits(max, few, siblings_max);
        let (filters, patterns, settled) = Default::default();
        Bus { interest, filters, patterns, unconfirmed: Vec::new(), settled }
    }

    fn add(&mut self, filter: &'static str) {
        *self.filters.entry(filter).or_default() += 1;
        let changes = self.interest.add(filter);
        self.take(changes);
    }

    fn remove(&mut self, filter: &'static str) {
        let Some(count) = self.filters.get_mut(filter) else { return };
        *count -= 1;
        if *count == 0 {
            self.filters.remove(filter);
            self.settled.remove(filter);
        }
        let changes = self.interest.remove(filter);
        self.take(changes);
    }

    fn confirm(&mut self, nth: usize) {
        if self.unconfirmed.is_empty() {
            return;
        }
        let pattern = self.unconfirmed.remove(nth % self.unconfirmed.len());
        let changes = self.interest.confirm(&pattern);
        self.take(changes);
    }

    fn take(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::AddInterest(pattern) => {
                    assert!(self.patterns.insert(pattern.clone()), "{pattern} is listened to already");
                    self.unconfirmed.push(pattern);
                }
                Change::RemoveInterest(pattern) => {
                    assert!(self.patterns.remove(&pattern), "{pattern} is not listened to");
                    self.unconfirmed.retain(|unconfirmed| *unconfirmed != pattern);
                }
            }
        }
        if self.unconfirmed.is_empty() {
            self.settled = self.filters.keys().copied().collect();
        }
    }

    /// Returns how many copies of a message count, if the bus delivers what these patterns match.
    fn copies(&self, topic: &str, patterns: impl Iterator<Item = String>) -> usize {
        let subject = subject_of(topic, SEED);
        patterns.filter(|pattern| matches(pattern, &subject) && self.interest.counts(pattern, &subject)).count()
    }

    fn is_wanted(&self, topic: &str) -> bool {
        self.filters.keys().any(|filter| is_for(filter, topic))
    }
}

fn is_for(filter: &str, topic: &str) -> bool {
    patterns_of(filter).iter().any(|pattern| matches(pattern, &subject_of(topic, SEED)))
}

#[derive(Debug, Clone)]
enum Step {
    Add(usize),
    Remove(usize),
    Confirm(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..FILTERS.len()).prop_map(Step::Add),
        2 => (0..FILTERS.len()).prop_map(Step::Remove),
        3 => any::<usize>().prop_map(Step::Confirm),
    ]
}

fn live(steps: &[Step], max: usize, siblings_max: usize) {
    let mut bus = Bus::new(max, max / 2, siblings_max);
    for step in steps {
        match *step {
            Step::Add(filter) => bus.add(FILTERS[filter]),
            Step::Remove(filter) => bus.remove(FILTERS[filter]),
            Step::Confirm(nth) => bus.confirm(nth),
        }
        assert!(bus.patterns.len() <= 2 * (max + 1) || bus.interest.is_coarse());
        for topic in TOPICS {
            let is_settled = bus.settled.iter().any(|filter| is_for(filter, topic));
            assert!(!is_settled || brings(&bus, topic), "{topic} no longer arrives: {:?}", bus.patterns);
        }
        for topic in TOPICS {
            // The bus delivers it by all patterns that it knows: all confirmed ones, and any of the others.
            assert!(bus.copies(topic, bus.patterns.iter().cloned()) <= 1, "{topic} arrives twice");
        }
    }
    while !bus.unconfirmed.is_empty() {
        bus.confirm(0);
    }
    for topic in TOPICS {
        let copies = bus.copies(topic, bus.patterns.iter().cloned());
        assert!(copies == 1 || !bus.is_wanted(topic) && copies <= 1, "{topic}: {copies} by {:?}", bus.patterns);
    }
    assert_eq!(
        brings(&bus, &"deep/".repeat(40)),
        !bus.filters.is_empty(),
        "{DIGESTS} is among the subscribed patterns"
    );
    assert_eq!(bus.patterns.is_empty(), bus.filters.is_empty());
}

/// Whether a message arrives by the confirmed patterns alone.
fn brings(bus: &Bus, topic: &str) -> bool {
    let confirmed = bus.patterns.iter().filter(|pattern| !bus.unconfirmed.contains(pattern)).cloned();
    bus.copies(topic, confirmed) == 1
}

proptest! {
    #[test]
    fn each_message_arrives_once_while_filters_change(
        steps in prop::collection::vec(step(), 1..60),
        max in 2usize..30,
        siblings_max in prop_oneof![1usize..4, Just(usize::MAX)],
    ) {
        live(&steps, max, siblings_max);
    }
}

/// Patterns become narrow again, and are not confirmed yet, when the wide pattern is removed that a client had subscribed to itself.
#[test]
fn a_pattern_is_kept_until_its_replacements_are_confirmed() {
    use Step::{Add, Confirm, Remove};
    let is_wide = [Add(12), Add(5), Add(11), Add(9), Remove(11), Confirm(0), Confirm(1), Confirm(4)];
    let is_narrow = [Add(0), Add(6), Add(2), Add(3), Remove(0), Add(0), Add(0), Add(0), Remove(5)];
    live(&[&is_wide[..], &is_narrow].concat(), 10, 2);
}

#[test]
fn faults_of_interest_are_found() {
    let steps: Vec<_> = (0..FILTERS.len())
        .flat_map(|filter| [Step::Add(filter), Step::Confirm(0), Step::Confirm(0), Step::Confirm(0)])
        .chain((0..FILTERS.len()).flat_map(|filter| [Step::Remove(filter), Step::Confirm(0)]))
        .collect();
    live(&steps, 6, usize::MAX);
    for mutant in [Mutant::CountsAllCopies, Mutant::RemovesPatternsFirst] {
        mutate(Some(mutant));
        let found = std::panic::catch_unwind(|| live(&steps, 6, usize::MAX)).is_err();
        mutate(None);
        assert!(found, "{mutant:?}");
    }
}

#[test]
fn many_clients_with_one_topic_each_share_a_pattern() {
    let mut interest = Interest::default();
    let mut listened = BTreeSet::new();
    let mut carry_out = |interest: &mut Interest, changes: Vec<Change>| {
        let mut changes = std::collections::VecDeque::from(changes);
        while let Some(change) = changes.pop_front() {
            match change {
                Change::AddInterest(pattern) => {
                    changes.extend(interest.confirm(&pattern));
                    listened.insert(pattern);
                }
                Change::RemoveInterest(pattern) => drop(listened.remove(&pattern)),
            }
        }
        listened.len()
    };
    let filters: Vec<_> = (0..10_000).map(|n| format!("device/{n}/command")).collect();
    let mut most = 0;
    for filter in &filters {
        let changes = interest.add(filter);
        most = most.max(carry_out(&mut interest, changes));
    }
    assert!(most <= SIBLINGS_MAX / 8 * 9 + 3, "{most}");
    assert!(interest.len() == 2 && interest.is_coarse(), "one, and the one for digests");
    assert!(interest.counts("device.*.command", "device.7.command"));
    for filter in &filters[100..] {
        let changes = interest.remove(filter);
        carry_out(&mut interest, changes);
    }
    assert!(interest.len() == 101 && !interest.is_coarse(), "few are listened to one by one again");
}

#[test]
fn too_many_patterns_become_prefixes_and_are_restored_later() {
    let mut interest = Interest::with_limits(PATTERNS_MAX, PATTERNS_FEW, usize::MAX);
    let filters: Vec<_> = (0..PATTERNS_MAX).map(|n| format!("site/{}/sensor/{n}", n % 50)).collect();
    for filter in &filters {
        for change in interest.add(filter) {
            if let Change::AddInterest(pattern) = change
                && !interest.is_coarse()
            {
                interest.confirm(&pattern);
            }
        }
    }
    // The patterns of the clients and the one for digests: one too many.
    assert!(
        interest.is_coarse() && interest.len() > PATTERNS_MAX,
        "the old ones stay until the new ones are confirmed"
    );
    let prefixes: Vec<_> = (0..50).map(|n| format!("site.{n}.>")).collect();
    let changes: Vec<_> = prefixes.iter().map(|prefix| interest.confirm(prefix).len()).collect();
    assert_eq!((changes[..49].iter().sum::<usize>(), changes[49]), (0, PATTERNS_MAX));
    assert_eq!(interest.len(), 51);
    assert!(interest.counts("site.7.>", "site.7.sensor.7"));
    let changed_at = filters.iter().position(|filter| !interest.remove(filter).is_empty());
    assert_eq!(changed_at, Some(PATTERNS_MAX - PATTERNS_FEW), "not before half of them are removed");
    assert!(!interest.is_coarse());
}
