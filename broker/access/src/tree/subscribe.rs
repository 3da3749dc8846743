//! Whether every topic that a filter can match is allowed.
//!
//! The answer is exact. A topic is denied if no allow rule matches it, or if a deny rule matches it and no earlier allow rule does. So
//! there are two checks: whether the allow rules cover the filter, and, for each deny rule that overlaps with the filter, whether the
//! earlier allow rules cover the intersection. How rules cover a set is in [`super::cover`]. The overlapping rules are found by following
//! the filter through the trees; those after all rules that cover the filter are irrelevant.

use super::cover::{CoverQuery, Part, TopicSet};
use super::{AccessQuery, FirstMatch, Label, Root, RuleEnd, Tree, is_dollar};
use crate::limits::SUBSCRIBE_STEPS_MAX;
use crate::request::ActionSet;
use crate::rule::NO_RULE;

/// The decision about all topics that a filter can match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// All are allowed.
    AllAllowed,
    /// This topic is denied, and this is the first rule that matches it.
    FirstDenied { first: FirstMatch, topic: Vec<u8> },
    /// It would take more than [`SUBSCRIBE_STEPS_MAX`] steps to check whether allow rules precede the deny rules.
    TooComplex,
}

/// A filter and the rules to check it against.
#[derive(Debug)]
pub(crate) struct FilterQuery<'t> {
    tree: &'t Tree,
    query: AccessQuery<'t>,
    roots: Vec<Root>,
    set: TopicSet<'t>,
    /// Whether the first level of the filter begins with `$`, so that no wildcard of a rule matches it [MQTT-4.7.2-1].
    is_dollar: bool,
}

/// The progress of the search for deny rules. Valid for one query.
#[derive(Debug, Clone, Default)]
pub(crate) struct TreeSearch {
    /// Rules from this one on are irrelevant; `None` before the search has begun.
    limit: Option<u32>,
    /// Nodes still to visit.
    stack: Vec<NodeRange>,
    /// Steps that the comparison with allow rules has taken.
    comparison_steps: usize,
}

/// Contiguous children of one node.
#[derive(Debug, Clone, Copy)]
struct NodeRange {
    start: u32,
    end: u32,
    /// The number of topic levels that lead there.
    depth: u32,
}

impl<'t> FilterQuery<'t> {
    pub(crate) fn new(
        tree: &'t Tree,
        roots: impl Iterator<Item = Root>,
        query: AccessQuery<'t>,
        filter: &'t [u8],
    ) -> FilterQuery<'t> {
        let set = TopicSet::of_filter(filter);
        FilterQuery { tree, query, roots: roots.collect(), set, is_dollar: is_dollar(filter) }
    }

    /// Continues a search for up to `steps_left` node visits; `None` if it is not complete.
    pub(crate) fn resume(&self, search: &mut TreeSearch, steps_left: &mut usize) -> Option<Coverage> {
        let limit = match search.limit {
            Some(limit) => limit,
            None => match self.begin(search, steps_left) {
                Ok(limit) => limit,
                Err(uncovered) => return Some(uncovered),
            },
        };
        while let Some(siblings) = search.stack.last_mut() {
            if *steps_left == 0 {
                return None;
            }
            *steps_left -= 1;
            let NodeRange { start: index, depth, .. } = *siblings;
            siblings.start += 1;
            if siblings.start == siblings.end {
                search.stack.pop();
            }
            if let Some(covered) = self.visit_node(index, depth as usize, limit, search, steps_left) {
                return Some(covered);
            }
        }
        Some(Coverage::AllAllowed)
    }

    /// Finds the deny rules that are relevant: those before some rule that covers the filter.
    fn begin(&self, search: &mut TreeSearch, steps_left: &mut usize) -> Result<u32, Coverage> {
        let (mut limit, mut steps) = (0, 0);
        let uncovered = self.cover(&self.set, NO_RULE, &mut steps, |rule| limit = limit.max(rule));
        *steps_left = steps_left.saturating_sub(steps);
        if let Some(uncovered) = uncovered {
            return Err(uncovered);
        }
        search.limit = Some(limit);
        search.stack =
            self.roots.iter().map(|&Root(root)| NodeRange { start: root, end: root + 1, depth: 0 }).collect();
        Ok(limit)
    }

    /// A topic of the set that no rule before `before` allows, if there is one.
    fn cover(&self, set: &TopicSet<'_>, before: u32, steps: &mut usize, note: impl FnMut(u32)) -> Option<Coverage> {
        let covering = CoverQuery {
            bindings: Some(self.query.bindings),
            actions: ActionSet::one(self.query.action),
            denials_count: false,
            before,
        };
        let levels = self.tree.cover(self.roots.iter().copied(), set, covering, steps, note).err()?;
        let topic = set.example(levels, &self.tree.unnamed_level(self.query.bindings));
        let first = self.tree.first_for_topic(self.roots.iter().copied(), self.query, &topic);
        debug_assert!(!first.allows, "no rule allows the topic");
        Some(Coverage::FirstDenied { first, topic })
    }

    /// Visits a node at depth `depth` and pushes its children.
    fn visit_node(
        &self,
        index: u32,
        depth: usize,
        limit: u32,
        search: &mut TreeSearch,
        steps_left: &mut usize,
    ) -> Option<Coverage> {
        let tree = self.tree;
        let node = tree.node(index);
        if node.first_deny >= limit || !self.intersects(index, depth) {
            return None;
        }
        let TopicSet { parts, and_below } = &self.set;
        let ends_here = depth == parts.len() || (*and_below && depth > parts.len());
        let exact = self.first_denial(tree.exact_ends(node), limit).filter(|_| ends_here);
        let below = self.first_denial(tree.below_ends(node), limit).filter(|_| depth > 0 || !self.is_dollar);
        for (rule, is_exact) in [(exact, true), (below, false)] {
            let Some(rule) = rule else { continue };
            let common = self.intersection(index, depth, is_exact);
            let mut steps = 0;
            let covered = self.cover(&common, rule, &mut steps, |_| {});
            *steps_left = steps_left.saturating_sub(steps);
            search.comparison_steps += steps;
            if covered.is_some() {
                return covered;
            }
            if search.comparison_steps > SUBSCRIBE_STEPS_MAX {
                return Some(Coverage::TooComplex);
            }
        }
        let mut push = |children: std::ops::Range<u32>| {
            if !children.is_empty() {
                let depth = depth as u32 + 1;
                search.stack.push(NodeRange { start: children.start, end: children.end, depth });
            }
        };
        match parts.get(depth) {
            Some(Part::Text(level)) => {
                if let Some(child) = tree.text_child(index, node, level) {
                    push(child..child + 1);
                }
            }
            None if !and_below => return None,
            _ => push(Tree::denying_text_children(node)),
        }
        push(Tree::placeholder_children(node));
        if let Some(child) = Tree::any_child(node) {
            push(child..child + 1);
        }
        None
    }

    /// Whether a topic of the filter can have this node's level in this position.
    fn intersects(&self, index: u32, depth: usize) -> bool {
        let Some(place) = depth.checked_sub(1) else { return true };
        let (bindings, label) = (self.query.bindings, self.tree.node(index).label);
        let is_first = place == 0;
        let text = match label {
            Label::Text { .. } => Some(self.tree.text_of(self.tree.node(index))),
            Label::Placeholder { id, .. } => bindings.get(id),
            Label::Any if is_first && self.is_dollar => return false,
            Label::Any | Label::Root => None,
        };
        match (text, self.set.parts.get(place)) {
            // Without a value, a deny rule matches every level.
            (None, _) => true,
            (Some(text), Some(Part::Text(level))) => text == *level,
            (Some(text), _) => !(is_first && is_dollar(text)),
        }
    }

    /// The intersection of the filter and the rule that ends at a node.
    fn intersection(&self, index: u32, depth: usize, is_exact: bool) -> TopicSet<'t> {
        let mut parts: Vec<Part<'t>> = Vec::with_capacity(depth.max(self.set.parts.len()));
        let mut at = index;
        for place in (0..depth).rev() {
            let node = self.tree.node(at);
            let own = self.set.parts.get(place).copied().unwrap_or(Part::Any);
            parts.push(match node.label {
                Label::Text { .. } => Part::Text(self.tree.text_of(node)),
                Label::Placeholder { id, .. } => self.query.bindings.get(id).map_or(own, Part::Text),
                Label::Any | Label::Root => own,
            });
            at = node.parent;
        }
        parts.reverse();
        if !is_exact {
            parts.extend_from_slice(self.set.parts.get(depth..).unwrap_or_default());
        }
        TopicSet { parts, and_below: !is_exact && self.set.and_below }
    }

    fn first_denial(&self, ends: &[RuleEnd], limit: u32) -> Option<u32> {
        let mut before = ends.iter().take_while(|end| end.rule < limit);
        before.find(|end| !end.allows && end.actions.contains(self.query.action)).map(|end| end.rule)
    }
}
