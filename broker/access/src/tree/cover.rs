//! Whether rules match every topic of a set.
//!
//! A wildcard stands for infinitely many levels, among them one that no rule names. Only rules with a wildcard in that place match a topic
//! with such a level, and these rules match all other topics of the set that have as many levels. So rules cover a set together only
//! where, for each number of levels, one of them covers it alone. One topic with unnamed levels therefore speaks for all.

use super::{Label, Node, Root, RuleEnd, Tree};
use crate::placeholder::{PlaceholderId, PlaceholderValues};
use crate::request::ActionSet;
use crate::rule::NO_RULE;

/// Topics that have these levels.
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
    /// Any level. In the first place it does not begin with `$` [MQTT-4.7.2-1].
    Any,
    /// The value that a client has for a placeholder; `allows`: in a rule that allows.
    Placeholder {
        id: PlaceholderId,
        allows: bool,
    },
}

/// Which rules count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoverQuery<'t> {
    /// The values of the client; without them, a rule must match whatever client it is.
    pub(crate) bindings: Option<&'t PlaceholderValues>,
    /// The rules must be for all of these.
    pub(crate) actions: ActionSet,
    /// Whether rules that deny count as well.
    pub(crate) denials_count: bool,
    /// Only rules before this one count.
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

    /// Whether the first level begins with `$`, so that no wildcard of a rule matches it. What a rule that denies has a placeholder for
    /// may begin with it.
    fn is_dollar(&self) -> bool {
        matches!(self.parts.first(), Some(Part::Text([b'$', ..]) | Part::Placeholder { allows: false, .. }))
    }

    /// Whether the set has topics of so many levels. The empty text is no topic [MQTT-4.7.3-1].
    fn has_topics_of(&self, levels: usize) -> bool {
        let is_possible = if self.and_below { levels >= self.parts.len() } else { levels == self.parts.len() };
        is_possible && levels > 0 && !(levels == 1 && self.parts.first() == Some(&Part::Text(b"")))
    }

    /// One of its topics of so many levels; `unnamed` stands for levels that no rule names.
    pub(crate) fn example(&self, levels: usize, unnamed: &[u8]) -> Vec<u8> {
        let text = |at: usize| match self.parts.get(at) {
            Some(Part::Text(text)) => text,
            _ => unnamed,
        };
        (0..levels).map(text).collect::<Vec<_>>().join(&b'/')
    }
}

impl Tree {
    /// Whether rules that count match every topic of the set; otherwise, a number of levels for which they do not. `note` is told
    /// the first rule for each number of levels. `steps` grows by the nodes that are looked at.
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
                // A rule that denies matches more: also where there is no value, and values that begin with `$`.
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
