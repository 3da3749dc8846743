//! Policies for full session queues, by topic filter and by user.

use std::ops::RangeInclusive;

use tautwire_engine::SlowConsumer;
use tautwire_protocol::TopicFilter;
use toml::de::DeValue;

use super::value::{Choice, Setting, ValueError, quoted, texts};

impl Choice for SlowConsumer {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("drop_new", Self::DropNew),
        ("drop_old", Self::DropOld),
        ("disconnect", Self::Disconnect),
        ("refuse", Self::Refuse),
        ("pause_publisher", Self::PausePublisher),
    ];
}

/// Policies by topic filter, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SlowConsumerTopics(pub(crate) Vec<(Box<str>, SlowConsumer)>);

/// Policies by user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SlowConsumerUsers(pub(crate) Vec<(Box<str>, SlowConsumer)>);

impl Setting for SlowConsumerTopics {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"FILTER = POLICY\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let is_valid = |text: &str| TopicFilter::new(text).is_ok_and(|filter| filter.share().is_none());
        let read = |text| rule(text, "a topic filter", "orders/#", is_valid);
        texts::<Self>(value)?.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    fn to_toml(&self) -> String {
        list(&self.0)
    }
}

impl Setting for SlowConsumerUsers {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"USER = POLICY\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let read = |text| rule(text, "a user name", "billing", |user| !user.is_empty());
        texts::<Self>(value)?.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    fn to_toml(&self) -> String {
        list(&self.0)
    }
}

/// Parses `name = policy`; `is_valid` checks the name, and `noun` names it in the error message.
fn rule(
    text: &str,
    noun: &str,
    example: &str,
    is_valid: impl FnOnce(&str) -> bool,
) -> Result<(Box<str>, SlowConsumer), ValueError> {
    let parts = text.rsplit_once('=').map(|(name, policy)| (name.trim(), policy.trim()));
    let rule = parts.and_then(|(name, policy)| {
        let (_, policy) = SlowConsumer::CHOICES.iter().find(|(choice, _)| *choice == policy)?;
        is_valid(name).then(|| (name.into(), *policy))
    });
    rule.ok_or_else(|| {
        let policies: Vec<_> = SlowConsumer::CHOICES.iter().map(|(name, _)| *name).collect();
        ValueError::Range(format!(
            "\"{}\" is not {noun}, \"=\" and one of {}; write it like \"{example} = refuse\"",
            text.escape_debug(),
            policies.join(", ")
        ))
    })
}

fn list(rules: &[(Box<str>, SlowConsumer)]) -> String {
    let rules: Vec<_> = rules.iter().map(|(name, policy)| quoted(&format!("{name} = {}", policy.name()))).collect();
    format!("[{}]", rules.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<S: Setting>(list: &str) -> Result<S, ValueError> {
        let text = format!("x = {list}");
        let value = toml::de::DeTable::parse(&text).expect("TOML");
        S::from_toml(value.get_ref().get("x").expect("there").get_ref(), None)
    }

    #[test]
    fn a_rule_round_trips() {
        let list = "[\"orders/# = refuse\", \"a=b = pause_publisher\"]";
        assert_eq!(read::<SlowConsumerTopics>(list).expect("two rules").to_toml(), list);
        let users = read::<SlowConsumerUsers>("[\"ann=drop_old\"]").expect("a rule");
        assert_eq!(users.0, [("ann".into(), SlowConsumer::DropOld)]);
    }

    #[test]
    fn an_invalid_rule_is_refused_with_an_example() {
        for wrong in ["a", "a = drop", "a/#/b = refuse", "$share/g/a = refuse"] {
            let list = format!("[\"{wrong}\"]");
            let Err(ValueError::Range(message)) = read::<SlowConsumerTopics>(&list) else { panic!("{wrong}") };
            assert!(message.contains("write it like \"orders/# = refuse\""), "{message}");
        }
        assert!(read::<SlowConsumerUsers>("[\" = refuse\"]").is_err());
    }

    #[test]
    fn each_policy_has_its_configuration_name() {
        assert!(SlowConsumer::CHOICES.iter().all(|(name, policy)| *name == policy.name()));
    }
}
