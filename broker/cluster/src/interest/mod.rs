//! What a node listens to on the bus: the patterns of its clients' filters, counted by reference.
//!
//! Each pattern costs memory, on this node and on the bus. So from more than [`SIBLINGS_MAX`] on that differ in one level alone, a node listens to
//! one with a wildcard there; and from [`PATTERNS_MAX`] on, to prefixes. Then it gets more than it wants.

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

/// Patterns with one parent level that each have another token behind it. From more on, one stands for all of them.
pub const SIBLINGS_MAX: usize = 256;

/// Siblings are looked for when there are more patterns by this part than when that was done last.
const SIBLING_CHECK_FRACTION: usize = 8;

/// A node that would listen to more patterns listens to their first two levels; if these are more, to one level; and if these are, to everything.
pub const PATTERNS_MAX: usize = 20_000;
/// It listens to longer ones again when there are no more of them than this.
pub const PATTERNS_FEW: usize = PATTERNS_MAX / 2;

/// How many levels of a pattern count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Depth {
    All,
    Two,
    One,
    None,
}

const DEPTHS: [Depth; 4] = [Depth::All, Depth::Two, Depth::One, Depth::None];

/// Something for the bus to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Bring what matches this pattern.
    AddInterest(String),
    /// Bring it no more.
    RemoveInterest(String),
}

/// To what a node listens.
#[derive(Debug)]
pub struct Interest {
    /// Patterns of the filters, and how often each is wanted.
    patterns: BTreeMap<Box<str>, u32>,
    siblings: Siblings,
    /// How many patterns there were when siblings were looked for.
    last_check: usize,
    /// Patterns of the filters, widened and cut to each depth, and how many of them become each.
    wanted: [BTreeMap<String, u64>; DEPTHS.len()],
    depth: Depth,
    /// What the bus has been told to listen to.
    told: BTreeSet<String>,
    /// Patterns that the bus has confirmed: one of these counts for each message.
    confirmed: Patterns,
    /// Patterns that are not wanted, or not so long or so wide. They go when nothing is awaited any more.
    leaving: BTreeSet<String>,
    /// Patterns that take their place, and are not confirmed.
    awaited: BTreeSet<String>,
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
    /// Nothing is listened to. More than `siblings_max` patterns that differ in one level become one. More than `max` patterns become shorter, and
    /// longer again from `few` on.
    pub fn with_limits(max: usize, few: usize, siblings_max: usize) -> Interest {
        Interest {
            patterns: BTreeMap::new(),
            siblings: Siblings::default(),
            last_check: 0,
            wanted: Default::default(),
            depth: Depth::All,
            told: BTreeSet::new(),
            confirmed: Patterns::default(),
            leaving: BTreeSet::new(),
            awaited: BTreeSet::new(),
            max,
            few,
            siblings_max,
        }
    }

    /// A filter of a connected client.
    pub fn add(&mut self, filter: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.patterns.is_empty() {
            // Topics whose subject is a digest match any filter, as far as a subject can tell.
            self.want(DIGESTS, &mut changes);
        }
        for pattern in patterns_of(filter) {
            self.want(&pattern, &mut changes);
        }
        self.settle(&mut changes);
        changes
    }

    /// A filter is gone. Each is counted, so nothing is said twice that was said once.
    pub fn remove(&mut self, filter: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        for pattern in patterns_of(filter) {
            self.unwant(&pattern, &mut changes);
        }
        if self.patterns.len() == 1 && self.patterns.contains_key(DIGESTS) {
            self.unwant(DIGESTS, &mut changes);
        }
        self.settle(&mut changes);
        changes
    }

    /// The bus listens to a pattern now.
    pub fn confirm(&mut self, pattern: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.told.contains(pattern) {
            self.confirmed.insert(pattern);
            self.awaited.remove(pattern);
            self.leave(&mut changes);
        }
        changes
    }

    /// Whether the copy of a message that came by this pattern is the one that counts: the first pattern in the order of bytes, of those that the
    /// bus has confirmed and that match.
    pub fn counts(&self, pattern: &str, subject: &str) -> bool {
        match self.confirmed.first_match(subject) {
            _ if is(Mutant::CountsAllCopies) => true,
            Some(first) => first == pattern,
            // It came before its confirmation. Nobody else can have brought it.
            None => {
                self.told.iter().find(|told| crate::subject::matches(told, subject)).is_some_and(|told| told == pattern)
            }
        }
    }

    /// What the bus has been told to listen to.
    pub fn told(&self) -> impl Iterator<Item = &str> {
        self.told.iter().map(String::as_str)
    }

    /// To how many patterns the node listens.
    pub fn len(&self) -> usize {
        self.told.len()
    }

    /// Whether it listens to nothing.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Whether it listens to more than is wanted.
    pub fn is_coarse(&self) -> bool {
        self.depth != Depth::All || self.siblings.have_wildcard()
    }

    fn want(&mut self, pattern: &str, changes: &mut Vec<Change>) {
        let count = self.patterns.entry(pattern.into()).or_default();
        *count += 1;
        if *count == 1 {
            self.want_widened(&self.siblings.widened(pattern), changes);
        }
    }

    fn want_widened(&mut self, pattern: &str, changes: &mut Vec<Change>) {
        for (depth, wanted) in DEPTHS.into_iter().zip(&mut self.wanted) {
            let pattern = cut(pattern, depth);
            if !count_one_more(wanted, &pattern) {
                // What is wanted already was counted in all shorter forms when it was wanted first.
                return;
            }
            if depth == self.depth {
                self.leaving.remove(&pattern);
                if self.told.insert(pattern.clone()) {
                    changes.push(Change::AddInterest(pattern));
                }
            }
        }
    }

    fn unwant(&mut self, pattern: &str, changes: &mut Vec<Change>) {
        let Some(count) = self.patterns.get_mut(pattern) else { return };
        *count -= 1;
        if *count == 0 {
            self.patterns.remove(pattern);
            self.unwant_widened(&self.siblings.widened(pattern), changes);
        }
    }

    fn unwant_widened(&mut self, pattern: &str, changes: &mut Vec<Change>) {
        let mut gone = None;
        for (depth, wanted) in DEPTHS.into_iter().zip(&mut self.wanted) {
            let pattern = cut(pattern, depth);
            let Some(count) = wanted.get_mut(&pattern) else { break };
            *count -= 1;
            if *count > 0 {
                break;
            }
            wanted.remove(&pattern);
            gone = if depth == self.depth { Some(pattern) } else { gone };
        }
        let Some(pattern) = gone else { return };
        self.awaited.remove(&pattern);
        if self.confirmed.contains(&pattern) && !self.awaited.is_empty() {
            // What is awaited may be for messages that only this pattern brings so far.
            self.leaving.insert(pattern);
        } else {
            self.remove_interest(pattern, changes);
        }
    }

    /// Looks for siblings once there are so many more patterns than when that was done last, or half as many. Says whether others are to be
    /// listened to now.
    fn find_siblings(&mut self) -> bool {
        let (count, before) = (self.patterns.len(), self.last_check.max(self.siblings_max));
        // What each takes that is listened to for itself is many times what a look at it does.
        let has_grown = count > before.saturating_add(before / SIBLING_CHECK_FRACTION);
        let has_shrunk = self.siblings.have_wildcard() && count < before / 2;
        if !has_grown && !has_shrunk {
            return false;
        }
        self.last_check = count;
        let siblings = Siblings::of(self.patterns.keys().map(|pattern| &**pattern), self.siblings_max);
        if siblings == self.siblings {
            return false;
        }
        self.siblings = siblings;
        self.wanted = Default::default();
        for pattern in self.patterns.keys() {
            let widened = self.siblings.widened(pattern);
            let mut depths = DEPTHS.into_iter().zip(&mut self.wanted);
            let _ = depths.all(|(depth, wanted)| count_one_more(wanted, &cut(&widened, depth)));
        }
        true
    }

    /// Changes the depth if there are too many patterns, or so few that longer ones will do.
    fn settle(&mut self, changes: &mut Vec<Change>) {
        let are_others = self.find_siblings();
        let is_too_much = |depth: &Depth, max| self.wanted[*depth as usize].len() > max && *depth != Depth::None;
        let finest = |max| DEPTHS.into_iter().find(|depth| !is_too_much(depth, max)).unwrap_or(Depth::None);
        let depth = match is_too_much(&self.depth, self.max) {
            true => finest(self.max),
            false => self.depth.min(finest(self.few)),
        };
        if depth == self.depth && !are_others {
            return self.leave(changes);
        }
        self.depth = depth;
        let wanted = &self.wanted[depth as usize];
        self.leaving = self.told.iter().filter(|pattern| !wanted.contains_key(*pattern)).cloned().collect();
        self.awaited = wanted.keys().filter(|pattern| !self.confirmed.contains(pattern)).cloned().collect();
        for pattern in wanted.keys().filter(|pattern| !self.told.contains(*pattern)) {
            changes.push(Change::AddInterest(pattern.clone()));
        }
        self.told.extend(wanted.keys().cloned());
        self.leave(changes);
    }

    /// Lets go of what is not wanted any more, once what takes its place is confirmed.
    fn leave(&mut self, changes: &mut Vec<Change>) {
        if self.awaited.is_empty() || is(Mutant::UnlistensFirst) {
            for pattern in std::mem::take(&mut self.leaving) {
                self.remove_interest(pattern, changes);
            }
        }
    }

    fn remove_interest(&mut self, pattern: String, changes: &mut Vec<Change>) {
        self.told.remove(&pattern);
        self.confirmed.remove(&pattern);
        changes.push(Change::RemoveInterest(pattern));
    }
}

/// Says whether it is the first.
fn count_one_more(wanted: &mut BTreeMap<String, u64>, pattern: &str) -> bool {
    let count = wanted.entry(pattern.to_owned()).or_default();
    *count += 1;
    *count == 1
}

/// A pattern that matches all that `pattern` does, with this many levels.
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
