//! The rules of all roles as trees over the levels of their filters.
//!
//! Each role has two trees, one for publishing and one for subscribing. All trees of a policy are in the same arrays: nodes level by level,
//! the children of a node contiguous. A child with a text is found by a hash table; the children for `+` and placeholders come last. So the
//! cost of a check depends on how many levels the topic has and how many branches match, not on how many rules there are.

mod build;
mod cover;
mod publish;
mod subscribe;

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

pub(crate) use build::{BuildBranch, TreeBuilder};
pub(crate) use cover::{CoverQuery, Part, TopicSet};
pub(crate) use subscribe::{Coverage, FilterQuery, TreeSearch};

use crate::placeholder::{PlaceholderId, PlaceholderValues};
use crate::request::{Action, ActionSet};
use crate::rule::NO_RULE;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    ends: Vec<RuleEnd>,
    text: Vec<u8>,
    /// Every node with a text, by the hash of its parent and text.
    texts: HashTable<u32>,
    /// No node has the text [`unnamed`] with this number or a higher one.
    first_unused_name: u32,
}

/// A tree within a [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root(u32);

/// The client's placeholder values and the action of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessQuery<'a> {
    pub(crate) bindings: &'a PlaceholderValues,
    pub(crate) action: Action,
}

/// The first matching rule: its rank and effect. The default denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstMatch {
    pub(crate) rule: u32,
    pub(crate) allows: bool,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    parent: u32,
    label: Label,
    /// The children: first those with a text, then those for placeholders, then the one for `+`. Of those with a text, the ones with a deny
    /// rule, there or below, come first.
    children_start: u32,
    text_children: u32,
    denying_text_children: u32,
    placeholder_children: u8,
    has_any_child: bool,
    /// The rules that end here: first rules for exactly this topic, then rules with `#` after it. Both in file order.
    ends_start: u32,
    exact_ends: u32,
    below_ends: u32,
    /// The first allow rule, and the first deny rule, here or anywhere below: used to skip later rules.
    first_allow: u32,
    first_deny: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Root,
    Text {
        start: u32,
        len: u32,
    },
    /// Allow rules and deny rules have separate nodes: without a value, the former match nothing and the latter everything.
    Placeholder {
        id: PlaceholderId,
        allows: bool,
    },
    /// `+`
    Any,
}

/// A rule that ends at a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleEnd {
    pub(crate) rule: u32,
    pub(crate) actions: ActionSet,
    pub(crate) allows: bool,
}

impl FirstMatch {
    pub(crate) const NONE: Self = Self { rule: NO_RULE, allows: false };

    #[inline]
    fn update(&mut self, ends: &[RuleEnd], action: Action) {
        for end in ends {
            if end.rule >= self.rule {
                return;
            }
            if end.actions.contains(action) {
                *self = Self { rule: end.rule, allows: end.allows };
                return;
            }
        }
    }
}

impl Node {
    #[inline]
    fn first_rule(&self) -> u32 {
        self.first_allow.min(self.first_deny)
    }
}

impl Tree {
    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.ends.capacity() * size_of::<RuleEnd>()
            + self.text.capacity()
            + self.texts.allocation_size()
    }

    /// A level that no rule has for this client.
    fn unnamed_level(&self, bindings: &PlaceholderValues) -> Vec<u8> {
        // Rules name only levels that the operator chooses, plus the few values of the client.
        let mut names = (self.first_unused_name..).map(unnamed);
        names.find(|name| !bindings.has(name)).unwrap_or_default()
    }

    #[inline]
    fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    #[inline]
    fn exact_ends(&self, node: &Node) -> &[RuleEnd] {
        let start = node.ends_start as usize;
        &self.ends[start..start + node.exact_ends as usize]
    }

    #[inline]
    fn below_ends(&self, node: &Node) -> &[RuleEnd] {
        let start = (node.ends_start + node.exact_ends) as usize;
        &self.ends[start..start + node.below_ends as usize]
    }

    #[inline]
    fn text_of(&self, node: &Node) -> &[u8] {
        match node.label {
            Label::Text { start, len } => &self.text[start as usize..(start + len) as usize],
            _ => &[],
        }
    }

    #[inline]
    fn text_child(&self, index: u32, node: &Node, level: &[u8]) -> Option<u32> {
        if node.text_children == 0 {
            return None;
        }
        let is_it = |&child: &u32| {
            let child = self.node(child);
            child.parent == index && self.text_of(child) == level
        };
        self.texts.find(hash(index, level), is_it).copied()
    }

    #[inline]
    fn denying_text_children(node: &Node) -> std::ops::Range<u32> {
        node.children_start..node.children_start + node.denying_text_children
    }

    #[inline]
    fn placeholder_children(node: &Node) -> std::ops::Range<u32> {
        let start = node.children_start + node.text_children;
        start..start + u32::from(node.placeholder_children)
    }

    #[inline]
    fn any_child(node: &Node) -> Option<u32> {
        node.has_any_child.then(|| node.children_start + node.text_children + u32::from(node.placeholder_children))
    }

    /// Whether the child for a placeholder matches `level`. `is_dollar`: whether it is a first level that begins with `$`.
    #[inline]
    fn placeholder_matches(&self, child: u32, bindings: &PlaceholderValues, level: &[u8], is_dollar: bool) -> bool {
        let Label::Placeholder { id, allows } = self.node(child).label else { return false };
        match bindings.get(id) {
            // `{user}/#` grants nothing to a user called `$SYS`.
            Some(value) => value == level && !(allows && is_dollar),
            None => !allows,
        }
    }

    /// Whether the child for a placeholder matches every level, because the placeholder has no value and the rule denies.
    #[inline]
    fn placeholder_matches_all(&self, child: u32, bindings: &PlaceholderValues) -> bool {
        let Label::Placeholder { id, allows } = self.node(child).label else { return false };
        !allows && bindings.get(id).is_none()
    }
}

/// Whether a topic or filter begins with `$`, so that wildcards do not match its first level [MQTT-4.7.2-1].
#[inline]
fn is_dollar(text: &[u8]) -> bool {
    text.first() == Some(&b'$')
}

/// A placeholder name for levels that no rule names: `any`, `any1` and so on.
fn unnamed(number: u32) -> Vec<u8> {
    if number == 0 { b"any".to_vec() } else { format!("any{number}").into_bytes() }
}

/// The number of the name, if it is one of [`unnamed`].
fn number_of_unnamed(name: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(name.strip_prefix(b"any")?).ok()?;
    let number = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    (unnamed(number) == name).then_some(number)
}

/// The first level and, if there are more, the text after its separator.
#[inline]
fn split_level(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b'/') {
        Some(end) => (&text[..end], Some(&text[end + 1..])),
        None => (text, None),
    }
}

/// Only the operator chooses the entries of the table, so the hash needs no secret.
#[inline]
fn hash(parent: u32, level: &[u8]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write_u32(parent);
    hasher.write(level);
    hasher.finish()
}
