//! All shared subscriptions, found by topic and by filter.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tautwire_topics::{FilterTree, NodeId};

use crate::share::ShareGroup;

/// The groups of shared subscriptions. A group exists while it has a member; it is indexed by its whole filter, `$share/group/filter`, and
/// by the part that is matched against topics. Very many groups may share the latter, so only a message for all of them visits them all.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    by_topic: FilterTree<Arc<ShareGroup>>,
    by_filter: HashTable<GroupLocation>,
    hasher: RandomState,
    #[cfg(test)]
    compared: std::sync::atomic::AtomicUsize,
}

/// The location of a group in the tree.
#[derive(Debug)]
struct GroupLocation {
    group: Arc<ShareGroup>,
    node: NodeId,
    /// The index among the groups at the node.
    at: usize,
}

impl Shares {
    /// Returns the group with this whole filter.
    pub(crate) fn find(&self, filter: &str) -> Option<&Arc<ShareGroup>> {
        self.by_filter.find(self.hasher.hash_one(filter), |place| self.is_of(place, filter)).map(|place| &place.group)
    }

    /// Appends the groups that match `topic` to `groups`.
    pub(crate) fn groups_for(&self, topic: &str, groups: &mut Vec<Arc<ShareGroup>>) {
        self.by_topic.matches(topic, &mut |_, found: &[Arc<ShareGroup>]| groups.extend(found.iter().cloned()));
    }

    /// Adds a group whose filter has none yet. `matched` is the part of the filter that is matched against topics.
    pub(crate) fn add(&mut self, group: ShareGroup, matched: &str) {
        let group = Arc::new(group);
        let node = self.by_topic.entry(matched);
        let at = self.by_topic.values(node).len();
        self.by_topic.push_value(node, group.clone());
        let hash = self.hasher.hash_one(&**group.filter());
        let hasher = &self.hasher;
        self.by_filter
            .insert_unique(hash, GroupLocation { group, node, at }, |place| hasher.hash_one(&**place.group.filter()));
    }

    /// Removes the group with this whole filter.
    pub(crate) fn remove(&mut self, filter: &str) {
        let hash = self.hasher.hash_one(filter);
        let found = self.by_filter.find(hash, |place| self.is_of(place, filter)).map(|place| (place.node, place.at));
        let Some((node, at)) = found else { return };
        if let Ok(entry) = self.by_filter.find_entry(hash, |place| place.node == node && place.at == at) {
            entry.remove();
        }
        self.by_topic.swap_remove_value(node, at);
        if let Some(moved) = self.by_topic.values(node).get(at) {
            let hash = self.hasher.hash_one(&**moved.filter());
            let is_moved = |place: &GroupLocation| Arc::ptr_eq(&place.group, moved);
            if let Some(place) = self.by_filter.find_mut(hash, is_moved) {
                place.at = at;
            }
        }
        self.by_topic.prune(node);
        if self.by_filter.len() < self.by_filter.capacity() / 8 {
            let hasher = &self.hasher;
            self.by_filter.shrink_to(self.by_filter.len() * 2, |place| hasher.hash_one(&**place.group.filter()));
        }
    }

    fn is_of(&self, place: &GroupLocation, filter: &str) -> bool {
        #[cfg(test)]
        self.compared.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        **place.group.filter() == *filter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(number: usize) -> String {
        format!("$share/g{number}/t")
    }

    fn shares_with(groups: usize) -> Shares {
        let mut shares = Shares::default();
        for number in 0..groups {
            assert!(shares.find(&whole(number)).is_none());
            shares.add(ShareGroup::new(&whole(number)), "t");
        }
        shares
    }

    fn found(shares: &Shares) -> Vec<String> {
        let mut groups = Vec::new();
        shares.groups_for("t", &mut groups);
        let mut filters: Vec<String> = groups.iter().map(|group| group.filter().to_string()).collect();
        filters.sort();
        filters
    }

    #[test]
    fn remaining_groups_are_found_while_others_are_removed() {
        const GROUPS: usize = 500;
        let mut shares = shares_with(GROUPS);
        let mut left: Vec<usize> = (0..GROUPS).collect();
        while !left.is_empty() {
            let gone = left.remove(left.len() * 7 / 11);
            shares.remove(&whole(gone));
            shares.remove(&whole(gone));
            assert!(shares.find(&whole(gone)).is_none());
            let mut expected: Vec<String> = left.iter().map(|number| whole(*number)).collect();
            expected.sort();
            assert_eq!(found(&shares), expected);
            assert!(left.iter().all(|number| shares.find(&whole(*number)).is_some()));
        }
        assert!(shares.by_topic.is_empty() && shares.by_topic.node_count() == 0);
    }

    #[test]
    fn joining_and_leaving_does_not_depend_on_the_number_of_groups() {
        let compared_by = |groups: usize| {
            let mut shares = shares_with(groups);
            for number in 0..groups {
                assert!(shares.find(&whole(number)).is_some());
                shares.remove(&whole(number));
            }
            shares.compared.into_inner() as f64 / groups as f64
        };
        for groups in [1_000, 16_000] {
            // Two right comparisons, and a few with the same short hash.
            let each = compared_by(groups);
            assert!(each < 2.5, "{each} comparisons for each of {groups} groups");
        }
    }
}
