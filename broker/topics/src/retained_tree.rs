//! Topics and their stored values; see [`RetainedTree`].

use core::ops::ControlFlow;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::level_tree::{LevelTree, NodeId};
use crate::pins::CursorPins;
use crate::text::{levels_match, split_level};

/// Topic names, each with one value, searchable by filter.
///
/// The order of a search depends only on earlier operations, not on hashing.
#[derive(Debug)]
pub struct RetainedTree<V> {
    tree: LevelTree<Option<V>>,
    pins: Arc<CursorPins>,
}

/// A resumable search, created by [`RetainedTree::cursor`].
///
/// A topic that stays in the tree during the whole search is found exactly once, whatever else is inserted or removed meanwhile. A topic
/// that is added or removed meanwhile may be found or not.
///
/// Between two steps a cursor pins one node of the tree, whose memory is held until the cursor is dropped.
#[derive(Debug)]
#[must_use = "a cursor finds nothing until it is resumed"]
pub struct RetainedCursor {
    filter: Box<str>,
    /// Whether topics that begin with `$` are found, whatever the filter.
    includes_system_topics: bool,
    /// The last visited node; the root before the first step, `None` when the search is finished.
    position: Option<NodeId>,
    pins: Arc<CursorPins>,
}

/// A node costs one step, plus one for each time its own text has this length, so that long topics are not searched for free.
const STEP_BYTES: usize = 256;

impl<V> Default for RetainedTree<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> RetainedTree<V> {
    /// An empty tree. Its hash function has a random seed.
    #[must_use]
    pub fn new() -> Self {
        Self { tree: LevelTree::new(), pins: Arc::default() }
    }

    /// Number of topics.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there is no topic.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of nodes of the tree; 0 if it is empty, no cursor pins a node, and it has been [pruned](RetainedTree::prune_deferred)
    /// since one did.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.tree.node_count() - 1
    }

    /// Heap bytes in use, without memory that values point to. Includes spare capacity.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.pins.memory_bytes()
    }

    /// The value of `topic`.
    #[must_use]
    pub fn get(&self, topic: &str) -> Option<&V> {
        self.tree.payload(self.tree.find(topic)?)?.as_ref()
    }

    /// The value of `topic`, mutably.
    pub fn get_mut(&mut self, topic: &str) -> Option<&mut V> {
        self.tree.payload_mut(self.tree.find(topic)?)?.as_mut()
    }

    /// Stores `value` under `topic` and returns the value that it replaces.
    pub fn insert(&mut self, topic: &str, value: V) -> Option<V> {
        let node = self.tree.entry(topic);
        let replaced = self.tree.payload_or_default(node)?.replace(value);
        self.prune_deferred();
        replaced
    }

    /// Removes `topic` and returns its value.
    pub fn remove(&mut self, topic: &str) -> Option<V> {
        let node = self.tree.find(topic)?;
        let value = self.tree.take_payload(node)?;
        self.prune(node);
        self.prune_deferred();
        value
    }

    /// Frees nodes that were pinned by searches which have moved on. Every change of the tree does it too.
    pub fn prune_deferred(&mut self) {
        for node in self.pins.take_unpinned() {
            self.prune(node);
        }
    }

    /// Whether [`RetainedTree::prune_deferred`] has nodes to free.
    #[must_use]
    pub fn needs_pruning(&self) -> bool {
        self.pins.has_unpinned()
    }

    /// Whether `filter` may match a topic of the tree. Checks only the levels before the first wildcard, so it takes no longer than a
    /// lookup; for a filter without wildcards the answer is exact.
    #[must_use]
    pub fn may_cover(&self, filter: &str) -> bool {
        let mut node = NodeId::ROOT;
        let mut rest = filter.as_bytes();
        loop {
            let (level, after) = split_level(rest);
            match level {
                b"#" => return !self.is_empty(),
                b"+" => return self.tree.first_child(node).is_some(),
                _ => {}
            }
            let Some(child) = self.tree.child(node, level) else { return false };
            if self.tree.is_tail(child) {
                return levels_match(rest, Some(self.tree.label(child)));
            }
            match after {
                None => return matches!(self.tree.payload(child), Some(Some(_))),
                Some(after) => rest = after,
            }
            node = child;
        }
    }

    /// Calls `visit` with every topic that `filter` matches, until it breaks. Rebuilding the text of a topic takes time linear in its
    /// length, so a search costs at most the visited topics times their levels.
    ///
    /// `+` and `#` at the first level do not match topics that begin with `$` [MQTT-4.7.2-1]. A filter without wildcards is one lookup. Not
    /// recursive. For a search that may be long, use [`RetainedTree::cursor`].
    pub fn for_each_match<B>(&self, filter: &str, mut visit: impl FnMut(&str, &V) -> ControlFlow<B>) -> ControlFlow<B> {
        let (mut topic, mut steps) = (String::new(), u64::MAX);
        let mut position = Some(NodeId::ROOT);
        Walk::new(&self.tree, filter).run(&mut position, &mut steps, |node, value| {
            topic.clear();
            self.tree.append_path(node, &mut topic);
            visit(&topic, value)
        })
    }

    /// A search for the topics that `filter` matches, to be run in steps by [`RetainedTree::resume`].
    pub fn cursor(&self, filter: &str) -> RetainedCursor {
        RetainedCursor {
            filter: filter.into(),
            includes_system_topics: false,
            position: Some(NodeId::ROOT),
            pins: self.pins.clone(),
        }
    }

    /// A search for all topics, including those that begin with `$`.
    pub fn cursor_over_all(&self) -> RetainedCursor {
        let mut cursor = self.cursor("#");
        cursor.includes_system_topics = true;
        cursor
    }

    /// Continues a search, calling `visit` with each topic's node and value, until `visit` breaks, `steps` is used up, or the search [is
    /// finished](RetainedCursor::is_finished). A topic at which `visit` breaks counts as found.
    ///
    /// Each visited node takes a step off `steps`, whether it is found or not, and long text takes more; the work for one step is bounded
    /// by the levels of the filter. At least one node is visited unless `steps` is 0.
    ///
    /// Requires only shared access: several searches may run at the same time. A cursor of another tree finds nothing.
    pub fn resume<B>(
        &self,
        cursor: &mut RetainedCursor,
        steps: &mut u64,
        visit: impl FnMut(NodeId, &V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if !Arc::ptr_eq(&cursor.pins, &self.pins) {
            cursor.end();
            return ControlFlow::Continue(());
        }
        let rested = cursor.position;
        let walk =
            Walk { includes_system_topics: cursor.includes_system_topics, ..Walk::new(&self.tree, &cursor.filter) };
        let flow = walk.run(&mut cursor.position, steps, visit);
        self.pins.change(rested, cursor.position);
        flow
    }

    /// Appends the topic at `node` to `out`.
    pub fn topic_of(&self, node: NodeId, out: &mut String) {
        self.tree.append_path(node, out);
    }

    fn prune(&mut self, node: NodeId) {
        let pins = &self.pins;
        self.tree.prune(node, |node| pins.is_pinned(node));
    }
}

impl RetainedCursor {
    /// Whether the search is complete.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.position.is_none()
    }

    /// The filter of the search.
    #[must_use]
    pub fn filter(&self) -> &str {
        &self.filter
    }

    fn end(&mut self) {
        self.pins.change(self.position.take(), None);
    }
}

impl Drop for RetainedCursor {
    fn drop(&mut self) {
        self.end();
    }
}

/// Walks the nodes that may lead to topics matched by a filter, in preorder: first children, then siblings, then siblings of the parent.
/// The links of the tree determine the next node, so a walk needs neither a stack nor a visited set.
struct Walk<'a, V> {
    tree: &'a LevelTree<Option<V>>,
    filter: &'a str,
    /// The offset of each level of the filter, without a final `#`.
    starts: SmallVec<[usize; 16]>,
    /// Whether the filter ends in `#`.
    multi_level: bool,
    includes_system_topics: bool,
}

impl<'a, V> Walk<'a, V> {
    fn new(tree: &'a LevelTree<Option<V>>, filter: &'a str) -> Self {
        let separators = filter.bytes().enumerate().filter(|&(_, byte)| byte == b'/').map(|(at, _)| at + 1);
        let mut starts: SmallVec<[usize; 16]> = core::iter::once(0).chain(separators).collect();
        let multi_level = filter == "#" || filter.ends_with("/#");
        if multi_level {
            starts.pop();
        }
        Self { tree, filter, starts, multi_level, includes_system_topics: false }
    }

    fn run<B>(
        &self,
        position: &mut Option<NodeId>,
        steps: &mut u64,
        mut visit: impl FnMut(NodeId, &V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let Some(start) = *position else {
            return ControlFlow::Continue(());
        };
        if *steps == 0 {
            return ControlFlow::Continue(());
        }
        let (mut node, mut above, mut leads_on) = self.resume_at(start);
        while *steps > 0 {
            let below = if leads_on { self.first_below(node, above) } else { None };
            let Some((next, levels_above)) = below.or_else(|| self.next_outside(node, above)) else {
                *position = None;
                return ControlFlow::Continue(());
            };
            node = next;
            above = levels_above;
            *position = Some(next);
            let label = self.tree.label(next);
            *steps = steps.saturating_sub(1 + (label.len() / STEP_BYTES) as u64);
            let is_hidden = self.is_system_topic(label, above);
            leads_on = !is_hidden && !self.tree.is_tail(next);
            if !is_hidden
                && self.covers(label, above)
                && let Some(Some(value)) = self.tree.payload(next)
            {
                visit(next, value)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Where to continue after pausing at `node`: a node, the levels above it, and whether to enter it.
    ///
    /// During the pause, `node` may have been moved below new nodes (a tail was split) that the walk would not have entered. It continues
    /// after the topmost of them.
    fn resume_at(&self, node: NodeId) -> (NodeId, usize, bool) {
        let mut path: SmallVec<[NodeId; 32]> = SmallVec::new();
        let mut at = node;
        while at != NodeId::ROOT {
            path.push(at);
            at = self.tree.parent(at);
        }
        // A node with children has one level, so the ancestors give the number of levels.
        for (above, &at) in path.iter().rev().enumerate() {
            let label = self.tree.label(at);
            let leads_on = !self.is_system_topic(label, above)
                && (self.is_wildcard(above) || self.level(above).is_some_and(|level| level == label));
            if !leads_on {
                return (at, above, false);
            }
        }
        (node, path.len().saturating_sub(1), true)
    }

    /// The first child of `node` to visit, and the levels above it.
    fn first_below(&self, node: NodeId, above: usize) -> Option<(NodeId, usize)> {
        let depth = if node == NodeId::ROOT { 0 } else { above + 1 };
        let child = if self.is_wildcard(depth) {
            self.tree.first_child(node)
        } else {
            self.tree.child(node, self.level(depth)?)
        };
        child.map(|child| (child, depth))
    }

    /// The next node to visit that is not below `node`, and the levels above it.
    fn next_outside(&self, node: NodeId, above: usize) -> Option<(NodeId, usize)> {
        let mut node = node;
        let mut above = above;
        while node != NodeId::ROOT {
            if self.is_wildcard(above)
                && let Some(sibling) = self.tree.next_sibling(node)
            {
                return Some((sibling, above));
            }
            node = self.tree.parent(node);
            above = above.saturating_sub(1);
        }
        None
    }

    /// Whether the filter matches a topic that ends with `label`, given that the `above` levels before it match.
    fn covers(&self, label: &[u8], above: usize) -> bool {
        // The walk goes below the last level only if the filter ends in `#`.
        self.starts.get(above).is_none_or(|&start| levels_match(&self.filter.as_bytes()[start..], Some(label)))
    }

    /// Whether `label` is a first level with `$` and the filter begins with a wildcard [MQTT-4.7.2-1].
    fn is_system_topic(&self, label: &[u8], above: usize) -> bool {
        above == 0 && label.first() == Some(&b'$') && self.is_wildcard(0) && !self.includes_system_topics
    }

    /// Whether level `depth` of the filter is a wildcard.
    fn is_wildcard(&self, depth: usize) -> bool {
        self.level(depth).map_or(self.multi_level, |level| level == b"+")
    }

    /// Level `depth` of the filter; `None` if the filter ends before it or has its final `#` there.
    fn level(&self, depth: usize) -> Option<&'a [u8]> {
        let start = *self.starts.get(depth)?;
        let end = match self.starts.get(depth + 1) {
            Some(&next) => next - 1,
            None if self.multi_level => self.filter.len() - 2,
            None => self.filter.len(),
        };
        Some(&self.filter.as_bytes()[start..end])
    }
}
