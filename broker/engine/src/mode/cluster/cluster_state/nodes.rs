//! What the other nodes have said of themselves, for the `$SYS` topics of all.

use std::collections::BTreeMap;

/// Nodes that are kept in mind. What others say beyond that is not counted.
const NODES_MAX: usize = 1_000;
/// A node that has missed so many of its own intervals does not count any more.
const MISSED_MAX: u64 = 3;

/// Values by their number in the caller's list.
pub(crate) type Values = Box<[u64]>;

/// What each of the other nodes has said last.
#[derive(Debug, Default)]
pub(crate) struct NodeReports {
    by_name: BTreeMap<Box<str>, LastReport>,
    /// The cluster's thread has been asked to hand on what nodes say.
    pub(crate) is_listening: bool,
}

#[derive(Debug)]
struct LastReport {
    values: Values,
    until_ms: u64,
}

impl NodeReports {
    /// A node says this every `interval_ms`.
    pub(crate) fn record_report(&mut self, name: &str, values: Values, interval_ms: u64, now_ms: u64) {
        if self.by_name.len() < NODES_MAX || self.by_name.contains_key(name) {
            let until_ms = now_ms.saturating_add(interval_ms.saturating_mul(MISSED_MAX));
            self.by_name.insert(name.into(), LastReport { values, until_ms });
        }
    }

    /// Forgets those that have not been heard of for too long, and gives their names.
    pub(crate) fn remove_silent(&mut self, now_ms: u64) -> Vec<Box<str>> {
        let is_write_suspended = |told: &LastReport| told.until_ms < now_ms;
        let silent =
            self.by_name.iter().filter(|(_, told)| is_write_suspended(told)).map(|(name, _)| name.clone()).collect();
        self.by_name.retain(|_, told| !is_write_suspended(told));
        silent
    }

    /// Nodes by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u64])> {
        self.by_name.iter().map(|(name, told)| (&**name, &*told.values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_until_it_has_missed_three_of_its_intervals() {
        let mut told = NodeReports::default();
        told.record_report("a", [1].into(), 10, 100);
        told.record_report("b", [2].into(), 20, 100);
        assert!(told.remove_silent(130).is_empty());
        told.record_report("b", [3].into(), 20, 130);
        assert_eq!(told.remove_silent(131), ["a".into()]);
        assert_eq!(told.iter().collect::<Vec<_>>(), [("b", &[3][..])]);
    }

    #[test]
    fn more_nodes_than_there_can_be_are_not_kept_in_mind() {
        let mut told = NodeReports::default();
        for number in 0..=NODES_MAX {
            told.record_report(&number.to_string(), [1].into(), 10, 100);
        }
        told.record_report("0", [7].into(), 10, 100);
        assert_eq!((told.iter().count(), told.iter().next()), (NODES_MAX, Some(("0", &[7][..]))));
    }
}
