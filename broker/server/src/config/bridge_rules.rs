//! The rules of a bridge: a list of tables.

use std::ops::RangeInclusive;

use tautwire_bridge::{Direction, Rule};
use tautwire_protocol::QoS;
use toml::de::{DeTable, DeValue};

use super::value::{Choice, Setting, ValueError, quoted};
use crate::nearest::nearest;

/// The keys of a rule.
const KEYS: &[&str] = &["filter", "direction", "qos", "local_prefix", "remote_prefix", "retain", "rate"];
/// The most rules of one bridge.
const RULES_MAX: usize = 1000;
/// The highest rate, in messages per second.
const RATE_MAX: u64 = 10_000_000;

/// Which messages a bridge forwards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BridgeRules(Vec<Rule>);

impl BridgeRules {
    pub(crate) fn get(&self) -> &[Rule] {
        &self.0
    }
}

impl Choice for Direction {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("in", Direction::In), ("out", Direction::Out), ("both", Direction::Both)];
}

/// What becomes of the RETAIN flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetainMode {
    Keep,
    Clear,
}

impl Choice for RetainMode {
    const CHOICES: &'static [(&'static str, Self)] = &[("keep", RetainMode::Keep), ("clear", RetainMode::Clear)];
}

impl Setting for BridgeRules {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of tables such as { filter = \"a/#\", direction = \"out\" }".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let wrong_type = || ValueError::Type(format!("expected {}", Self::accepts(None)));
        let list = value.as_array().ok_or_else(wrong_type)?;
        if list.len() > RULES_MAX {
            return Err(ValueError::Range(format!("there are {} rules; the maximum is {RULES_MAX}", list.len())));
        }
        let mut rules = Vec::with_capacity(list.len());
        for (at, item) in list.iter().enumerate() {
            let table = item.get_ref().as_table().ok_or_else(wrong_type)?;
            rules.push(rule(table).map_err(|error| in_rule(at, error))?);
        }
        Ok(BridgeRules(rules))
    }

    fn to_toml(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        format!("[{}]", self.0.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

fn rule(table: &DeTable<'_>) -> Result<Rule, ValueError> {
    for (name, _) in table {
        let name = name.get_ref();
        if !KEYS.contains(&name.as_ref()) {
            let name = name.escape_debug().to_string();
            return Err(ValueError::Range(match nearest(&name, KEYS.iter().copied()) {
                Some(known) => format!("there is no key {name}; did you mean {known}?"),
                None => format!("there is no key {name}; the keys are {}", KEYS.join(", ")),
            }));
        }
    }
    let read_text = |key| read::<String>(table, key, None).map(Option::unwrap_or_default);
    let Some(direction) = read(table, "direction", None)? else {
        return Err(ValueError::Range("direction is missing; write \"in\", \"out\" or \"both\"".to_owned()));
    };
    let rule = Rule {
        filter: read_text("filter")?,
        direction,
        qos: read(table, "qos", None)?.unwrap_or(QoS::AtLeastOnce),
        local_prefix: read_text("local_prefix")?,
        remote_prefix: read_text("remote_prefix")?,
        keeps_retain: read(table, "retain", None)?.unwrap_or(RetainMode::Keep) == RetainMode::Keep,
        rate_per_s: read(table, "rate", Some(&(1..=RATE_MAX)))?,
    };
    Ok(rule)
}

/// Reads one key of a rule.
fn read<S: Setting>(
    table: &DeTable<'_>,
    key: &str,
    range: Option<&RangeInclusive<u64>>,
) -> Result<Option<S>, ValueError> {
    let Some(value) = table.get(key) else { return Ok(None) };
    S::from_toml(value.get_ref(), range).map(Some).map_err(|error| match error {
        ValueError::Type(text) => ValueError::Type(format!("{key}: {text}")),
        ValueError::Range(text) => ValueError::Range(format!("{key}: {text}")),
    })
}

fn in_rule(at: usize, error: ValueError) -> ValueError {
    match error {
        ValueError::Type(text) => ValueError::Type(format!("rule {}: {text}", at + 1)),
        ValueError::Range(text) => ValueError::Range(format!("rule {}: {text}", at + 1)),
    }
}

/// A rule as a table in one line, without the keys that have their default.
fn shown(rule: &Rule) -> String {
    let mut text = format!("{{ filter = {}, direction = {}", quoted(&rule.filter), rule.direction.to_toml());
    let mut push = |key: &str, value: String| text.push_str(&format!(", {key} = {value}"));
    push("qos", rule.qos.to_toml());
    for (key, prefix) in [("local_prefix", &rule.local_prefix), ("remote_prefix", &rule.remote_prefix)] {
        if !prefix.is_empty() {
            push(key, quoted(prefix));
        }
    }
    if !rule.keeps_retain {
        push("retain", RetainMode::Clear.to_toml());
    }
    if let Some(rate) = rule.rate_per_s {
        push("rate", rate.to_string());
    }
    text.push_str(" }");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Result<BridgeRules, ValueError> {
        let text = format!("x = {list}");
        let value = DeTable::parse(&text).expect("TOML");
        BridgeRules::from_toml(value.get_ref().get("x").expect("there").get_ref(), None)
    }

    #[test]
    fn rules_round_trip() {
        let list = "[{ filter = \"a/#\", direction = \"out\", qos = 2, remote_prefix = \"site/\", retain = \"clear\", rate = 5 }, \
                    { filter = \"b\", direction = \"both\", qos = 1 }]";
        let rules = parse(list).expect("rules");
        assert_eq!(rules.to_toml(), list);
        assert_eq!(
            (rules.get()[0].qos, rules.get()[0].keeps_retain, rules.get()[1].keeps_retain),
            (QoS::ExactlyOnce, false, true)
        );
    }

    #[test]
    fn wrong_rules_are_named_with_their_number() {
        let wrong = |list: &str| match parse(list) {
            Err(ValueError::Type(text) | ValueError::Range(text)) => text,
            Ok(rules) => panic!("{rules:?}"),
        };
        assert_eq!(
            wrong("[{ direction = \"in\" }, { filter = \"a\" }]"),
            "rule 2: direction is missing; write \"in\", \"out\" or \"both\""
        );
        assert_eq!(
            wrong("[{ direction = \"in\", fliter = \"a\" }]"),
            "rule 1: there is no key fliter; did you mean filter?"
        );
        assert!(wrong("[{ direction = \"sideways\" }]").starts_with("rule 1: direction: \"sideways\" is not one of"));
        assert!(wrong("[{ direction = \"in\", rate = 0 }]").starts_with("rule 1: rate: 0 is out of range"));
        assert!(wrong("[1]").starts_with("expected list of tables"));
    }
}
