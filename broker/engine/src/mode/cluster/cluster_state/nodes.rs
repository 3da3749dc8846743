//! The `$SYS` reports of the other nodes.

use std::collections::BTreeMap;

/// The maximum number of nodes. Reports of further nodes are dropped.
const NODES_MAX: usize = 1_000;
/// A node that has missed this many of its own intervals is removed.
const MISSED_MAX: u64 = 3;

/// Values, in the order of the caller's list.
pub(crate) type Values = Box<[u64]>;

/// The last report of each other node.
#[derive(Debug, Default)]
pub(crate) struct NodeReports {
    by_name: BTreeMap<Box<str>, LastReport>,
    /// Whether this shard has subscribed to reports.
    pub(in crate::mode::cluster) is_subscribed: bool,
}

#[derive(Debug)]
struct LastReport {
    values: Values,
    until_ms: u64,
}

impl NodeReports {
    /// Records a report that a node sends every `interval_ms`.
    pub(crate) fn record_report(&mut self, name: &str, values: Values, interval_ms: u64, now_ms: u64) {
        if self.by_name.len() < NODES_MAX || self.by_name.contains_key(name) {
            let until_ms = now_ms.saturating_add(interval_ms.saturating_mul(MISSED_MAX));
            self.by_name.insert(name.into(), LastReport { values, until_ms });
        }
    }

    /// Removes nodes that have been silent for too long, and returns their names.
    pub(crate) fn remove_silent(&mut self, now_ms: u64) -> Vec<Box<str>> {
        let is_silent = |report: &LastReport| report.until_ms < now_ms;
        let silent =
            self.by_name.iter().filter(|(_, report)| is_silent(report)).map(|(name, _)| name.clone()).collect();
        self.by_name.retain(|_, report| !is_silent(report));
        silent
    }

    /// Nodes by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u64])> {
        self.by_name.iter().map(|(name, report)| (&**name, &*report.values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_as_alive_until_it_misses_three_heartbeats() {
        let mut reports = NodeReports::default();
        reports.record_report("a", [1].into(), 10, 100);
        reports.record_report("b", [2].into(), 20, 100);
        assert!(reports.remove_silent(130).is_empty());
        reports.record_report("b", [3].into(), 20, 130);
        assert_eq!(reports.remove_silent(131), ["a".into()]);
        assert_eq!(reports.iter().collect::<Vec<_>>(), [("b", &[3][..])]);
    }

    #[test]
    fn the_number_of_known_nodes_is_limited() {
        let mut reports = NodeReports::default();
        for number in 0..=NODES_MAX {
            reports.record_report(&number.to_string(), [1].into(), 10, 100);
        }
        reports.record_report("0", [7].into(), 10, 100);
        assert_eq!((reports.iter().count(), reports.iter().next()), (NODES_MAX, Some(("0", &[7][..]))));
    }
}
