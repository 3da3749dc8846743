//! The tree of topic levels on which both public trees are based.
//!
//! Nodes are in one slab and refer to each other by `u32` index: parent, first child, siblings. One hash table for the whole tree finds a
//! child by (parent, level). Two things keep it small:
//!
//! * A **tail**: a node without children stores all its own levels in one label (`17/+/state`), so a path
//!   that shares only its beginning costs one node. When another path is added, the tail is split where they diverge.
//! * Children `#` and `+` are not in the hash table: they come first in the list of children, and are marked by flags.
//!
//! A node exists as long as it has a payload or a child, or is pinned by a search (see [`LevelTree::prune`]).

mod edges;
mod label;

use core::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use crate::slab::{NONE, Slab};
use crate::text::split_level;
use edges::Edges;
use label::{Label, LongLabels};

/// Identifies a filter or topic in its tree. Valid from its creation until it is pruned; afterwards the number may be reused for another
/// text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The root: above the first level, never pruned.
    pub(crate) const ROOT: Self = Self(0);

    /// The raw number, for callers that store it in their own records.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The identifier of a number from [`NodeId::get`].
    #[must_use]
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    fn some(raw: u32) -> Option<Self> {
        (raw != NONE).then_some(Self(raw))
    }
}

/// See the module documentation. `P` is the payload of a node.
#[derive(Debug, Clone)]
pub(crate) struct LevelTree<P> {
    nodes: Slab<Node>,
    /// Every node whose first level is neither `+` nor `#`, found by (parent, first level).
    edges: Edges,
    payloads: Slab<P>,
    long: LongLabels,
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    parent: u32,
    first_child: u32,
    next: u32,
    /// The previous sibling; on a first child, the last sibling, so that appending needs no walk.
    prev: u32,
    payload: u32,
    flags: u8,
    label: Label,
}

/// The first child is `#`.
const HAS_HASH: u8 = 1;
/// There is a `+` child: first, or after `#`.
const HAS_PLUS: u8 = 1 << 1;
/// The label holds more than one level; such a node has no children.
const TAIL: u8 = 1 << 2;
/// The slot has no node.
const FREE: u8 = 1 << 3;

/// A tree that has had this many nodes is reallocated when it becomes empty; a smaller one keeps its memory for reuse.
const SMALL_TREE_NODES: usize = 1024;

impl<P: Default> LevelTree<P> {
    pub(crate) fn new() -> Self {
        let mut nodes = Slab::new();
        nodes.insert(Node::new(NONE, Label::EMPTY, 0));
        Self {
            nodes,
            edges: Edges::new(),
            payloads: Slab::new(),
            long: LongLabels::new(),
            hasher: RandomState::default(),
        }
    }

    /// The number of nodes that have a payload.
    pub(crate) fn len(&self) -> usize {
        self.payloads.len()
    }

    /// The number of nodes in use, including the root.
    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Heap bytes of the tree, without memory that its payloads point to.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.edges.memory_bytes() + self.payloads.memory_bytes() + self.long.memory_bytes()
    }

    pub(crate) fn payload_slots(&self) -> impl Iterator<Item = &P> {
        self.payloads.slots()
    }

    /// The node of `path`, if it is in the tree (with a payload or as an ancestor of one).
    pub(crate) fn find(&self, path: &str) -> Option<NodeId> {
        let mut node = NodeId::ROOT;
        let mut rest = path.as_bytes();
        loop {
            let (level, after) = split_level(rest);
            let child = self.child(node, level)?;
            if self.is_tail(child) {
                return (self.label(child) == rest).then_some(child);
            }
            match after {
                None => return Some(child),
                Some(after) => rest = after,
            }
            node = child;
        }
    }

    /// The node of `path`, created if needed. A new node is empty: set its payload or prune it.
    pub(crate) fn entry(&mut self, path: &str) -> NodeId {
        let mut node = NodeId::ROOT;
        let mut rest = path.as_bytes();
        loop {
            let (level, after) = split_level(rest);
            let Some(child) = self.child(node, level) else {
                return self.add_leaf(node, rest);
            };
            if !self.is_tail(child) {
                match after {
                    None => return child,
                    Some(after) => rest = after,
                }
                node = child;
                continue;
            }
            if self.label(child) == rest {
                return child;
            }
            let (inner, levels) = self.split_tail(child, rest);
            match nth_rest(rest, levels) {
                None => return inner,
                Some(after) => rest = after,
            }
            node = inner;
        }
    }

    /// Frees `node` if it has neither payload nor child, and then its ancestors likewise. Stops at a node for which `is_kept` is true: a
    /// search has pinned it.
    pub(crate) fn prune(&mut self, node: NodeId, mut is_kept: impl FnMut(NodeId) -> bool) {
        let mut node = node;
        while node != NodeId::ROOT && self.is_live(node) {
            let Node { parent, first_child, payload, .. } = self.nodes[node.0];
            if first_child != NONE || payload != NONE || is_kept(node) {
                return;
            }
            self.unlink(node);
            self.free_node(node);
            node = NodeId(parent);
        }
        if self.node_count() == 1 && self.nodes.slot_count() >= SMALL_TREE_NODES {
            *self = Self::new();
        }
    }

    /// Appends the text of `node` to `out`. Appends nothing for the root or a removed node.
    pub(crate) fn append_path(&self, node: NodeId, out: &mut String) {
        let mut chain: SmallVec<[NodeId; 32]> = SmallVec::new();
        let mut at = node;
        while at != NodeId::ROOT && self.is_live(at) {
            chain.push(at);
            at = self.parent(at);
        }
        let mut first = true;
        for &at in chain.iter().rev() {
            if !first {
                out.push('/');
            }
            first = false;
            // Labels are slices of a `str`, cut only at `/`, so this always succeeds.
            if let Ok(text) = core::str::from_utf8(self.label(at)) {
                out.push_str(text);
            }
        }
    }

    #[inline]
    pub(crate) fn is_live(&self, node: NodeId) -> bool {
        self.nodes.get(node.0).is_some_and(|node| node.flags & FREE == 0)
    }

    pub(crate) fn payload(&self, node: NodeId) -> Option<&P> {
        let index = self.nodes.get(node.0)?.payload;
        (index != NONE).then(|| &self.payloads[index])
    }

    pub(crate) fn payload_mut(&mut self, node: NodeId) -> Option<&mut P> {
        let index = self.nodes.get(node.0)?.payload;
        (index != NONE).then(|| &mut self.payloads[index])
    }

    /// The payload of `node`, set to its default if there was none; `None` if the node has been removed.
    pub(crate) fn payload_or_default(&mut self, node: NodeId) -> Option<&mut P> {
        if !self.is_live(node) {
            return None;
        }
        let node = &mut self.nodes[node.0];
        if node.payload == NONE {
            node.payload = self.payloads.insert(P::default());
        }
        Some(&mut self.payloads[node.payload])
    }

    /// Takes the payload of `node`. The node stays until it is pruned.
    pub(crate) fn take_payload(&mut self, node: NodeId) -> Option<P> {
        let node = self.nodes.get_mut(node.0)?;
        let index = core::mem::replace(&mut node.payload, NONE);
        (index != NONE).then(|| self.payloads.remove(index))
    }

    // Navigation. These functions require nodes of this tree that are in use.

    #[inline]
    pub(crate) fn parent(&self, node: NodeId) -> NodeId {
        NodeId::some(self.nodes[node.0].parent).unwrap_or(NodeId::ROOT)
    }

    pub(crate) fn first_child(&self, node: NodeId) -> Option<NodeId> {
        NodeId::some(self.nodes[node.0].first_child)
    }

    pub(crate) fn next_sibling(&self, node: NodeId) -> Option<NodeId> {
        NodeId::some(self.nodes[node.0].next)
    }

    #[inline]
    pub(crate) fn label(&self, node: NodeId) -> &[u8] {
        self.nodes[node.0].label.text(&self.long)
    }

    /// Whether the label of `node` has more than one level.
    #[inline]
    pub(crate) fn is_tail(&self, node: NodeId) -> bool {
        self.nodes[node.0].flags & TAIL != 0
    }

    /// The child of `node` whose first level is `#`.
    #[inline]
    pub(crate) fn hash_child(&self, node: NodeId) -> Option<NodeId> {
        let node = &self.nodes[node.0];
        (node.flags & HAS_HASH != 0).then_some(NodeId(node.first_child))
    }

    /// The child of `node` whose first level is `+`.
    #[inline]
    pub(crate) fn plus_child(&self, node: NodeId) -> Option<NodeId> {
        let node = &self.nodes[node.0];
        match node.flags & (HAS_PLUS | HAS_HASH) {
            HAS_PLUS => Some(NodeId(node.first_child)),
            0 | HAS_HASH => None,
            _ => NodeId::some(self.nodes[node.first_child].next),
        }
    }

    /// The child of `node` whose first level is `level`, which is neither `+` nor `#`. `level_hash` is from
    /// [`LevelTree::hash_level`].
    #[inline]
    pub(crate) fn literal_child(&self, node: NodeId, level: &[u8], level_hash: u64) -> Option<NodeId> {
        if self.nodes[node.0].first_child == NONE {
            return None;
        }
        let hash = edge_hash(node, level_hash);
        let found = self.edges.find(hash, |child| {
            let child = &self.nodes[child];
            if child.parent != node.0 {
                return false;
            }
            let label = child.label.text(&self.long);
            if child.flags & TAIL == 0 {
                label == level
            } else {
                label.len() > level.len() && label[level.len()] == b'/' && label.starts_with(level)
            }
        });
        found.map(NodeId)
    }

    /// The child of `node` whose first level is `level`, whatever it is.
    pub(crate) fn child(&self, node: NodeId, level: &[u8]) -> Option<NodeId> {
        match level {
            b"#" => self.hash_child(node),
            b"+" => self.plus_child(node),
            _ => self.literal_child(node, level, self.hash_level(level)),
        }
    }

    /// Seeded hash of one level: computed once, used for the lookup at every node.
    #[inline]
    pub(crate) fn hash_level(&self, level: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(level);
        hasher.finish()
    }

    // Structural changes.

    fn add_leaf(&mut self, parent: NodeId, text: &[u8]) -> NodeId {
        let node = self.new_node(parent, text);
        self.link(node);
        node
    }

    /// Inserts inner nodes above the tail `node` for the levels that it shares with `path`: at least one, and one level stays with `node`.
    /// Returns the lowest new inner node and the number of levels of `path` that lead to it.
    ///
    /// `node` keeps its identity (its payload and references to it) and its position among its siblings. Linear in the length of the label,
    /// whatever the number of levels.
    fn split_tail(&mut self, node: NodeId, path: &[u8]) -> (NodeId, usize) {
        let old = self.nodes[node.0].label;
        let label: SmallVec<[u8; 64]> = SmallVec::from_slice(old.text(&self.long));
        let (first_level, Some(rest)) = split_level(&label) else {
            return (node, 1);
        };

        let inner = self.new_node(self.parent(node), first_level);
        self.replace_in_siblings(node, inner);
        self.remove_edge(node);
        self.add_edge(inner);

        let mut lowest = inner;
        let mut levels = 1;
        let mut rest = rest;
        let mut path_rest = split_level(path).1;
        while let Some(path_text) = path_rest {
            let (level, after) = split_level(rest);
            let (path_level, path_after) = split_level(path_text);
            let Some(after) = after.filter(|_| level == path_level) else {
                break;
            };
            lowest = self.add_leaf(lowest, level);
            levels += 1;
            rest = after;
            path_rest = path_after;
        }

        old.free(&mut self.long);
        let label = Label::new(rest, &mut self.long);
        let moved = &mut self.nodes[node.0];
        moved.parent = lowest.0;
        moved.label = label;
        moved.flags = (moved.flags & !TAIL) | tail_flag(rest);
        self.link(node);
        (lowest, levels)
    }

    fn new_node(&mut self, parent: NodeId, text: &[u8]) -> NodeId {
        let label = Label::new(text, &mut self.long);
        NodeId(self.nodes.insert(Node::new(parent.0, label, tail_flag(text))))
    }

    fn free_node(&mut self, node: NodeId) {
        self.nodes.remove(node.0).label.free(&mut self.long);
    }

    /// Links `node` into its parent's list of children: `#` first, then `+`, then the others in insertion order.
    fn link(&mut self, node: NodeId) {
        let parent = self.parent(node);
        let flags = self.nodes[parent.0].flags;
        let first = self.nodes[parent.0].first_child;
        match self.first_level(node) {
            b"#" => {
                self.link_first(parent, node);
                self.nodes[parent.0].flags |= HAS_HASH;
            }
            b"+" if flags & HAS_HASH != 0 => {
                self.link_behind(NodeId(first), node);
                self.nodes[parent.0].flags |= HAS_PLUS;
            }
            b"+" => {
                self.link_first(parent, node);
                self.nodes[parent.0].flags |= HAS_PLUS;
            }
            _ => {
                match NodeId::some(first) {
                    None => self.link_first(parent, node),
                    Some(first) => self.link_behind(NodeId(self.nodes[first.0].prev), node),
                }
                self.add_edge(node);
            }
        }
    }

    fn link_first(&mut self, parent: NodeId, node: NodeId) {
        let first = core::mem::replace(&mut self.nodes[parent.0].first_child, node.0);
        let last = match NodeId::some(first) {
            None => node.0,
            Some(first) => core::mem::replace(&mut self.nodes[first.0].prev, node.0),
        };
        let linked = &mut self.nodes[node.0];
        linked.prev = last;
        linked.next = first;
    }

    fn link_behind(&mut self, before: NodeId, node: NodeId) {
        let next = core::mem::replace(&mut self.nodes[before.0].next, node.0);
        let linked = &mut self.nodes[node.0];
        linked.prev = before.0;
        linked.next = next;
        self.set_prev_of(next, node);
    }

    fn unlink(&mut self, node: NodeId) {
        let Node { parent, next, prev, .. } = self.nodes[node.0];
        match self.first_level(node) {
            b"#" => self.nodes[parent].flags &= !HAS_HASH,
            b"+" => self.nodes[parent].flags &= !HAS_PLUS,
            _ => self.remove_edge(node),
        }
        if self.nodes[parent].first_child == node.0 {
            self.nodes[parent].first_child = next;
            if let Some(next) = NodeId::some(next) {
                self.nodes[next.0].prev = prev;
            }
        } else {
            self.nodes[prev].next = next;
            let first = NodeId(self.nodes[parent].first_child);
            match NodeId::some(next) {
                Some(next) => self.nodes[next.0].prev = prev,
                None => self.nodes[first.0].prev = prev,
            }
        }
    }

    /// Replaces `old` by `new` in the list of children. Their parent is the same.
    fn replace_in_siblings(&mut self, old: NodeId, new: NodeId) {
        let Node { parent, next, prev, .. } = self.nodes[old.0];
        let alone = prev == old.0;
        let replacing = &mut self.nodes[new.0];
        replacing.next = next;
        replacing.prev = if alone { new.0 } else { prev };
        if self.nodes[parent].first_child == old.0 {
            self.nodes[parent].first_child = new.0;
        } else {
            self.nodes[prev].next = new.0;
        }
        self.set_prev_of(next, new);
    }

    /// Records `node` as the predecessor of `next`; without `next` it is the last sibling, to which the first one points.
    fn set_prev_of(&mut self, next: u32, node: NodeId) {
        let holder = match NodeId::some(next) {
            Some(next) => next,
            None => NodeId(self.nodes[self.parent(node).0].first_child),
        };
        self.nodes[holder.0].prev = node.0;
    }

    fn add_edge(&mut self, node: NodeId) {
        if matches!(self.first_level(node), b"#" | b"+") {
            return;
        }
        let hash = self.edge_hash_of(node);
        let Self { nodes, long, hasher, edges, .. } = self;
        edges.insert(hash, node.0, |node| nodes[node].edge_hash(long, hasher));
    }

    fn remove_edge(&mut self, node: NodeId) {
        if matches!(self.first_level(node), b"#" | b"+") {
            return;
        }
        let hash = self.edge_hash_of(node);
        let Self { nodes, long, hasher, edges, .. } = self;
        edges.remove(hash, node.0, |node| nodes[node].edge_hash(long, hasher));
    }

    fn edge_hash_of(&self, node: NodeId) -> u64 {
        self.nodes[node.0].edge_hash(&self.long, &self.hasher)
    }

    fn first_level(&self, node: NodeId) -> &[u8] {
        split_level(self.label(node)).0
    }
}

impl Node {
    fn new(parent: u32, label: Label, flags: u8) -> Self {
        Self { parent, first_child: NONE, next: NONE, prev: NONE, payload: NONE, flags, label }
    }

    /// The hash of the edge that leads here.
    fn edge_hash(&self, long: &LongLabels, hasher: &RandomState) -> u64 {
        let mut state = hasher.build_hasher();
        state.write(split_level(self.label.text(long)).0);
        edge_hash(NodeId(self.parent), state.finish())
    }
}

impl Default for Node {
    /// A vacant slot.
    fn default() -> Self {
        Self::new(NONE, Label::EMPTY, FREE)
    }
}

fn tail_flag(text: &[u8]) -> u8 {
    if text.contains(&b'/') { TAIL } else { 0 }
}

/// The text after the first `levels` levels.
fn nth_rest(text: &[u8], levels: usize) -> Option<&[u8]> {
    (0..levels).try_fold(text, |rest, _| split_level(rest).1)
}

/// The hash of the edge from `parent` along a level. `level_hash` is seeded, so clients cannot cause collisions; the widening
/// multiplication spreads the parent over all bits that the table uses.
#[inline]
fn edge_hash(parent: NodeId, level_hash: u64) -> u64 {
    const SPREAD_PARENT: u64 = 0x9e37_79b9_7f4a_7c15;
    const SPREAD_ALL: u64 = 0xd6e8_feb8_6659_fd93;
    let mixed = level_hash ^ u64::from(parent.0).wrapping_mul(SPREAD_PARENT);
    let wide = u128::from(mixed) * u128::from(SPREAD_ALL);
    (wide as u64) ^ ((wide >> 64) as u64)
}

#[cfg(test)]
mod tests;
