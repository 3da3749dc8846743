//! Which messages are forwarded in which direction, and how their topics change.

use std::fmt;

use tautwire_protocol::{QoS, SubscriptionId, TopicFilter, TopicName, topic_matches};

/// The direction of a rule, seen from this broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the remote broker to this one.
    In,
    /// From this broker to the remote one.
    Out,
    /// Both ways.
    Both,
}

impl Direction {
    /// Whether the rule is for messages from the remote broker.
    #[must_use]
    pub fn is_in(self) -> bool {
        self != Direction::Out
    }

    /// Whether the rule is for messages to the remote broker.
    #[must_use]
    pub fn is_out(self) -> bool {
        self != Direction::In
    }
}

/// Forwards the messages of some topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The topic filter without prefixes. Empty if the prefixes are whole topics.
    pub filter: String,
    /// Which way the messages go.
    pub direction: Direction,
    /// The highest QoS of forwarded messages.
    pub qos: QoS,
    /// Comes before the topic at this broker, such as `site/7/`.
    pub local_prefix: String,
    /// Comes before the topic at the remote broker.
    pub remote_prefix: String,
    /// Whether forwarded messages keep their RETAIN flag.
    pub keeps_retain: bool,
    /// The most messages per second, in each direction.
    pub rate_per_s: Option<u32>,
}

/// A rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The number of the rule, from 0.
    pub rule: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {}", self.rule + 1, self.message)
    }
}

impl std::error::Error for RuleError {}

/// Rules with their filters at both brokers.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<CompiledRule>);

#[derive(Debug, Clone)]
pub(crate) struct CompiledRule {
    pub(crate) rule: Rule,
    pub(crate) local_filter: String,
    pub(crate) remote_filter: String,
    pub(crate) subscription_id: SubscriptionId,
}

impl Rules {
    /// Checks and compiles rules.
    ///
    /// # Errors
    /// A rule whose filter is invalid or shared, or whose prefix has a wildcard; two rules in one direction with the same filter.
    pub fn new(rules: Vec<Rule>) -> Result<Rules, RuleError> {
        let mut compiled: Vec<CompiledRule> = Vec::with_capacity(rules.len());
        for (at, rule) in rules.into_iter().enumerate() {
            let fail = |message: String| RuleError { rule: at, message };
            for prefix in [&rule.local_prefix, &rule.remote_prefix] {
                if prefix.contains(['+', '#', '\0']) {
                    return Err(fail(format!("the prefix \"{prefix}\" has a wildcard or U+0000")));
                }
            }
            let local_filter = format!("{}{}", rule.local_prefix, rule.filter);
            let remote_filter = format!("{}{}", rule.remote_prefix, rule.filter);
            for filter in [&local_filter, &remote_filter] {
                let parsed = TopicFilter::new(filter)
                    .map_err(|error| fail(format!("\"{filter}\" is no topic filter: {error}")))?;
                if parsed.share().is_some() {
                    return Err(fail(format!("\"{filter}\" is a shared subscription, which a bridge cannot use")));
                }
            }
            let is_taken = |other: &CompiledRule| {
                (rule.direction.is_out() && other.rule.direction.is_out() && other.local_filter == local_filter)
                    || (rule.direction.is_in() && other.rule.direction.is_in() && other.remote_filter == remote_filter)
            };
            if let Some(other) = compiled.iter().position(is_taken) {
                return Err(fail(format!("rule {} has the same filter in the same direction", other + 1)));
            }
            let subscription_id = subscription_id(&rule);
            compiled.push(CompiledRule { rule, local_filter, remote_filter, subscription_id });
        }
        Ok(Rules(compiled))
    }

    /// The rules, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().map(|compiled| &compiled.rule)
    }

    /// The topic filters of the session at this broker.
    pub fn local_filters(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|compiled| compiled.rule.direction.is_out()).map(|compiled| compiled.local_filter.as_str())
    }

    /// The topic filters of the session at the remote broker.
    pub fn remote_filters(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|compiled| compiled.rule.direction.is_in()).map(|compiled| compiled.remote_filter.as_str())
    }

    /// How many bytes the longest new prefix of an outbound topic has.
    pub(crate) fn growth_bytes(&self) -> usize {
        let growth = |compiled: &CompiledRule| {
            compiled.rule.remote_prefix.len().saturating_sub(compiled.rule.local_prefix.len())
        };
        self.0.iter().map(growth).max().unwrap_or(0)
    }

    pub(crate) fn compiled(&self) -> &[CompiledRule] {
        &self.0
    }

    /// The rule of an outbound message. The message may have been queued under earlier rules, so the topic is checked too.
    pub(crate) fn outbound(&self, ids: impl Iterator<Item = SubscriptionId>, topic: &str) -> Option<usize> {
        let is_of = |at: &usize| {
            let compiled = &self.0[*at];
            compiled.rule.direction.is_out() && topic_matches(&compiled.local_filter, topic)
        };
        let named = ids.filter_map(|id| self.0.iter().position(|compiled| compiled.subscription_id == id)).find(is_of);
        named.or_else(|| (0..self.0.len()).find(is_of))
    }

    /// The rule of an inbound message.
    pub(crate) fn inbound(&self, topic: &str) -> Option<usize> {
        self.0
            .iter()
            .position(|compiled| compiled.rule.direction.is_in() && topic_matches(&compiled.remote_filter, topic))
    }
}

impl CompiledRule {
    /// The topic at the remote broker.
    pub(crate) fn remote_topic<'a>(&self, local: &'a str, scratch: &'a mut String) -> Option<TopicName<'a>> {
        replace_prefix(local, &self.rule.local_prefix, &self.rule.remote_prefix, scratch)
    }

    /// The topic at this broker.
    pub(crate) fn local_topic<'a>(&self, remote: &'a str, scratch: &'a mut String) -> Option<TopicName<'a>> {
        replace_prefix(remote, &self.rule.remote_prefix, &self.rule.local_prefix, scratch)
    }
}

/// Returns `None` if the result is not a topic name.
fn replace_prefix<'a>(topic: &'a str, old: &str, new: &str, scratch: &'a mut String) -> Option<TopicName<'a>> {
    if old == new {
        return TopicName::new(topic).ok();
    }
    let rest = topic.strip_prefix(old)?;
    scratch.clear();
    scratch.push_str(new);
    scratch.push_str(rest);
    TopicName::new(scratch).ok()
}

/// Identifies a rule in queued messages, also after the order of the rules has changed: a hash of what changes a topic (FNV-1a, 27 bits).
fn subscription_id(rule: &Rule) -> SubscriptionId {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for text in [&rule.filter, &rule.local_prefix, &rule.remote_prefix] {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    SubscriptionId::new((hash >> 37) as u32 | 1).unwrap_or_else(|| unreachable!("27 bits, and not zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(filter: &str, direction: Direction, local_prefix: &str, remote_prefix: &str) -> Rule {
        Rule {
            filter: filter.into(),
            direction,
            qos: QoS::AtLeastOnce,
            local_prefix: local_prefix.into(),
            remote_prefix: remote_prefix.into(),
            keeps_retain: true,
            rate_per_s: None,
        }
    }

    #[test]
    fn prefixes_are_replaced() {
        let rules = Rules::new(vec![rule("+/temp", Direction::Both, "", "site/7/")]).expect("valid");
        let compiled = &rules.compiled()[0];
        let mut scratch = String::new();
        assert_eq!(compiled.remote_topic("oven/temp", &mut scratch).map(TopicName::as_str), Some("site/7/oven/temp"));
        assert_eq!(compiled.local_topic("site/7/oven/temp", &mut scratch).map(TopicName::as_str), Some("oven/temp"));
        assert_eq!(compiled.local_topic("other/oven/temp", &mut scratch), None);
    }

    #[test]
    fn a_prefix_can_be_a_whole_topic() {
        let rules = Rules::new(vec![rule("", Direction::Both, "here", "there")]).expect("valid");
        assert_eq!(rules.local_filters().collect::<Vec<_>>(), ["here"]);
        let mut scratch = String::new();
        assert_eq!(rules.compiled()[0].remote_topic("here", &mut scratch).map(TopicName::as_str), Some("there"));
    }

    #[test]
    fn wrong_rules_are_named() {
        let wrong = |rules| Rules::new(rules).expect_err("wrong").to_string();
        assert!(wrong(vec![rule("a/#/b", Direction::In, "", "")]).starts_with("rule 1: \"a/#/b\" is no topic filter"));
        assert!(wrong(vec![rule("a", Direction::In, "+/", "")]).contains("the prefix \"+/\" has a wildcard"));
        assert!(wrong(vec![rule("$share/g/a", Direction::In, "", "")]).contains("shared subscription"));
        let twice = vec![rule("a", Direction::Both, "x/", "y/"), rule("a", Direction::Out, "x/", "z/")];
        assert_eq!(wrong(twice), "rule 2: rule 1 has the same filter in the same direction");
    }

    #[test]
    fn an_identifier_that_no_longer_fits_gives_way_to_the_topic() {
        let rules =
            Rules::new(vec![rule("a/#", Direction::Out, "", ""), rule("b/#", Direction::Out, "", "")]).expect("valid");
        let id = rules.compiled()[1].subscription_id;
        assert_eq!(rules.outbound([id].into_iter(), "b/1"), Some(1));
        assert_eq!(rules.outbound([id].into_iter(), "a/1"), Some(0));
        assert_eq!(rules.outbound([].into_iter(), "c"), None);
        let reordered = Rules::new(vec![rule("b/#", Direction::Out, "", "")]).expect("valid");
        assert_eq!(reordered.compiled()[0].subscription_id, id, "the identifier does not depend on the order");
    }
}
