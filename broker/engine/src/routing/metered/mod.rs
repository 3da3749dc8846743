//! Message counts for topic filters that an operator has configured.
//!
//! The match cache stores which of the filters match a topic, so a message of another topic costs one comparison.

mod steps;

use std::sync::Arc;

use tautwire_protocol::topic_matches;

use crate::counters::{Counter, Counters};

/// The maximum number of metered topic filters.
pub const METERED_FILTERS_MAX: usize = 64;

/// The metered filters that match a topic, one bit for each.
pub(crate) type Meters = u64;

/// The counts of one shard for one filter.
#[derive(Debug, Default)]
struct Counts {
    received: [Counter; 3],
    received_bytes: Counter,
    delivered: Counter,
    delivered_bytes: Counter,
    dropped: Counter,
}

/// A filter with the counts of each shard.
#[derive(Debug)]
struct Metered {
    filter: Box<str>,
    shards: Box<[Counts]>,
}

/// The metered filters.
#[derive(Debug, Clone, Default)]
pub(crate) struct MeteredFilters(Arc<[Arc<Metered>]>);

/// The counts for a topic filter, over all shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicTotals {
    /// The filter.
    pub filter: Box<str>,
    /// Messages published, by QoS.
    pub received: [u64; 3],
    /// Bytes of their payloads.
    pub received_bytes: u64,
    /// Messages delivered to clients or to the queues of their sessions. One published message may count many times.
    pub delivered: u64,
    /// Bytes of their payloads, as they were published.
    pub delivered_bytes: u64,
    /// Messages that were dropped for a receiver because of a limit, or because the receiver does not accept them.
    pub dropped: u64,
}

impl MeteredFilters {
    /// Replaces the filters, using at most [`METERED_FILTERS_MAX`]. Filters that stay keep their counts.
    pub(crate) fn with_filters(&self, filters: &[Box<str>], shards: usize) -> MeteredFilters {
        let metered = |filter: &str| {
            let known = self.0.iter().find(|known| *known.filter == *filter);
            let shards = || (0..shards).map(|_| Counts::default()).collect();
            known.cloned().unwrap_or_else(|| Arc::new(Metered { filter: filter.into(), shards: shards() }))
        };
        MeteredFilters(filters.iter().take(METERED_FILTERS_MAX).map(|filter| metered(filter)).collect())
    }

    /// Whether the filters are the same as `filters`.
    pub(crate) fn has_filters(&self, filters: &[Box<str>]) -> bool {
        self.0.iter().map(|metered| &metered.filter).eq(filters.iter().take(METERED_FILTERS_MAX))
    }

    /// The counts, in the order of the filters.
    pub(crate) fn totals(&self) -> Vec<TopicTotals> {
        let total = |metered: &Arc<Metered>| {
            let sum = |counter: fn(&Counts) -> &Counter| {
                metered.shards.iter().fold(0_u64, |sum, counts| sum.wrapping_add(counter(counts).get()))
            };
            TopicTotals {
                filter: metered.filter.clone(),
                received: [
                    sum(|counts| &counts.received[0]),
                    sum(|counts| &counts.received[1]),
                    sum(|counts| &counts.received[2]),
                ],
                received_bytes: sum(|counts| &counts.received_bytes),
                delivered: sum(|counts| &counts.delivered),
                delivered_bytes: sum(|counts| &counts.delivered_bytes),
                dropped: sum(|counts| &counts.dropped),
            }
        };
        self.0.iter().map(total).collect()
    }

    /// The filters that match a topic.
    pub(crate) fn matching(&self, topic: &str) -> Meters {
        let bits =
            self.0.iter().enumerate().map(|(at, metered)| u64::from(topic_matches(&metered.filter, topic)) << at);
        bits.fold(0, |all, bit| all | bit)
    }

    /// Applies the filters of a new configuration. Returns whether they differ.
    pub(crate) fn apply(&mut self, metered: &MeteredFilters) -> bool {
        let has_changed = !Arc::ptr_eq(&self.0, &metered.0);
        self.0 = metered.0.clone();
        has_changed
    }
}

/// The counters of a shard before a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeterBaseline {
    deliveries: u64,
    dropped: u64,
}

fn dropped(counters: &Counters) -> u64 {
    [
        &counters.dropped_output_full,
        &counters.dropped_queue_full,
        &counters.dropped_memory_full,
        &counters.dropped_shard_queue_full,
        &counters.dropped_too_large,
        &counters.dropped_outside_mount,
        &counters.dropped_not_transcodable,
        &counters.dropped_no_member,
    ]
    .into_iter()
    .fold(0, |sum, counter| sum.wrapping_add(counter.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(names: &[&str]) -> Vec<Box<str>> {
        names.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn counts_continue_for_a_filter_that_stays() {
        let before = MeteredFilters::default().with_filters(&filters(&["a/#", "b"]), 2);
        assert!(before.has_filters(&filters(&["a/#", "b"])) && !before.has_filters(&filters(&["a/#"])));
        before.0[0].shards[0].received[1].add(2);
        before.0[0].shards[1].received[1].add(3);
        let after = before.with_filters(&filters(&["c", "a/#"]), 2);
        let totals = after.totals();
        assert_eq!((&*totals[0].filter, totals[0].received), ("c", [0, 0, 0]));
        assert_eq!((&*totals[1].filter, totals[1].received), ("a/#", [0, 5, 0]));
    }

    #[test]
    fn a_topic_counts_for_each_matching_filter_up_to_the_limit() {
        let many: Vec<Box<str>> = (0..=METERED_FILTERS_MAX).map(|at| format!("a/{at}").into()).collect();
        let metered = MeteredFilters::default().with_filters(&many, 1);
        assert_eq!(metered.totals().len(), METERED_FILTERS_MAX);
        assert_eq!((metered.matching("a/63"), metered.matching("a/64")), (1 << 63, 0));
        let metered = metered.with_filters(&filters(&["#", "a/+", "b"]), 1);
        assert_eq!((metered.matching("a/1"), metered.matching("$SYS/a")), (0b011, 0));
    }
}
