//! A cache of recently read groups, for slow clients and for many clients that connect at once.

use std::collections::BTreeMap;

use crate::names::Partition;
use crate::numbers::Sequence;

use super::{LogGroup, Messages, Span};

#[derive(Debug, Default)]
pub(crate) struct GroupCache {
    groups: BTreeMap<(Partition, Sequence), (Messages, u64)>,
    /// Keys by last use.
    by_use: BTreeMap<u64, (Partition, Sequence)>,
    last_use: u64,
    bytes: usize,
}

impl GroupCache {
    /// Caches the groups of a span, and evicts the least recently used ones. Returns the number of evicted groups.
    pub(crate) fn insert(&mut self, span: &Span, max_bytes: usize) -> u64 {
        for group in &span.groups {
            let place = (span.partition, group.sequence);
            self.last_use += 1;
            self.by_use.insert(self.last_use, place);
            self.bytes += group.messages.bytes();
            if let Some((before, used)) = self.groups.insert(place, (group.messages.clone(), self.last_use)) {
                self.bytes -= before.bytes();
                self.by_use.remove(&used);
            }
        }
        let mut dropped = 0;
        while max_bytes < self.bytes
            && let Some((_, place)) = self.by_use.pop_first()
        {
            self.bytes -= self.groups.remove(&place).map_or(0, |(messages, _)| messages.bytes());
            dropped += 1;
        }
        dropped
    }

    /// Returns the cached part of the span from a sequence on.
    pub(crate) fn span(&mut self, partition: Partition, from: Sequence, max_bytes: usize) -> Option<Span> {
        let mut span = Span { partition, from, until: from, groups: Vec::new(), lost: 0 };
        let mut bytes = 0;
        while let Some((messages, used)) = self.groups.get_mut(&(partition, span.until)) {
            bytes += messages.bytes();
            if !span.groups.is_empty() && max_bytes < bytes {
                break;
            }
            self.by_use.remove(used);
            self.last_use += 1;
            *used = self.last_use;
            self.by_use.insert(self.last_use, (partition, span.until));
            span.groups.push(LogGroup { sequence: span.until, messages: messages.clone() });
            span.until = Sequence(span.until.0.saturating_add(1));
        }
        (!span.groups.is_empty()).then_some(span)
    }
}
