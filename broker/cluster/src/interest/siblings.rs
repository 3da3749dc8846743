//! Patterns that differ in one level alone, as those of many clients do that each listen to a topic of their own: from so many on, one pattern
//! with a wildcard at that level stands for all of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::subject::DIGESTS;

/// Levels of patterns at which any token stands for all of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Siblings {
    /// What stands before such a level, as it is listened to.
    wide: BTreeSet<String>,
}

impl Siblings {
    /// Those levels of the patterns that have more than `max` tokens.
    pub(super) fn of<'p>(patterns: impl Iterator<Item = &'p str>, max: usize) -> Siblings {
        let mut siblings = Siblings::default();
        let patterns = patterns.filter(|pattern| *pattern != DIGESTS).collect();
        siblings.look(&mut String::new(), patterns, max);
        siblings
    }

    /// `rests`: what follows `prefix`.
    fn look(&mut self, prefix: &mut String, rests: Vec<&str>, max: usize) {
        let mut tokens: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for rest in rests {
            let (token, behind) = rest.split_once('.').map_or((rest, None), |(token, behind)| (token, Some(behind)));
            tokens.entry(token).or_default().extend(behind);
        }
        if tokens.keys().filter(|token| is_literal(token)).count() > max {
            self.wide.insert(prefix.clone());
            let (literal, mut others): (BTreeMap<_, _>, BTreeMap<_, _>) =
                tokens.into_iter().partition(|(token, _)| is_literal(token));
            others.entry("*").or_default().extend(literal.into_values().flatten());
            tokens = others;
        }
        let length = prefix.len();
        for (token, behind) in tokens.into_iter().filter(|(_, behind)| !behind.is_empty()) {
            prefix.push_str(token);
            prefix.push('.');
            self.look(prefix, behind, max);
            prefix.truncate(length);
        }
    }

    pub(super) fn are_wide(&self) -> bool {
        !self.wide.is_empty()
    }

    /// The pattern that is listened to in place of this one.
    pub(super) fn widened(&self, pattern: &str) -> String {
        if self.wide.is_empty() || pattern == DIGESTS {
            return pattern.to_owned();
        }
        let mut widened = String::with_capacity(pattern.len());
        for token in pattern.split('.') {
            let is_wide = is_literal(token) && self.wide.contains(&widened);
            widened.push_str(if is_wide { "*" } else { token });
            widened.push('.');
        }
        widened.pop();
        widened
    }
}

fn is_literal(token: &str) -> bool {
    token != "*" && token != ">"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widened(patterns: &[&str], max: usize) -> Vec<String> {
        let siblings = Siblings::of(patterns.iter().copied(), max);
        let widened: BTreeSet<_> = patterns.iter().map(|pattern| siblings.widened(pattern)).collect();
        widened.into_iter().collect()
    }

    #[test]
    fn a_level_with_many_tokens_becomes_a_wildcard_and_others_stay() {
        let patterns = ["d.1.cmd", "d.2.cmd", "d.3.cmd.>", "d.*.x", "site.cmd", DIGESTS];
        assert_eq!(widened(&patterns, 3), widened(&patterns, usize::MAX));
        assert_eq!(widened(&patterns, 2), ["=~.*", "d.*.cmd", "d.*.cmd.>", "d.*.x", "site.cmd"]);
        // At the first level as well. What is a digest stays one.
        assert_eq!(widened(&["a.x", "b.x", "c", DIGESTS], 2), ["*", "*.x", "=~.*"]);
    }

    #[test]
    fn levels_below_a_wildcard_count_together() {
        let patterns = ["d.1.a", "d.2.b", "d.3.c"];
        assert_eq!(widened(&patterns, 2), ["d.*.*"]);
        assert_eq!(widened(&["d.1.a", "d.2.b", "d.2.a"], 2), ["d.1.a", "d.2.a", "d.2.b"]);
    }
}
