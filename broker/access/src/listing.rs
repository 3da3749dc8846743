//! The list of all rules of a policy, for people.

use crate::explain::RuleText;
use crate::policy::Policy;

/// An entry of the list: a rule with one of its filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRule {
    /// Its position, from 1. Of the rules of a client's roles, the first that matches decides.
    pub number: usize,
    /// The listener that the rule is specific to; `None` if it applies to all others.
    pub listener: Option<String>,
    /// Whether it allows or denies.
    pub allows: bool,
    /// Whether it applies to publishing.
    pub publish: bool,
    /// Whether it applies to subscribing.
    pub subscribe: bool,
    /// The topic filter, as written.
    pub filter: String,
    /// The rule and its position.
    pub rule: RuleText,
}

impl Policy {
    /// At most `limit` rules in file order, after the one numbered `after`; only of one role if that is given. The rules of listeners that
    /// have their own come last.
    #[must_use]
    pub fn list(&self, role: Option<&str>, after: usize, limit: usize) -> Vec<ListedRule> {
        let own = std::iter::once((None, self));
        let all = own.chain(self.of_listeners().map(|(name, policy)| (Some(name), &**policy)));
        let rules = all.flat_map(|(listener, policy)| {
            let rules = policy.compiled().into_iter().flat_map(|compiled| {
                compiled.rules.iter().filter_map(move |rule| Some((rule, compiled.text_of(rule)?)))
            });
            rules.map(move |(rule, text)| (listener, rule, text))
        });
        let numbered = rules.enumerate().skip(after).map(|(at, (listener, rule, text))| ListedRule {
            number: at + 1,
            listener: listener.map(str::to_owned),
            allows: rule.allows,
            publish: !rule.publish.is_empty(),
            subscribe: !rule.subscribe.is_empty(),
            filter: rule.filter.to_string(),
            rule: text,
        });
        numbered.filter(|listed| role.is_none_or(|role| listed.rule.role == role)).take(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
[[role]]
name = "meter"
rules = [
    { allow = "publish", topics = ["power/#", "heat/#"] },
]
[[role]]
name = "all"
rules = [{ deny = ["publish", "subscribe"], topics = "secret/#" }]
"#;

    fn filters(rules: &[ListedRule]) -> Vec<(usize, Option<&str>, &str, u32)> {
        rules
            .iter()
            .map(|listed| (listed.number, listed.listener.as_deref(), &*listed.filter, listed.rule.line))
            .collect()
    }

    #[test]
    fn rules_are_listed_with_their_positions_by_page_and_by_role() {
        let parse = |file| Policy::parse(file, RULES).expect("a valid file");
        let policy = parse("a.toml").with_listeners(vec![("tls".into(), parse("b.toml"))]);
        let all = policy.list(None, 0, 100);
        assert_eq!(all.len(), policy.rule_count());
        assert_eq!(filters(&all[..2]), [(1, None, "power/#", 5), (2, None, "heat/#", 5)]);
        let deny = &all[2];
        assert!(!deny.allows && deny.publish && deny.subscribe);
        assert_eq!(deny.rule.text, "{ deny = [\"publish\", \"subscribe\"], topics = \"secret/#\" }");
        assert_eq!(all[3].rule.file, "b.toml");
        assert_eq!(filters(&policy.list(None, 1, 2)), [(2, None, "heat/#", 5), (3, None, "secret/#", 9)]);
        assert_eq!(filters(&policy.list(Some("all"), 3, 9)), [(6, Some("tls"), "secret/#", 9)]);
        assert_eq!((Policy::open().list(None, 0, 9), policy.list(None, 6, 9)), (vec![], vec![]));
    }
}
