//! Patterns that differ in only one level, such as those of many clients that each subscribe to a topic of their own. Above a limit, one
//! pattern with a wildcard at that level replaces them.

use std::collections::BTreeSet;

use crate::subject::DIGESTS;

/// The levels at which a wildcard replaces all tokens.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Siblings {
    /// The prefixes before these levels, in subscribed form.
    wide: BTreeSet<String>,
}

impl Siblings {
    /// Finds the levels of the patterns that have more than `max` tokens.
    pub(super) fn of<'p>(patterns: impl Iterator<Item = &'p str>, max: usize) -> Siblings {
        let mut siblings = Siblings::default();
        let most = patterns.size_hint().1.unwrap_or_default();
        let mut rests = Vec::with_capacity(most);
        rests.extend(patterns.filter(|pattern| *pattern != DIGESTS));
        siblings.look(&mut String::new(), &mut rests, max);
        siblings
    }

    /// `rests` is what follows `prefix`. There may be many, so they are sorted and shortened in place.
    fn look(&mut self, prefix: &mut String, rests: &mut [&str], max: usize) {
        rests.sort_unstable_by(|a, b| first_token(a).cmp(first_token(b)));
        let tokens = rests.chunk_by(|a, b| first_token(a) == first_token(b)).filter_map(|same| same.first());
        let is_wide = tokens.filter(|rest| is_literal(first_token(rest))).count() > max;
        if is_wide {
            self.wide.insert(prefix.clone());
            rests.sort_unstable_by(|a, b| widened_token(a, is_wide).cmp(widened_token(b, is_wide)));
        }
        let length = prefix.len();
        for same in rests.chunk_by_mut(|a, b| widened_token(a, is_wide) == widened_token(b, is_wide)) {
            let Some(first) = same.first() else { continue };
            prefix.push_str(widened_token(first, is_wide));
            prefix.push('.');
            let mut behind = 0;
            for at in 0..same.len() {
                if let Some((_, rest)) = same[at].split_once('.') {
                    same[behind] = rest;
                    behind += 1;
                }
            }
            if behind > 0 {
                self.look(prefix, &mut same[..behind], max);
            }
            prefix.truncate(length);
        }
    }

    pub(super) fn has_wildcard(&self) -> bool {
        !self.wide.is_empty()
    }

    /// Returns the pattern to subscribe to in place of this one.
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

fn first_token(rest: &str) -> &str {
    rest.split_once('.').map_or(rest, |(token, _)| token)
}

/// Returns the first token in subscribed form.
fn widened_token(rest: &str, is_wide: bool) -> &str {
    let token = first_token(rest);
    if is_wide && is_literal(token) { "*" } else { token }
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
    fn a_level_with_many_tokens_becomes_a_wildcard() {
        let patterns = ["d.1.cmd", "d.2.cmd", "d.3.cmd.>", "d.*.x", "site.cmd", DIGESTS];
        assert_eq!(widened(&patterns, 3), widened(&patterns, usize::MAX));
        assert_eq!(widened(&patterns, 2), ["=~.*", "d.*.cmd", "d.*.cmd.>", "d.*.x", "site.cmd"]);
        // This applies to the first level too. The pattern of digests is unchanged.
        assert_eq!(widened(&["a.x", "b.x", "c", DIGESTS], 2), ["*", "*.x", "=~.*"]);
    }

    #[test]
    fn levels_below_a_wildcard_are_counted_together() {
        let patterns = ["d.1.a", "d.2.b", "d.3.c"];
        assert_eq!(widened(&patterns, 2), ["d.*.*"]);
        assert_eq!(widened(&["d.1.a", "d.2.b", "d.2.a"], 2), ["d.1.a", "d.2.a", "d.2.b"]);
    }
}
