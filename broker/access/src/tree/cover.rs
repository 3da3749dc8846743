//! Whether rules match every topic of a set.
//!
//! A wildcard matches infinitely many levels, among them one that no rule names. Only rules with a wildcard in that position match a topic
//! with such a level, and these rules match all other topics of the set with the same number of levels. So rules cover a set together only
//! if, for each number of levels, one of them covers it on its own. It is therefore enough to check one topic with unnamed levels.

use super::{Label, Node, Root, RuleEnd, Tree};
use crate::placeholder::{PlaceholderId, PlaceholderValues};
use crate::request::ActionSet;
use crate::rule::NO_RULE;

/// A set of topics, given by their levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicSet<'t> {
    pub(crate) parts: Vec<Part<'t>>,
    /// Whether any number of levels may follow.
    pub(crate) and_below: bool,
}

/// One level of a [`TopicSet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'t> {
    Text(&'t [u8]),
    /// Any level. A first level does not begin with `$` [MQTT-4.7.2-1].
    Any,
    /// The client's value of a placeholder; `allows`: in an allow rule.
    Placeholder {
        id: PlaceholderId,
        allows: bool,
    },
}

/// The rules that are considered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoverQuery<'t> {
    /// The values of the client; without them, a rule must match for every client.
    pub(crate) bindings: Option<&'t PlaceholderValues>,
    /// The rules must apply to all of these.
    pub(crate) actions: ActionSet,
    /// Whether deny rules are considered as well.
    pub(crate) denials_count: bool,
    /// Only rules before this one are considered.
    pub(crate) before: u32,
}

impl<'t> TopicSet<'t> {
    /// The topics that a filter matches.
    pub(crate) fn of_filter(filter: &'t [u8]) -> Self {
        let part = |level: &'t [u8]| if level == b"+" { Part::Any } else { Part::Text(level) };
        let mut parts: Vec<Part<'t>> = filter.split(|&byte| byte == b'/').map(part).collect();
        let and_below = parts.pop_if(|last| *last == Part::Text(b"#")).is_some();
        Self { parts, and_below }
    }

    /// Whether the first level begins with `$`, so that no wildcard of a rule matches it. The value of a placeholder in a deny rule may
    /// begin with it.
    fn is_dollar(&self) -> bool {
        matches!(self.parts.first(), Some(Part::Text([b'$', ..]) | Part::Placeholder { allows: false, .. }))
    }

    /// Whether the set has topics with this number of levels. The empty text is not a topic [MQTT-4.7.3-1].
    fn has_topics_of(&self, levels: usize) -> bool {
        let is_possible = if self.and_below { levels >= self.parts.len() } else { levels == self.parts.len() };
        is_possible && levels > 0 && !(levels == 1 && self.parts.first() == Some(&Part::Text(b"")))
    }

    /// One of its topics with this number of levels; `unnamed` replaces levels that no rule names.
    pub(crate) fn example(&self, levels: usize, unnamed: &[u8]) -> Vec<u8> {
        let text = |at: usize| match self.parts.get(at) {
            Some(Part::Text(text)) => text,
            _ => unnamed,
        };
        (0..levels).map(text).collect::<Vec<_>>().join(&b'/')
    }
}

impl Tree {
    /// Whether the considered rules match every topic of the set; otherwise, a number of levels for which they do not. `note` is called
    /// with the first rule for each number of levels. `steps` grows by the number of visited nodes.
    pub(crate) fn cover(
        &self,
        roots: impl Iterator<Item = Root>,
        set: &TopicSet<'_>,
        covering: CoverQuery<'_>,
        steps: &mut usize,
        mut note: impl FnMut(u32),
    ) -> Result<(), usize> {
        let mut in_play: Vec<u32> = roots.map(|Root(root)| root).collect();
        let mut next = Vec::new();
        // The first rule whose `#` covers everything from here on.
        let mut below = NO_RULE;
        for levels in 0.. {
            *steps += in_play.len() + 1;
            let is_dollar = levels == 0 && set.is_dollar();
            let ends_here = set.has_topics_of(levels);
            let mut exact = NO_RULE;
            for &index in &in_play {
                let node = self.node(index);
                if !is_dollar {
                    below = below.min(covering.first(self.below_ends(node)));
                }
                if ends_here {
                    exact = exact.min(covering.first(self.exact_ends(node)));
                }
            }
            let first = below.min(exact);
            if ends_here && first == NO_RULE {
                return Err(levels);
            }
            if ends_here {
                note(first);
            }
            let is_last = if set.and_below {
                in_play.is_empty() && levels >= set.parts.len() && levels > 1
            } else {
                levels >= set.parts.len()
            };
            if is_last {
                return Ok(());
            }
            let part = set.parts.get(levels).copied().unwrap_or(Part::Any);
            let limit = below.min(covering.before);
            for &index in &in_play {
                self.push_matching(index, part, is_dollar, covering, limit, &mut next);
            }
            std::mem::swap(&mut in_play, &mut next);
            next.clear();
        }
        Ok(())
    }

    /// Pushes the children of a node that match one more level and have rules before `limit`.
    fn push_matching(
        &self,
        index: u32,
        part: Part<'_>,
        is_dollar: bool,
        covering: CoverQuery<'_>,
        limit: u32,
        next: &mut Vec<u32>,
    ) {
        let node = self.node(index);
        let matters = |child: &u32| covering.first_below(self.node(*child)) < limit;
        if let Part::Text(level) = part {
            next.extend(self.text_child(index, node, level).filter(matters));
        }
        let placeholders = Self::placeholder_children(node).filter(matters);
        next.extend(placeholders.filter(|&child| self.placeholder_covers(child, part, is_dollar, covering.bindings)));
        if !is_dollar {
            next.extend(Self::any_child(node).filter(matters));
        }
    }

    fn placeholder_covers(
        &self,
        child: u32,
        part: Part<'_>,
        is_dollar: bool,
        bindings: Option<&PlaceholderValues>,
    ) -> bool {
        match (bindings, part) {
            (Some(bindings), Part::Text(level)) => self.placeholder_matches(child, bindings, level, is_dollar),
            (Some(bindings), Part::Any) => self.placeholder_matches_all(child, bindings),
            (None, Part::Placeholder { id: own, allows: own_allows }) => match self.node(child).label {
                // A deny rule matches more: clients without a value, and values that begin with `$`.
                Label::Placeholder { id, allows } => id == own && (own_allows || !allows),
                _ => false,
            },
            _ => false,
        }
    }
}

impl CoverQuery<'_> {
    fn first(&self, ends: &[RuleEnd]) -> u32 {
        let counts = |end: &&RuleEnd| (end.allows || self.denials_count) && end.actions.contains_all(self.actions);
        let mut before = ends.iter().take_while(|end| end.rule < self.before);
        before.find(counts).map_or(NO_RULE, |end| end.rule)
    }

    fn first_below(&self, node: &Node) -> u32 {
        if self.denials_count { node.first_rule() } else { node.first_allow }
    }
}
