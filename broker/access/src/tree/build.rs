//! Building of trees: rules are added one at a time, then laid out.

use hashbrown::HashTable;

use super::{Label, Node, Root, RuleEnd, Tree, hash};
use crate::placeholder::PlaceholderId;
use crate::rule::NO_RULE;

/// Trees under construction.
#[derive(Debug, Default)]
pub(crate) struct TreeBuilder {
    /// Each with its parent. A parent precedes its children.
    nodes: Vec<(u32, Label)>,
    roots: Vec<u32>,
    text: Vec<u8>,
    /// Every node but the roots, by the hash of its parent and label.
    found: HashTable<u32>,
    /// The node that a rule ends at, whether with `#`, and the rule.
    ends: Vec<(u32, bool, RuleEnd)>,
}

/// One level of a filter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BuildBranch<'t> {
    Text(&'t str),
    /// `+`
    Any,
    Placeholder(PlaceholderId),
}

impl TreeBuilder {
    /// A new tree, without rules.
    pub(crate) fn add_root(&mut self) -> Root {
        // The roots come first in the layout, in this order.
        let root = Root(self.roots.len() as u32);
        self.roots.push(self.nodes.len() as u32);
        self.nodes.push((NO_RULE, Label::Root));
        root
    }

    /// Adds a rule with this filter; `and_below`: whether `#` follows. Rules must be added in file order.
    pub(crate) fn add(&mut self, root: Root, filter: &[BuildBranch<'_>], and_below: bool, end: RuleEnd) {
        let mut node = self.roots[root.0 as usize];
        for branch in filter {
            node = match *branch {
                BuildBranch::Text(text) => self.text_child(node, text.as_bytes()),
                BuildBranch::Any => self.child(node, Label::Any),
                BuildBranch::Placeholder(id) => self.child(node, Label::Placeholder { id, allows: end.allows }),
            };
        }
        self.ends.push((node, and_below, end));
    }

    fn text_child(&mut self, parent: u32, text: &[u8]) -> u32 {
        let Self { nodes, text: texts, found, .. } = self;
        let text_at = |node: u32| label_text(nodes[node as usize].1, texts);
        let hash_here = hash(parent, text);
        let is_it = |&node: &u32| nodes[node as usize].0 == parent && text_at(node) == Some(text);
        if let Some(&node) = found.find(hash_here, is_it) {
            return node;
        }
        let label = Label::Text { start: texts.len() as u32, len: text.len() as u32 };
        texts.extend_from_slice(text);
        self.push(parent, label, hash_here)
    }

    fn child(&mut self, parent: u32, label: Label) -> u32 {
        let hash_here = hash(parent, &label_key(label));
        let is_it = |&node: &u32| self.nodes[node as usize] == (parent, label);
        match self.found.find(hash_here, is_it) {
            Some(&node) => node,
            None => self.push(parent, label, hash_here),
        }
    }

    fn push(&mut self, parent: u32, label: Label, hash_here: u64) -> u32 {
        let Self { nodes, text, found, .. } = self;
        let node = nodes.len() as u32;
        nodes.push((parent, label));
        found.insert_unique(hash_here, node, |&node| {
            let (parent, label) = nodes[node as usize];
            match label_text(label, text) {
                Some(text) => hash(parent, text),
                None => hash(parent, &label_key(label)),
            }
        });
        node
    }

    /// Lays the trees out: level by level, the children of a node contiguous.
    pub(crate) fn finish(mut self) -> Tree {
        self.found = HashTable::new();
        let denies = self.denying_nodes();
        let mut by_parent: Vec<u32> = (0..self.nodes.len() as u32).collect();
        by_parent.sort_by_key(|&node| {
            let (parent, label) = self.nodes[node as usize];
            (parent, rank(label), !denies[node as usize])
        });
        self.ends.sort_by_key(|&(node, below, end)| (node, below, end.rule));
        let children_of = |parent: u32| {
            let start = by_parent.partition_point(|&node| self.nodes[node as usize].0 < parent);
            let rest = by_parent.get(start..).unwrap_or_default();
            &rest[..rest.partition_point(|&node| self.nodes[node as usize].0 == parent)]
        };

        let mut tree = Tree { text: self.text.clone(), ..Tree::default() };
        tree.text.shrink_to_fit();
        tree.ends.reserve_exact(self.ends.len());
        tree.nodes.reserve_exact(self.nodes.len());
        // The old number of each node that has a position, in the new order.
        let mut placed: Vec<u32> = Vec::with_capacity(self.nodes.len());
        for &root in &self.roots {
            placed.push(root);
            tree.nodes.push(node(NO_RULE, Label::Root));
        }
        let mut at = 0;
        while let Some(&old) = placed.get(at) {
            let start = self.ends.partition_point(|&(node, ..)| node < old);
            let ends = self.ends[start..].iter().take_while(|&&(node, ..)| node == old);
            tree.nodes[at].ends_start = tree.ends.len() as u32;
            for &(_, below, end) in ends {
                let node = &mut tree.nodes[at];
                *(if below { &mut node.below_ends } else { &mut node.exact_ends }) += 1;
                let first = if end.allows { &mut node.first_allow } else { &mut node.first_deny };
                *first = end.rule.min(*first);
                tree.ends.push(end);
            }
            tree.nodes[at].children_start = placed.len() as u32;
            for &child in children_of(old) {
                let (_, label) = self.nodes[child as usize];
                let parent = &mut tree.nodes[at];
                match label {
                    Label::Text { .. } => {
                        parent.text_children += 1;
                        parent.denying_text_children += u32::from(denies[child as usize]);
                    }
                    Label::Placeholder { .. } => parent.placeholder_children += 1,
                    Label::Any => parent.has_any_child = true,
                    Label::Root => {}
                }
                placed.push(child);
                tree.nodes.push(node(at as u32, label));
            }
            at += 1;
        }
        tree.prefix_sums();
        tree.texts = tree.table_of_texts();
        let numbers = tree.nodes.iter().filter_map(|node| super::number_of_unnamed(tree.text_of(node)));
        tree.first_unused_name = numbers.max().map_or(0, |number| number.saturating_add(1));
        tree
    }

    /// For each node, whether a deny rule is there or below.
    fn denying_nodes(&self) -> Vec<bool> {
        let mut denies = vec![false; self.nodes.len()];
        for (node, _, end) in &self.ends {
            denies[*node as usize] |= !end.allows;
        }
        for (node, (parent, _)) in self.nodes.iter().enumerate().rev() {
            if denies[node] && *parent != NO_RULE {
                denies[*parent as usize] = true;
            }
        }
        denies
    }
}

impl Tree {
    /// Stores at each node the first rules below it.
    fn prefix_sums(&mut self) {
        for index in (0..self.nodes.len()).rev() {
            let Node { parent, first_allow, first_deny, .. } = self.nodes[index];
            if let Some(parent) = self.nodes.get_mut(parent as usize) {
                parent.first_allow = parent.first_allow.min(first_allow);
                parent.first_deny = parent.first_deny.min(first_deny);
            }
        }
    }

    fn table_of_texts(&self) -> HashTable<u32> {
        let is_text = |node: &Node| matches!(node.label, Label::Text { .. });
        let count = self.nodes.iter().filter(|node| is_text(node)).count();
        let mut table = HashTable::with_capacity(count);
        let hash_of = |index: u32| {
            let node = self.node(index);
            hash(node.parent, self.text_of(node))
        };
        for (index, _) in self.nodes.iter().enumerate().filter(|(_, node)| is_text(node)) {
            table.insert_unique(hash_of(index as u32), index as u32, |&index| hash_of(index));
        }
        table
    }
}

fn node(parent: u32, label: Label) -> Node {
    Node {
        parent,
        label,
        children_start: 0,
        text_children: 0,
        denying_text_children: 0,
        placeholder_children: 0,
        has_any_child: false,
        ends_start: 0,
        exact_ends: 0,
        below_ends: 0,
        first_allow: NO_RULE,
        first_deny: NO_RULE,
    }
}

fn rank(label: Label) -> u8 {
    match label {
        Label::Root | Label::Text { .. } => 0,
        Label::Placeholder { .. } => 1,
        Label::Any => 2,
    }
}

fn label_text(label: Label, texts: &[u8]) -> Option<&[u8]> {
    match label {
        Label::Text { start, len } => texts.get(start as usize..(start + len) as usize),
        _ => None,
    }
}

/// The bytes to hash for a label without text.
fn label_key(label: Label) -> [u8; 2] {
    match label {
        Label::Placeholder { id, allows } => [1 + u8::from(allows), id.index() as u8],
        _ => [0, 0],
    }
}
