//! Tests topics and filters as subjects and patterns, with random ones.

use proptest::prelude::*;
use tautwire_cluster::names::Seed;
use tautwire_cluster::subject::{DIGESTS, Named, SUBJECT_MAX_BYTES, matches, patterns_of, subject_of, topic_of};

const SEED: Seed = Seed([3; 16]);

fn level() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["", "a", "b", "c", "=", ".", "*", ">", "$SYS", " ", "ä", "=2E", "=~", "\u{1}"])
            .prop_map(str::to_owned),
        2 => "[^/+#\0]{0,6}",
        1 => (200usize..300).prop_map(|length| "x".repeat(length)),
    ]
}

fn topic() -> impl Strategy<Value = String> {
    prop_oneof![prop::collection::vec(level(), 1..6), prop::collection::vec(level(), 28..40)]
        .prop_map(|levels| levels.join("/"))
        .prop_filter("a topic has a character", |topic| !topic.is_empty())
}

/// Returns a filter that often matches `topic`.
fn filter_of(topic: &str, choices: &[u8]) -> String {
    let levels: Vec<_> = topic.split('/').collect();
    let mut filter = Vec::new();
    for (at, level) in levels.iter().enumerate() {
        match choices[at % choices.len()] % 8 {
            0 | 1 => filter.push("+"),
            2 if at > 0 => {
                filter.push("#");
                return filter.join("/");
            }
            3 if at + 1 == levels.len() => filter.extend([*level, "#"]),
            _ => filter.push(level),
        }
    }
    filter.join("/")
}

/// MQTT's own rule, level by level [MQTT 5.0 section 4.7].
fn filter_matches(filter: &str, topic: &str) -> bool {
    let (mut filter, mut topic) = (filter.split('/'), topic.split('/'));
    loop {
        match (filter.next(), topic.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some(wanted), Some(level)) if wanted == "+" || wanted == level => {}
            _ => return false,
        }
    }
}

proptest! {
    #[test]
    fn a_subject_maps_back_to_its_topic(topic in topic()) {
        let subject = subject_of(&topic, SEED);
        match topic_of(&subject) {
            Ok(Named::Topic(same)) => prop_assert_eq!(same, topic),
            Ok(Named::Digest) => prop_assert!(matches(DIGESTS, &subject)),
            Err(error) => prop_assert!(false, "{subject}: {error}"),
        }
    }

    #[test]
    fn a_subject_has_no_special_characters_of_the_bus(topic in topic()) {
        let subject = subject_of(&topic, SEED);
        prop_assert!(subject.len() <= SUBJECT_MAX_BYTES);
        prop_assert!(!subject.contains(|c: char| c <= ' ' || c == '\x7f' || c == '*' || c == '>'), "{subject:?}");
        prop_assert!(subject.split('.').all(|token| !token.is_empty()), "{subject}");
    }

    #[test]
    fn a_parsed_subject_is_the_subject_of_its_topic(subject in "[ab=.2E0~é]{0,12}") {
        if let Ok(Named::Topic(topic)) = topic_of(&subject) {
            prop_assert_eq!(subject_of(&topic, SEED), subject);
        }
    }

    #[test]
    fn patterns_match_every_topic_of_their_filter(topic in topic(), other in topic(), choices in prop::collection::vec(any::<u8>(), 1..40)) {
        let filter = filter_of(&topic, &choices);
        for topic in [&topic, &other] {
            if filter_matches(&filter, topic) {
                let subject = subject_of(topic, SEED);
                let patterns = patterns_of(&filter);
                prop_assert!(
                    patterns.iter().any(|pattern| matches(pattern, &subject)) || matches(DIGESTS, &subject),
                    "{filter} -> {patterns:?} misses {subject}"
                );
            }
        }
    }

    #[test]
    fn patterns_are_short_and_well_formed(topic in topic(), choices in prop::collection::vec(any::<u8>(), 1..40)) {
        for pattern in patterns_of(&filter_of(&topic, &choices)) {
            prop_assert!(pattern.len() <= SUBJECT_MAX_BYTES + 2, "{pattern}");
            let tokens: Vec<_> = pattern.split('.').collect();
            prop_assert!(tokens.iter().all(|token| !token.is_empty()), "{pattern}");
            prop_assert!(tokens[..tokens.len() - 1].iter().all(|token| *token != ">"), "{pattern}");
        }
    }
}
