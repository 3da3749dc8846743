//! Whether every topic that a filter can match is allowed.
//!
//! The answer is exact. The filter is followed through all trees at once: what is known at a place are the nodes that are still
//! in play, and the first rule that covers everything from here on by its `#`. A wildcard in the filter stands for infinitely
//! many levels, but the rules tell only those apart that stand in them; all others are alike, and one of them speaks for all.
//! Of those that stand in rules, only rules that deny can make matters worse than they are for that one.
//! A branch ends where no rule that is in play can overrule what covers it.
//!
//! There are sets of rules for which nobody knows a fast way to decide: with enough wildcards, rules can say any formula of
//! logic. So there is a limit of steps, behind which the answer is no.

use super::{Asked, First, Root, Tree, is_dollar};
use crate::limits::SUBSCRIBE_STEPS_MAX;
use crate::rule::NO_RULE;

/// What is known of all topics that a filter can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Covered {
    /// All are allowed.
    Entirely,
    /// Some topic is denied, and this is the first rule that matches it.
    Not(First),
    /// It would take more than [`SUBSCRIBE_STEPS_MAX`] steps to know.
    TooIntricate,
}

/// A topic that a filter matches, and that is not allowed; for people to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Witness(Option<Vec<Vec<u8>>>);

impl Witness {
    /// Asks for an example to be written here.
    pub(crate) fn wanted() -> Self {
        Self(Some(Vec::new()))
    }

    pub(crate) fn topic(&self) -> Option<String> {
        let levels = self.0.as_ref()?;
        Some(String::from_utf8_lossy(&levels.join(&b'/')).into_owned())
    }
}

impl Tree {
    /// Whether every topic that `filter` can match is allowed by the first rule of the trees that matches it.
    pub(crate) fn covers(
        &self,
        roots: impl Iterator<Item = Root>,
        asked: Asked<'_>,
        filter: &[u8],
        witness: &mut Witness,
    ) -> Covered {
        let mut walk = Walk {
            tree: self,
            asked,
            filter: filter.split(|&byte| byte == b'/').collect(),
            is_dollar: is_dollar(filter),
            in_play: roots.map(|Root(root)| root).collect(),
            steps_left: SUBSCRIBE_STEPS_MAX,
            witness,
        };
        walk.visit(0, 0, First::NONE, Place::Root)
    }
}

struct Walk<'t> {
    tree: &'t Tree,
    asked: Asked<'t>,
    filter: Vec<&'t [u8]>,
    /// Whether the first level of the filter begins with `$`, so that no wildcard of a rule matches it [MQTT-4.7.2-1].
    is_dollar: bool,
    /// A stack of sets of nodes.
    in_play: Vec<u32>,
    steps_left: usize,
    witness: &'t mut Witness,
}

/// How far the topic has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It has no level yet.
    Root,
    /// It has one level, and that is empty. There is no topic that ends here: `/` has two levels [MQTT-4.7.3-1].
    Empty,
    Below,
}

/// What a wildcard may stand for.
#[derive(Clone, Copy)]
enum Step<'t> {
    Level(&'t [u8]),
    /// Any level that stands in no rule that is in play.
    Other,
}

impl<'t> Walk<'t> {
    /// `at`: the level of the filter that is next. `start`: where the set of nodes in play begins, which ends with the stack.
    /// `cover`: the first of the rules that match every topic from here on. Goes no deeper than the rules do,
    /// [`crate::limits::LEVELS_MAX`] levels.
    fn visit(&mut self, at: usize, start: usize, mut cover: First, place: Place) -> Covered {
        if place == Place::Empty && at == self.filter.len() {
            return Covered::Entirely;
        }
        let tree = self.tree;
        let (mut first_allow, mut first_deny) = (NO_RULE, NO_RULE);
        for &index in &self.in_play[start..] {
            let node = tree.node(index);
            if place != Place::Root || !self.is_dollar {
                cover.offer(tree.below_ends(node), self.asked.way);
            }
            first_allow = first_allow.min(node.first_allow);
            first_deny = first_deny.min(node.first_deny);
        }
        if cover.allows && first_deny >= cover.rule {
            return Covered::Entirely;
        }
        if !cover.allows && first_allow >= cover.rule {
            self.complete_witness(at, place);
            return Covered::Not(cover);
        }
        match self.filter.get(at).copied() {
            None => self.ends_here(start, cover),
            Some(b"#") => {
                // `a/#` matches `a` too; `#` does not match nothing.
                if place == Place::Below
                    && let Covered::Not(by) = self.ends_here(start, cover)
                {
                    return Covered::Not(by);
                }
                self.any_level(at, start, cover, place)
            }
            Some(b"+") => self.any_level(at + 1, start, cover, place),
            Some(level) => self.step(at + 1, start, cover, Step::Level(level), place),
        }
    }

    /// The topic that ends at the nodes in play.
    fn ends_here(&self, start: usize, cover: First) -> Covered {
        let mut first = cover;
        for &index in &self.in_play[start..] {
            first.offer(self.tree.exact_ends(self.tree.node(index)), self.asked.way);
        }
        if first.allows { Covered::Entirely } else { Covered::Not(first) }
    }

    /// A level that is in no rule, and then each that is in a rule that denies: a level that only brings more rules that allow
    /// cannot be worse than an unknown one. `at` is where the filter goes on.
    fn any_level(&mut self, at: usize, start: usize, cover: First, place: Place) -> Covered {
        let other = self.step(at, start, cover, Step::Other, place);
        if other != Covered::Entirely {
            return other;
        }
        let (tree, asked) = (self.tree, self.asked);
        for nth in start..self.in_play.len() {
            let node = tree.node(self.in_play[nth]);
            let texts = Tree::denying_text_children(node).map(|child| tree.text_of(tree.node(child)));
            let denies = |child: &u32| tree.node(*child).first_deny != NO_RULE;
            let placeholders = Tree::placeholder_children(node).filter(denies);
            let values = placeholders.filter_map(|child| asked.value_of(tree, child));
            for level in texts.chain(values) {
                if place == Place::Root && is_dollar(level) {
                    continue;
                }
                if self.is_known_before(start, nth, level) {
                    if !self.take_steps(nth - start) {
                        return Covered::TooIntricate;
                    }
                    continue;
                }
                let covered = self.step(at, start, cover, Step::Level(level), place);
                if covered != Covered::Entirely {
                    return covered;
                }
            }
        }
        Covered::Entirely
    }

    /// Whether a node in play before the `nth` has a child for `level` that denies, so that it has been looked at.
    fn is_known_before(&self, start: usize, nth: usize, level: &[u8]) -> bool {
        let tree = self.tree;
        let denies = |child: u32| tree.node(child).first_deny != NO_RULE;
        self.in_play[start..nth]
            .iter()
            .any(|&index| tree.text_child(index, tree.node(index), level).is_some_and(denies))
    }

    /// Goes on with the children that match one more level.
    fn step(&mut self, at: usize, start: usize, cover: First, step: Step<'t>, place: Place) -> Covered {
        let (tree, bindings) = (self.tree, self.asked.bindings);
        let end = self.in_play.len();
        if !self.take_steps(1 + end - start) {
            return Covered::TooIntricate;
        }
        let is_dollar_level = place == Place::Root && self.is_dollar;
        for nth in start..end {
            let index = self.in_play[nth];
            let node = tree.node(index);
            if let Step::Level(level) = step {
                self.in_play.extend(tree.text_child(index, node, level));
            }
            for child in Tree::placeholder_children(node) {
                let is_in_play = match step {
                    Step::Level(level) => tree.placeholder_matches(child, bindings, level, is_dollar_level),
                    Step::Other => tree.placeholder_matches_all(child, bindings),
                };
                if is_in_play {
                    self.in_play.push(child);
                }
            }
            if !is_dollar_level {
                self.in_play.extend(Tree::any_child(node));
            }
        }
        if self.witness.0.is_some() {
            let level = match step {
                Step::Level(level) => level.to_vec(),
                Step::Other => self.unknown_level(start, end),
            };
            self.witness.0.get_or_insert_default().push(level);
        }
        let place = match (place, step) {
            (Place::Root, Step::Level(b"")) => Place::Empty,
            _ => Place::Below,
        };
        let covered = self.visit(at, end, cover, place);
        self.in_play.truncate(end);
        if covered == Covered::Entirely
            && let Some(levels) = &mut self.witness.0
        {
            levels.pop();
        }
        covered
    }

    fn take_steps(&mut self, count: usize) -> bool {
        let left = self.steps_left.checked_sub(count);
        self.steps_left = left.unwrap_or(0);
        left.is_some()
    }

    /// Nothing that the filter matches from here on is allowed: the first that comes to mind will do.
    fn complete_witness(&mut self, at: usize, place: Place) {
        let Some(levels) = &mut self.witness.0 else { return };
        for &level in self.filter.get(at..).unwrap_or_default() {
            match level {
                b"#" if place == Place::Below => {}
                b"#" | b"+" => levels.push(b"any".to_vec()),
                level => levels.push(level.to_vec()),
            }
        }
    }

    /// A level that none of the nodes in play has a child for.
    fn unknown_level(&self, start: usize, end: usize) -> Vec<u8> {
        let tree = self.tree;
        let is_known = |level: &[u8]| {
            self.in_play[start..end].iter().any(|&index| {
                let node = tree.node(index);
                let mut placeholders = Tree::placeholder_children(node);
                tree.text_child(index, node, level).is_some()
                    || placeholders.any(|child| self.asked.value_of(tree, child) == Some(level))
            })
        };
        let names = std::iter::once("any".to_owned()).chain((1_u32..).map(|number| format!("any{number}")));
        names.map(String::into_bytes).find(|name| !is_known(name)).unwrap_or_default()
    }
}

impl<'a> Asked<'a> {
    /// What a node for a placeholder stands for.
    fn value_of(&self, tree: &Tree, child: u32) -> Option<&'a [u8]> {
        match tree.node(child).label {
            super::Label::Placeholder { id, .. } => self.bindings.get(id),
            _ => None,
        }
    }
}
