//! Detection of unreachable rules.

use std::{fmt, iter};

use crate::assignment::{Assignment, Condition};
use crate::compiled::{ActionRoots, Compiled};
use crate::explain::RuleText;
use crate::limits::{LINT_STEPS_MAX, WARNINGS_MAX};
use crate::pattern::{Level, Pattern};
use crate::placeholder::PlaceholderId;
use crate::policy::Policy;
use crate::request::ActionSet;
use crate::rule::Rule;
use crate::tree::{CoverQuery, Part, Root, TopicSet};

/// An unreachable rule: earlier rules of its role, or of roles that all clients have, match all of its topics.
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
    /// The unreachable rules, including those of listeners; at most [`WARNINGS_MAX`]. A rule is compared with the rules of its role and of
    /// roles with `everyone = true`. Other roles are not compared: authentication can assign any role without them. In a very large file,
    /// rules at the end may not be checked ([`LINT_STEPS_MAX`]).
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
        let common_roles = self.common_roles();
        for (number, rule) in (0..).zip(&self.rules) {
            if warnings.len() == WARNINGS_MAX || steps > LINT_STEPS_MAX {
                break;
            }
            let Some(shadows) = self.shadows_of(number, rule, &common_roles, &mut steps) else { continue };
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
    fn shadows_of(&self, number: u32, rule: &Rule, common_roles: &[u32], steps: &mut usize) -> Option<Vec<u32>> {
        let pattern = Pattern::parse(&rule.filter).ok()?;
        let parts = pattern.levels.iter().map(|level| self.part(level, rule.allows)).collect::<Option<_>>()?;
        let set = TopicSet { parts, and_below: pattern.and_below };
        let others = common_roles.iter().copied().filter(|&role| role != rule.role);
        let roots: Vec<ActionRoots> = iter::once(rule.role).chain(others).map(|role| self.roots(role)).collect();
        let publish: Vec<Root> = roots.iter().map(|roots| roots.publish).collect();
        let subscribe: Vec<Root> = roots.iter().map(|roots| roots.subscribe).collect();
        let mut shadows = Vec::new();
        for (roots, actions) in [(publish, rule.publish), (subscribe, rule.subscribe)] {
            if !actions.is_empty() && !self.shadow(&roots, &set, actions, number, steps, &mut shadows) {
                // The rules need not have the same actions.
                let mut each = actions.each();
                each.all(|action| self.shadow(&roots, &set, action, number, steps, &mut shadows)).then_some(())?;
            }
        }
        shadows.sort_unstable();
        shadows.dedup();
        Some(shadows)
    }

    /// The roles that every client has.
    fn common_roles(&self) -> Vec<u32> {
        let is_for_all =
            |assignment: &&Assignment| assignment.conditions.iter().all(|each| *each == Condition::Everyone);
        let mut roles: Vec<u32> =
            self.assignments.iter().filter(is_for_all).flat_map(|assignment| &assignment.roles).copied().collect();
        roles.sort_unstable();
        roles.dedup();
        roles
    }

    fn shadow(
        &self,
        roots: &[Root],
        set: &TopicSet<'_>,
        actions: ActionSet,
        before: u32,
        steps: &mut usize,
        shadows: &mut Vec<u32>,
    ) -> bool {
        let covering = CoverQuery { bindings: None, actions, denials_count: true, before };
        let found = shadows.len();
        let is_covered =
            self.tree.cover(roots.iter().copied(), set, covering, steps, |rule| shadows.push(rule)).is_ok();
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
        for (nth, RuleText { file, line, role: shadow_role, text }) in self.shadowed_by.iter().enumerate() {
            let comma = if nth > 0 { ", and " } else { "" };
            write!(f, "{comma}{text} at {file}:{line}")?;
            if shadow_role != role {
                write!(f, " of role {shadow_role}, which all clients have,")?;
            }
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
