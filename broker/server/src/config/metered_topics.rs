//! Topic filters for which messages are counted.

use std::ops::RangeInclusive;

use tautwire_engine::METERED_FILTERS_MAX;
use tautwire_protocol::TopicFilter;
use toml::de::DeValue;

use super::value::{Setting, ValueError, quoted, texts};

/// Distinct filters that are not shared subscriptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MeteredTopics(pub(crate) Vec<Box<str>>);

impl Setting for MeteredTopics {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        format!("list of topic filters, at most {METERED_FILTERS_MAX}")
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let mut filters: Vec<Box<str>> = Vec::new();
        for text in texts::<Self>(value)? {
            let is_valid = TopicFilter::new(text).is_ok_and(|filter| filter.share().is_none());
            if !is_valid {
                let text = text.escape_debug();
                return Err(ValueError::Range(format!(
                    "\"{text}\" is not a topic filter; write it like \"telemetry/#\""
                )));
            }
            if filters.iter().any(|known| **known == *text) {
                return Err(ValueError::Range(format!("\"{}\" is listed twice", text.escape_debug())));
            }
            filters.push(text.into());
        }
        if filters.len() > METERED_FILTERS_MAX {
            let count = filters.len();
            return Err(ValueError::Range(format!(
                "there are {count} topic filters; the maximum is {METERED_FILTERS_MAX}"
            )));
        }
        Ok(Self(filters))
    }

    fn to_toml(&self) -> String {
        format!("[{}]", self.0.iter().map(|filter| quoted(filter)).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> Result<MeteredTopics, ValueError> {
        let text = format!("x = {list}");
        let value = toml::de::DeTable::parse(&text).expect("TOML");
        MeteredTopics::from_toml(value.get_ref().get("x").expect("there").get_ref(), None)
    }

    #[test]
    fn filters_round_trip() {
        let list = "[\"a/#\", \"+/b\"]";
        assert_eq!(read(list).expect("two filters").to_toml(), list);
    }

    #[test]
    fn invalid_duplicate_and_too_many_filters_are_refused() {
        let many: Vec<String> = (0..=METERED_FILTERS_MAX).map(|at| format!("\"a/{at}\"")).collect();
        for list in ["[\"a/#/b\"]", "[\"\"]", "[\"$share/g/a\"]", "[\"a\", \"a\"]", &format!("[{}]", many.join(", "))] {
            assert!(matches!(read(list), Err(ValueError::Range(_))), "{list}");
        }
    }
}
