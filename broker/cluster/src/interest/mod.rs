//! The patterns that a node subscribes to on the bus: those of its clients' filters, with reference counts.
//!
//! Each pattern costs memory, on this node and on the bus. So if more than [`SIBLINGS_MAX`] patterns differ in only one level, the node
//! subscribes to one with a wildcard there, and above [`PATTERNS_MAX`] patterns, to prefixes. It then receives more messages than it needs.

mod patterns;
mod probe;
mod siblings;
mod sync;

use std::collections::{BTreeMap, BTreeSet};

use crate::mutant::{Mutant, is};
use crate::subject::{DIGESTS, patterns_of};
use patterns::Patterns;
pub(crate) use probe::ProbeMessage;
use siblings::Siblings;
pub(crate) use sync::{InterestSync, InterestSyncContext};

/// The number of patterns with the same parent level above which one wildcard pattern replaces them.
pub const SIBLINGS_MAX: usize = 256;

/// Siblings are searched again when the number of patterns has grown by this fraction since the last search.
const SIBLING_CHECK_FRACTION: usize = 8;

/// Above this number of patterns, a node subscribes to their first two levels; if these are still more, to one level, and then to
/// everything.
pub const PATTERNS_MAX: usize = 20_000;
/// Longer patterns are used again when there are at most this many of them.
pub const PATTERNS_FEW: usize = PATTERNS_MAX / 2;

/// The number of levels of a pattern that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Depth {
    All,
    Two,
    One,
    None,
}

const DEPTHS: [Depth; 4] = [Depth::All, Depth::Two, Depth::One, Depth::None];

/// An instruction for the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Subscribe to this pattern.
    AddInterest(String),
    /// Unsubscribe from this pattern.
    RemoveInterest(String),
}

/// The patterns that a node subscribes to.
#[derive(Debug)]
pub struct Interest {
    /// Patterns of the filters, with reference counts.
    patterns: BTreeMap<Box<str>, u32>,
    siblings: Siblings,
    /// The number of patterns at the last search for siblings.
    last_check: usize,
    /// Patterns of the filters, widened and cut to each depth, with the number of patterns that become each.
    needed: [BTreeMap<String, u64>; DEPTHS.len()],
    depth: Depth,
    /// The patterns that the bus was told to subscribe to.
    subscribed: BTreeSet<String>,
    /// Patterns that the bus has confirmed. For each message, one of them counts.
    confirmed: Patterns,
    /// Patterns that are no longer needed in this form. They are removed when no confirmation is awaited.
    obsolete: BTreeSet<String>,
    /// Patterns that replace them and are not confirmed.
    unconfirmed: BTreeSet<String>,
    max: usize,
    few: usize,
    siblings_max: usize,
}

impl Default for Interest {
    fn default() -> Interest {
        Interest::with_limits(PATTERNS_MAX, PATTERNS_FEW, SIBLINGS_MAX)
    }
}

impl Interest {
    /// Creates an empty set. More than `siblings_max` patterns that differ in one level become one. Above `max` patterns they are
    /// shortened, and at `few` lengthened again.
    pub fn with_limits(max: usize, few: usize, siblings_max: usize) -> Interest {
        Interest {
            patterns: BTreeMap::new(),
            siblings: Siblings::default(),
            last_check: 0,
            needed: Default::default(),
            depth: Depth::All,
            subscribed: BTreeSet::new(),
            confirmed: Patterns::default(),
            obsolete: BTreeSet::new(),
            unconfirmed: BTreeSet::new(),
            max,
            few,
            siblings_max,
        }
    }

    /// Adds a filter of a connected client.
    pub fn add(&mut self, filter: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.patterns.is_empty() {
            // Topics whose subject is a digest match any filter, as far as the subject tells.
            self.add_pattern(DIGESTS, &mut changes);
        }
        for pattern in patterns_of(filter) {
            self.add_pattern(&pattern, &mut changes);
        }
        self.adjust_depth(&mut changes);
        changes
    }

    /// Removes a filter. Filters are counted, so each must be removed as often as it was added.
    pub fn remove(&mut self, filter: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        for pattern in patterns_of(filter) {
            self.remove_pattern(&pattern, &mut changes);
        }
        if self.patterns.len() == 1 && self.patterns.contains_key(DIGESTS) {
            self.remove_pattern(DIGESTS, &mut changes);
        }
        self.adjust_depth(&mut changes);
        changes
    }

    /// The bus has confirmed a pattern.
    pub fn confirm(&mut self, pattern: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.subscribed.contains(pattern) {
            self.confirmed.insert(pattern);
            self.unconfirmed.remove(pattern);
            self.remove_obsolete(&mut changes);
        }
        changes
    }

    /// Whether the copy of a message that arrived by this pattern counts: it must be the first confirmed pattern, in byte order, that
    /// matches.
    pub fn counts(&self, pattern: &str, subject: &str) -> bool {
        match self.confirmed.first_match(subject) {
            _ if is(Mutant::CountsAllCopies) => true,
            Some(first) => first == pattern,
            // It arrived before the confirmation, so no other pattern can have delivered it.
            None => self
                .subscribed
                .iter()
                .find(|subscribed| crate::subject::matches(subscribed, subject))
                .is_some_and(|subscribed| subscribed == pattern),
        }
    }

    /// Returns the patterns that the bus was told to subscribe to.
    pub fn subscribed(&self) -> impl Iterator<Item = &str> {
        self.subscribed.iter().map(String::as_str)
    }

    /// Returns the number of subscribed patterns.
    pub fn len(&self) -> usize {
        self.subscribed.len()
    }

    /// Whether no pattern is subscribed.
    pub fn is_empty(&self) -> bool {
        self.subscribed.is_empty()
    }

    /// Whether the patterns match more than needed.
    pub fn is_coarse(&self) -> bool {
        self.depth != Depth::All || self.siblings.has_wildcard()
    }

    fn add_pattern(&mut self, pattern: &str, changes: &mut Vec<Change>) {
        let count = self.patterns.entry(pattern.into()).or_default();
        *count += 1;
        if *count == 1 {
            self.add_widened(&self.siblings.widened(pattern), changes);
        }
    }

    fn add_widened(&mut self, pattern: &str, changes: &mut Vec<Change>) {
        for (depth, needed) in DEPTHS.into_iter().zip(&mut self.needed) {
            let pattern = cut(pattern, depth);
            if !count_one_more(needed, &pattern) {
                // The pattern was already counted in all shorter forms.
                return;
            }
            if depth == self.depth {
                self.obsolete.remove(&pattern);
                if self.subscribed.insert(pattern.clone()) {
                    changes.push(Change::AddInterest(pattern));
                }
            }
        }
    }

    fn remove_pattern(&mut self, pattern: &str, changes: &mut Vec<Change>) {
        let Some(count) = self.patterns.get_mut(pattern) else { return };
        *count -= 1;
        if *count == 0 {
            self.patterns.remove(pattern);
            self.remove_widened(&self.siblings.widened(pattern), changes);
        }
    }

    fn remove_widened(&mut self, pattern: &str, changes: &mut Vec<Change>) {
        let mut gone = None;
        for (depth, needed) in DEPTHS.into_iter().zip(&mut self.needed) {
            let pattern = cut(pattern, depth);
            let Some(count) = needed.get_mut(&pattern) else { break };
            *count -= 1;
            if *count > 0 {
                break;
            }
            needed.remove(&pattern);
            gone = if depth == self.depth { Some(pattern) } else { gone };
        }
        let Some(pattern) = gone else { return };
        self.unconfirmed.remove(&pattern);
        if self.confirmed.contains(&pattern) && !self.unconfirmed.is_empty() {
            // A replacement is not confirmed yet, so only this pattern may deliver some messages.
            self.obsolete.insert(pattern);
        } else {
            self.remove_interest(pattern, changes);
        }
    }

    /// Searches for siblings when the number of patterns has grown enough since the last search, or has halved. Returns whether the
    /// patterns have changed.
    fn find_siblings(&mut self) -> bool {
        let (count, before) = (self.patterns.len(), self.last_check.max(self.siblings_max));
        // Subscribing to a pattern costs many times as much as examining it.
        let has_grown = count > before.saturating_add(before / SIBLING_CHECK_FRACTION);
        let has_shrunk = self.siblings.has_wildcard() && count < before / 2;
        if !has_grown && !has_shrunk {
            return false;
        }
        self.last_check = count;
        let siblings = Siblings::of(self.patterns.keys().map(|pattern| &**pattern), self.siblings_max);
        if siblings == self.siblings {
            return false;
        }
        self.siblings = siblings;
        self.needed = Default::default();
        for pattern in self.patterns.keys() {
            let widened = self.siblings.widened(pattern);
            let mut depths = DEPTHS.into_iter().zip(&mut self.needed);
            let _ = depths.all(|(depth, needed)| count_one_more(needed, &cut(&widened, depth)));
        }
        true
    }

    /// Changes the depth if there are too many patterns, or few enough for longer ones.
    fn adjust_depth(&mut self, changes: &mut Vec<Change>) {
        let are_others = self.find_siblings();
        let is_too_much = |depth: &Depth, max| self.needed[*depth as usize].len() > max && *depth != Depth::None;
        let finest = |max| DEPTHS.into_iter().find(|depth| !is_too_much(depth, max)).unwrap_or(Depth::None);
        let depth = match is_too_much(&self.depth, self.max) {
            true => finest(self.max),
            false => self.depth.min(finest(self.few)),
        };
        if depth == self.depth && !are_others {
            return self.remove_obsolete(changes);
        }
        self.depth = depth;
        let needed = &self.needed[depth as usize];
        self.obsolete = self.subscribed.iter().filter(|pattern| !needed.contains_key(*pattern)).cloned().collect();
        self.unconfirmed = needed.keys().filter(|pattern| !self.confirmed.contains(pattern)).cloned().collect();
        for pattern in needed.keys().filter(|pattern| !self.subscribed.contains(*pattern)) {
            changes.push(Change::AddInterest(pattern.clone()));
        }
        self.subscribed.extend(needed.keys().cloned());
        self.remove_obsolete(changes);
    }

    /// Removes patterns that are no longer needed, once their replacements are confirmed.
    fn remove_obsolete(&mut self, changes: &mut Vec<Change>) {
        if self.unconfirmed.is_empty() || is(Mutant::RemovesPatternsFirst) {
            for pattern in std::mem::take(&mut self.obsolete) {
                self.remove_interest(pattern, changes);
            }
        }
    }

    fn remove_interest(&mut self, pattern: String, changes: &mut Vec<Change>) {
        self.subscribed.remove(&pattern);
        self.confirmed.remove(&pattern);
        changes.push(Change::RemoveInterest(pattern));
    }
}

/// Returns whether it is the first.
fn count_one_more(needed: &mut BTreeMap<String, u64>, pattern: &str) -> bool {
    let count = needed.entry(pattern.to_owned()).or_default();
    *count += 1;
    *count == 1
}

/// Returns a pattern with this many levels that matches everything that `pattern` does.
fn cut(pattern: &str, depth: Depth) -> String {
    let levels = match depth {
        Depth::All => return pattern.to_owned(),
        Depth::Two => 2,
        Depth::One => 1,
        Depth::None => return ">".to_owned(),
    };
    match pattern.match_indices('.').nth(levels - 1) {
        Some((at, _)) => format!("{}.>", &pattern[..at]),
        None => pattern.to_owned(),
    }
}
