//! Filters and their values; see [`FilterTree`].

use core::mem::size_of;

use smallvec::SmallVec;

use crate::level_tree::{LevelTree, NodeId};
use crate::text::{levels_match, split_level};

/// Topic filters, each with a list of values (subscriptions, shard numbers, …).
///
/// A filter is identified by its [`NodeId`], four bytes, from which the text can be rebuilt: a subscription need not store its filter. The
/// first value of a filter is stored in place; the order of values is preserved.
///
/// Filters without values are not removed automatically: after removing values call [`FilterTree::prune`].
///
/// The order of matches depends only on earlier operations, not on hashing.
#[derive(Debug, Clone)]
pub struct FilterTree<V> {
    tree: LevelTree<Values<V>>,
    value_count: usize,
}

type Values<V> = SmallVec<[V; 1]>;

/// Levels of a topic whose hash and bounds are stored on the stack during matching.
const STACK_LEVELS: usize = 32;

/// A list of values that shrinks below this fraction of its capacity is reallocated.
const SHRINK_AT: usize = 4;

impl<V> Default for FilterTree<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> FilterTree<V> {
    /// An empty tree. Its hash function has a random seed.
    #[must_use]
    pub fn new() -> Self {
        Self { tree: LevelTree::new(), value_count: 0 }
    }

    /// The number of filters that have been given values and not been pruned since.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether no filter has values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of values of all filters.
    #[must_use]
    pub fn value_count(&self) -> usize {
        self.value_count
    }

    /// The number of nodes of the tree; 0 if it is empty.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.tree.node_count() - 1
    }

    /// Heap bytes in use, without memory that values point to. Includes spare capacity. Takes time linear in [`FilterTree::len`].
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let spilled = self.tree.payload_slots().filter(|values| values.spilled());
        self.tree.memory_bytes() + spilled.map(|values| values.capacity() * size_of::<V>()).sum::<usize>()
    }

    /// The node of `filter`, if it is in the tree.
    #[must_use]
    pub fn find(&self, filter: &str) -> Option<NodeId> {
        self.tree.find(filter)
    }

    /// The node of `filter`, created if needed. Then add a value or [prune](FilterTree::prune) it.
    pub fn entry(&mut self, filter: &str) -> NodeId {
        self.tree.entry(filter)
    }

    /// Appends `value` to the values of `filter`, without checking for duplicates.
    pub fn insert(&mut self, filter: &str, value: V) -> NodeId {
        let node = self.entry(filter);
        self.push_value(node, value);
        node
    }

    /// Appends the text of the filter at `node` to `out`; nothing if the node has been removed.
    pub fn filter_of(&self, node: NodeId, out: &mut String) {
        self.tree.append_path(node, out);
    }

    /// The values at `node`: empty if it has none or has been removed.
    #[must_use]
    pub fn values(&self, node: NodeId) -> &[V] {
        self.tree.payload(node).map_or(&[], |values| values)
    }

    /// The values at `node`, mutably.
    pub fn values_mut(&mut self, node: NodeId) -> &mut [V] {
        self.tree.payload_mut(node).map_or(&mut [], |values| values)
    }

    /// Appends `value` to the values at `node`. Drops it if the node has been removed.
    pub fn push_value(&mut self, node: NodeId, value: V) {
        if let Some(values) = self.tree.payload_or_default(node) {
            values.push(value);
            self.value_count += 1;
        }
    }

    /// Removes the first value at `node` for which `is_it` is true; the others keep their order. Linear in the number of values.
    pub fn remove_value(&mut self, node: NodeId, is_it: impl FnMut(&V) -> bool) -> Option<V> {
        let at = self.values(node).iter().position(is_it)?;
        self.remove_at(node, at)
    }

    /// Removes the value at index `at` of `node` and moves the last value there, in constant time.
    pub fn swap_remove_value(&mut self, node: NodeId, at: usize) -> Option<V> {
        let values = self.tree.payload_mut(node)?;
        let last = values.len().checked_sub(1)?;
        if at > last {
            return None;
        }
        values.swap(at, last);
        self.remove_at(node, last)
    }

    /// Inserts `value` by key at `node` and returns the value with the same key that it replaces.
    ///
    /// For a node whose values are only added this way: they stay sorted and unique by key, and are found by binary search.
    pub fn insert_sorted_by_key<K: Ord>(&mut self, node: NodeId, value: V, mut key: impl FnMut(&V) -> K) -> Option<V> {
        let values = self.tree.payload_or_default(node)?;
        let wanted = key(&value);
        match values.binary_search_by_key(&wanted, key) {
            Ok(at) => Some(core::mem::replace(&mut values[at], value)),
            Err(at) => {
                values.insert(at, value);
                self.value_count += 1;
                None
            }
        }
    }

    /// The value with key `wanted` at `node`, whose values are sorted by that key.
    pub fn get_by_key<K: Ord>(&self, node: NodeId, wanted: &K, key: impl FnMut(&V) -> K) -> Option<&V> {
        let values = self.values(node);
        values.binary_search_by_key(wanted, key).ok().map(|at| &values[at])
    }

    /// Removes the value with key `wanted` at `node`, whose values are sorted by that key.
    pub fn remove_by_key<K: Ord>(&mut self, node: NodeId, wanted: &K, key: impl FnMut(&V) -> K) -> Option<V> {
        let at = self.values(node).binary_search_by_key(wanted, key).ok()?;
        self.remove_at(node, at)
    }

    /// Frees `node` if it has no values and no children, and then its ancestors likewise. Returns whether the filter at `node` has no
    /// values.
    pub fn prune(&mut self, node: NodeId) -> bool {
        if !self.values(node).is_empty() {
            return false;
        }
        self.tree.take_payload(node);
        self.tree.prune(node, |_| false);
        true
    }

    /// Calls `visit` with every filter that matches `topic` and has values.
    ///
    /// `+` and `#` at the first level do not match topics that begin with `$` [MQTT-4.7.2-1]; `a/#` matches `a`.
    ///
    /// Neither recursive nor allocating (except for filters deeper than 32 levels that the topic matches that far). A topic of n levels
    /// visits at most one node per combination of literal and `+` that filters in the tree begin with: at most min(2ⁿ⁺¹, nodes of the
    /// tree). Hostile sets of `+/+/…` filters can therefore cost time linear in their own number, which limits on levels and on
    /// subscriptions per client bound.
    pub fn matches(&self, topic: &str, visit: &mut impl FnMut(NodeId, &[V])) {
        let topic = topic.as_bytes();
        let mut levels = TopicLevels::new(topic);
        // Nodes still to visit, with their number of topic levels: at most one per depth, because the walk continues with the literal child
        // and leaves only `+` for later.
        let mut open: SmallVec<[(NodeId, usize); STACK_LEVELS]> = SmallVec::new();
        let mut wildcards = topic.first() != Some(&b'$');
        let mut next = Some((NodeId::ROOT, 0));

        while let Some((node, depth)) = next.take().or_else(|| open.pop()) {
            if wildcards
                && let Some(hash) = self.tree.hash_child(node)
                && !self.tree.is_tail(hash)
            {
                self.visit_values(hash, visit);
            }
            let Some(level) = levels.get(depth, |level| self.tree.hash_level(level)) else {
                self.visit_values(node, visit);
                continue;
            };
            let rest = topic.get(level.end + 1..);
            if wildcards
                && let Some(plus) = self.tree.plus_child(node)
                && self.enter(plus, rest, visit)
            {
                open.push((plus, depth + 1));
            }
            wildcards = true;
            if let Some(literal) = self.tree.literal_child(node, &topic[level.start..level.end], level.hash)
                && self.enter(literal, rest, visit)
            {
                next = Some((literal, depth + 1));
            }
        }
    }

    /// Enters a child whose first level matches. Handles a tail at once; returns whether to continue below.
    #[inline]
    fn enter(&self, child: NodeId, topic_rest: Option<&[u8]>, visit: &mut impl FnMut(NodeId, &[V])) -> bool {
        if !self.tree.is_tail(child) {
            return true;
        }
        if let (_, Some(tail)) = split_level(self.tree.label(child))
            && levels_match(tail, topic_rest)
        {
            self.visit_values(child, visit);
        }
        false
    }

    #[inline]
    fn visit_values(&self, node: NodeId, visit: &mut impl FnMut(NodeId, &[V])) {
        let values = self.values(node);
        if !values.is_empty() {
            visit(node, values);
        }
    }

    fn remove_at(&mut self, node: NodeId, at: usize) -> Option<V> {
        let values = self.tree.payload_mut(node)?;
        let value = values.remove(at);
        if values.spilled() && values.len() <= values.capacity() / SHRINK_AT {
            values.shrink_to_fit();
        }
        self.value_count -= 1;
        Some(value)
    }
}

/// The levels of a topic, split and hashed on demand.
struct TopicLevels<'a> {
    topic: &'a [u8],
    known: SmallVec<[Level; STACK_LEVELS]>,
}

#[derive(Clone, Copy)]
struct Level {
    start: usize,
    end: usize,
    hash: u64,
}

impl<'a> TopicLevels<'a> {
    fn new(topic: &'a [u8]) -> Self {
        Self { topic, known: SmallVec::new() }
    }

    /// Level `depth` of the topic, counted from 0; `None` after the last one. `depth` is at most the number of levels requested so far.
    #[inline]
    fn get(&mut self, depth: usize, hash: impl FnOnce(&[u8]) -> u64) -> Option<Level> {
        if let Some(&level) = self.known.get(depth) {
            return Some(level);
        }
        let start = self.known.last().map_or(0, |last| last.end + 1);
        let (text, _) = split_level(self.topic.get(start..)?);
        let level = Level { start, end: start + text.len(), hash: hash(text) };
        self.known.push(level);
        Some(level)
    }
}
