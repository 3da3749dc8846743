//! Detection of unreachable rules.

use std::fmt;

use crate::explain::RuleText;
use crate::limits::{LINT_STEPS_MAX, WARNINGS_MAX};
use crate::pattern::{Level, Pattern};
use crate::placeholder::PlaceholderId;
use crate::policy::{Compiled, Policy};
use crate::request::ActionSet;
use crate::rule::Rule;
use crate::tree::{CoverQuery, Part, Root, TopicSet};

/// A rule that never decides: for every client, earlier rules of its role match all topics that it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The rule.
    pub rule: RuleText,
    /// The rules before it that match all of its topics, in the order of the file.
    pub shadowed_by: Vec<RuleText>,
    /// Whether some of those have the opposite effect, so that the rule is not applied.
    pub is_overruled: bool,
}

impl Policy {
    /// The unreachable rules, including those of listeners; at most [`WARNINGS_MAX`]. Only rules of the same role are compared, as the
    /// other roles of a client are unknown. In a very large file, rules at the end may not be checked ([`LINT_STEPS_MAX`]).
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let own = self.compiled().map(Compiled::warnings).unwrap_or_default();
        let of_listeners = self.of_listeners().flat_map(|(_, policy)| policy.warnings());
        own.into_iter().chain(of_listeners).take(WARNINGS_MAX).collect()
    }
}

impl Compiled {
    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut steps = 0;
        for (number, rule) in (0..).zip(&self.rules) {
            if warnings.len() == WARNINGS_MAX || steps > LINT_STEPS_MAX {
                break;
            }
            let Some(shadows) = self.shadows_of(number, rule, &mut steps) else { continue };
            let texts = shadows.iter().filter_map(|&shadow| self.text_of(self.rules.get(shadow as usize)?));
            let says_otherwise =
                |shadow: &u32| self.rules.get(*shadow as usize).is_some_and(|shadow| shadow.allows != rule.allows);
            if let Some(text) = self.text_of(rule) {
                let is_overruled = shadows.iter().any(says_otherwise);
                warnings.push(Warning { rule: text, shadowed_by: texts.collect(), is_overruled });
            }
        }
        warnings
    }

    /// The earlier rules that together match all topics and actions of this rule; `None` if the rule decides something.
    fn shadows_of(&self, number: u32, rule: &Rule, steps: &mut usize) -> Option<Vec<u32>> {
        let pattern = Pattern::parse(&rule.filter).ok()?;
        let parts = pattern.levels.iter().map(|level| self.part(level, rule.allows)).collect::<Option<_>>()?;
        let set = TopicSet { parts, and_below: pattern.and_below };
        let roots = self.roots(rule.role);
        let mut shadows = Vec::new();
        for (root, actions) in [(roots.publish, rule.publish), (roots.subscribe, rule.subscribe)] {
            if !actions.is_empty() && !self.shadow(root, &set, actions, number, steps, &mut shadows) {
                // The rules need not have the same actions.
                let mut each = actions.each();
                each.all(|action| self.shadow(root, &set, action, number, steps, &mut shadows)).then_some(())?;
            }
        }
        shadows.sort_unstable();
        shadows.dedup();
        Some(shadows)
    }

    fn shadow(
        &self,
        root: Root,
        set: &TopicSet<'_>,
        actions: ActionSet,
        before: u32,
        steps: &mut usize,
        shadows: &mut Vec<u32>,
    ) -> bool {
        let covering = CoverQuery { bindings: None, actions, denials_count: true, before };
        let found = shadows.len();
        let is_covered = self.tree.cover([root].into_iter(), set, covering, steps, |rule| shadows.push(rule)).is_ok();
        if !is_covered {
            shadows.truncate(found);
        }
        is_covered
    }

    fn part<'t>(&self, level: &Level<'t>, allows: bool) -> Option<Part<'t>> {
        Some(match level {
            Level::Text(text) => Part::Text(text.as_bytes()),
            Level::Any => Part::Any,
            Level::Placeholder(placeholder) => {
                let number = self.placeholders.iter().position(|known| known == placeholder)?;
                Part::Placeholder { id: PlaceholderId::new(u8::try_from(number).ok()?), allows }
            }
        })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleText { file, line, role, text } = &self.rule;
        write!(f, "{file}:{line}: role {role}: the rule {text} never applies: ")?;
        for (nth, RuleText { file, line, text, .. }) in self.shadowed_by.iter().enumerate() {
            let comma = if nth > 0 { ", and " } else { "" };
            write!(f, "{comma}{text} at {file}:{line}")?;
        }
        let verb = if self.shadowed_by.len() == 1 { "comes" } else { "come" };
        let verb_match = if self.shadowed_by.len() == 1 { "matches" } else { "match" };
        write!(f, " {verb} first and {verb_match} all of its topics; ")?;
        f.write_str(match self.is_overruled {
            true => "move the rule up, or remove it [access_unreachable]",
            false => "remove it [access_unreachable]",
        })
    }
}
