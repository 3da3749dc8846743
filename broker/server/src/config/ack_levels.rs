//! Types of the keys for acknowledgement levels: the default, and exceptions by topic and listener.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use tautwire_protocol::TopicFilter;
use tautwire_session::AckLevel;
use toml::de::DeValue;

use super::value::{Choice, Setting, ValueError, quoted, texts};

/// The default level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommonAck {
    /// The highest level that the broker offers, on its own or in a cluster.
    Auto,
    Level(AckLevel),
}

/// Levels by topic filter, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AckTopics(pub(crate) Vec<(Box<str>, AckLevel)>);

/// Levels by listener address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AckListeners(pub(crate) Vec<(SocketAddr, AckLevel)>);

impl Choice for CommonAck {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("memory", Self::Level(AckLevel::Memory)),
        ("os", Self::Level(AckLevel::Os)),
        ("disk", Self::Level(AckLevel::Disk)),
        ("quorum", Self::Level(AckLevel::Quorum)),
    ];
}

impl Setting for AckTopics {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"FILTER = LEVEL\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let filter =
            |text: &str| TopicFilter::new(text).ok().filter(|filter| filter.share().is_none()).map(|_| text.into());
        texts::<Self>(value)?
            .into_iter()
            .map(|text| rule(text, "a topic filter", filter))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn to_toml(&self) -> String {
        list(&self.0)
    }
}

impl Setting for AckListeners {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"ADDRESS:PORT = LEVEL\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let address = |text: &str| text.parse().ok();
        texts::<Self>(value)?
            .into_iter()
            .map(|text| rule(text, "an address", address))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn to_toml(&self) -> String {
        list(&self.0)
    }
}

/// Parses `key = level`; `read` parses the key, and `noun` names it in the error message.
fn rule<T>(text: &str, noun: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<(T, AckLevel), ValueError> {
    let rule = text.rsplit_once('=').and_then(|(first, level)| {
        let level = AckLevel::CHOICES.iter().find(|(name, _)| *name == level.trim())?.1;
        Some((read(first.trim())?, level))
    });
    rule.ok_or_else(|| {
        let levels: Vec<_> = AckLevel::CHOICES.iter().map(|(name, _)| *name).collect();
        ValueError::Range(format!(
            "\"{}\" is not {noun}, \"=\" and one of {}; write it like \"{} = memory\"",
            text.escape_debug(),
            levels.join(", "),
            if noun == "an address" { "127.0.0.1:1884" } else { "telemetry/#" }
        ))
    })
}

fn list<T: ToString>(rules: &[(T, AckLevel)]) -> String {
    let rules = rules
        .iter()
        .map(|(key, level)| quoted(&format!("{} = {}", key.to_string(), level.to_toml().trim_matches('"'))));
    format!("[{}]", rules.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_round_trips() {
        let value = toml::de::DeTable::parse("x = [\"a/+ = memory\", \"b=c = os\"]").expect("TOML");
        let rules = AckTopics::from_toml(value.get_ref().get("x").expect("there").get_ref(), None).expect("two rules");
        assert_eq!(rules.0, [("a/+".into(), AckLevel::Memory), ("b=c".into(), AckLevel::Os)]);
        assert_eq!(rules.to_toml(), "[\"a/+ = memory\", \"b=c = os\"]");
        for wrong in ["a", "a = often", "a/#/b = os", "$share/g/a = os"] {
            assert!(
                rule(wrong, "a topic filter", |text| TopicFilter::new(text)
                    .ok()
                    .filter(|f| f.share().is_none())
                    .map(|_| ()))
                .is_err(),
                "{wrong}"
            );
        }
    }
}
