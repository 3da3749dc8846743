//! Compares the compiled rules to a reference that checks every rule, and for subscriptions every topic.

mod mosquitto;
mod naive;

use std::num::NonZeroU64;
use std::sync::Arc;

use naive::{Asker, Model, RuleModel};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tautwire_access::{
    AccessDecision, Changes, Denial, Permissions, Policy, PublishCache, Request, Subject, TopicStamp,
};
use tautwire_protocol::{QoS, TopicFilter};

const QOS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
/// Levels of topics: those of rules, values of placeholders, and one that no rule has.
const LEVELS: [&str; 6] = ["a", "b", "$a", "", "c", "z"];
/// One more than rules have, to cover levels below them.
const DEPTH: usize = 4;

fn rule_level() -> impl Strategy<Value = String> {
    const LEVELS: [&str; 12] = ["a", "a", "b", "b", "$a", "", "+", "+", "+", "{client_id}", "{user}", "{claim.t}"];
    select(&LEVELS[..]).prop_map(str::to_owned)
}

fn rule_filter() -> impl Strategy<Value = String> {
    (vec(rule_level(), 0..=3), any::<bool>()).prop_map(|(mut levels, below)| {
        if below || levels.is_empty() || levels == [""] {
            levels.push("#".to_owned());
        }
        levels.join("/")
    })
}

fn rule() -> impl Strategy<Value = RuleModel> {
    let actions = select(&[(true, false), (false, true), (true, true), (false, true)][..]);
    const QOS: [&[u8]; 6] = [&[0, 1, 2], &[0, 1, 2], &[0, 1, 2], &[0], &[0, 1], &[2]];
    let qos = select(&QOS[..]);
    (
        any::<bool>(),
        actions,
        rule_filter(),
        qos,
        option::weighted(0.2, any::<bool>()),
        option::weighted(0.2, any::<bool>()),
    )
        .prop_map(|(allows, (publishes, subscribes), filter, qos, retain, shared)| RuleModel {
            allows,
            publishes,
            subscribes,
            filter,
            qos: qos.to_vec(),
            retain: retain.filter(|_| publishes),
            shared: shared.filter(|_| subscribes),
        })
}

fn model() -> impl Strategy<Value = Model> {
    vec(vec(rule(), 1..=4), 1..=3).prop_map(|roles| Model { roles })
}

fn value() -> impl Strategy<Value = String> {
    select(&["a", "b", "$a", "c", "c", "", "a/b", "+", "#"][..]).prop_map(str::to_owned)
}

fn asker() -> impl Strategy<Value = Asker> {
    (value(), option::of(value()), option::of(value()), vec(any::<bool>(), 3))
        .prop_map(|(client_id, user, claim, roles)| Asker { client_id, user, claim, roles })
}

fn filter() -> impl Strategy<Value = String> {
    const LEVELS: [&str; 8] = ["a", "b", "$a", "", "c", "+", "+", "+"];
    (vec(select(&LEVELS[..]), 0..=3), any::<bool>()).prop_map(|(mut levels, below)| {
        if below || levels.is_empty() || levels == [""] {
            levels.push("#");
        }
        levels.join("/")
    })
}

fn resolve(model: &Model, asker: &Asker) -> (Arc<Policy>, Permissions) {
    let policy = Policy::parse("access.toml", &model.to_toml()).expect("a valid file");
    let policy = Arc::new(policy);
    let permissions = asker.with_subject(|subject| policy.resolve(subject));
    (policy, permissions)
}

/// Every topic of few levels.
fn topics() -> Vec<String> {
    let mut topics: Vec<String> = LEVELS.map(str::to_owned).to_vec();
    let mut longest = topics.clone();
    for _ in 1..DEPTH {
        longest = longest.iter().flat_map(|topic| LEVELS.map(|level| format!("{topic}/{level}"))).collect();
        topics.extend_from_slice(&longest);
    }
    topics.retain(|topic| !topic.is_empty());
    topics
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_first_matching_rule_decides_a_publish(model in model(), asker in asker(), qos in 0..3_usize, retain: bool) {
        let (policy, permissions) = resolve(&model, &asker);
        let mut cache = PublishCache::new(permissions.clone());
        for (number, topic) in topics().iter().enumerate() {
            let expected = model.first_for_publish(&asker, topic, qos as u8, retain);
            let found = permissions.may_publish(topic, QOS[qos], retain);
            prop_assert_eq!(found, verdict(expected), "{}", topic);
            let stamp = NonZeroU64::new(number as u64 + 1).map(TopicStamp::new);
            if number % 3 == 0 {
                for (qos, retain) in [(qos, retain), (qos, !retain), ((qos + 1) % 3, retain), (qos, retain)] {
                    let found = permissions.may_publish(topic, QOS[qos], retain);
                    prop_assert_eq!(cache.may_publish(stamp, topic, QOS[qos], retain), found);
                    prop_assert_eq!(cache.may_publish(stamp, topic, QOS[qos], retain), found);
                }
            }
            if number % 37 == 0 {
                let request = Request::Publish { topic, qos: QOS[qos], retain };
                let explained = asker.with_subject(|subject| policy.explain(subject, &request));
                prop_assert_eq!(explained.decision, found);
                prop_assert_eq!(explained.rule.map(|rule| rule.line), expected.map(|rule| model.line_of(rule)));
            }
        }
    }

    #[test]
    fn a_subscription_is_granted_only_if_every_topic_is_allowed(
        model in model(), asker in asker(), filters in vec(filter(), 1..6), qos in 0..3_usize, shared: bool,
    ) {
        let (policy, permissions) = resolve(&model, &asker);
        let topics = topics();
        let allowed: Vec<bool> = topics
            .iter()
            .map(|topic| model.first_for_receive(&asker, topic, qos as u8, shared).is_some_and(|(_, rule)| rule.allows))
            .collect();
        for text in filters {
            let text = if shared { format!("$share/g/{text}") } else { text };
            let filter = TopicFilter::new(&text).expect("a filter");
            let matched = filter.matched();
            let expected = topics.iter().zip(&allowed).all(|(topic, allowed)| *allowed || !naive::matches(matched, topic));
            let found = permissions.may_subscribe(filter, QOS[qos]);
            prop_assert_eq!(found.is_allowed(), expected, "{}", text);
            prop_assert_ne!(found, AccessDecision::Denied(Denial::TooComplex));
            // An incremental check gives the same answer for any step size.
            let mut steps = 1;
            let mut progress = permissions.start_subscribe(filter, QOS[qos], &mut steps);
            for part in 1.. {
                let Err(check) = &mut progress else { break };
                prop_assert!(part < 1_000, "the check of {} does not end", text);
                steps = 1 + part % 3;
                if let Some(verdict) = check.resume(filter, &mut steps) {
                    progress = Ok(verdict);
                }
            }
            prop_assert_eq!(progress.ok(), Some(found), "{}", text);

            let request = Request::Subscribe { filter, qos: QOS[qos] };
            let explained = asker.with_subject(|subject| policy.explain(subject, &request));
            prop_assert_eq!(explained.decision.is_allowed(), found.is_allowed());
            let example = explained.example.as_deref().unwrap_or(matched);
            prop_assert!(!example.is_empty() && naive::matches(matched, example), "{} is not an example of {}", example, matched);
            let decides = model.first_for_receive(&asker, example, qos as u8, shared);
            prop_assert_eq!(decides.is_some_and(|(_, rule)| rule.allows), found.is_allowed(), "{}", example);
            prop_assert_eq!(explained.rule.map(|rule| rule.line), decides.map(|rule| model.line_of(rule)));
        }
    }

    #[test]
    fn a_message_is_received_if_the_first_matching_rule_allows_it(model in model(), asker in asker(), qos in 0..3_usize, shared: bool) {
        let (_, permissions) = resolve(&model, &asker);
        for topic in topics() {
            let expected = verdict(model.first_for_receive(&asker, &topic, qos as u8, shared));
            prop_assert_eq!(permissions.may_receive(&topic, QOS[qos], shared), expected, "{}", topic);
        }
    }

    #[test]
    fn a_change_does_not_affect_the_decisions_of_other_clients(
        model in model(), other in rule(), role in 0..3_usize, at in 0..4_usize, asker in asker(),
    ) {
        let mut changed = model.clone();
        let role = role % changed.roles.len();
        let at = at % changed.roles[role].len();
        changed.roles[role][at] = other;
        let ((old_policy, old), (new_policy, new)) = (resolve(&model, &asker), resolve(&changed, &asker));
        let changes = Changes::between(&old_policy, &new_policy);
        if changes.can_affect(&old, &new) {
            prop_assert!(asker.has_role(role) && model.roles[role][at] != changed.roles[role][at]);
        } else {
            for topic in topics() {
                for retain in [false, true] {
                    prop_assert_eq!(old.may_publish(&topic, QOS[1], retain), new.may_publish(&topic, QOS[1], retain));
                    prop_assert_eq!(old.may_receive(&topic, QOS[1], retain), new.may_receive(&topic, QOS[1], retain));
                }
            }
        }
    }

    #[test]
    fn no_text_causes_a_panic(text in "\\PC{0,80}", topic in "[a/+#${}]{0,12}") {
        for file in [text.clone(), format!("[[role]]\nname = 'r'\nrules = [{{ allow = 'publish', topics = '''{text}''' }}]")] {
            if let Ok(policy) = Policy::parse("access.toml", &file) {
                let subject = Subject { client_id: &topic, user: Some(&text), listener: "", claims: &[], roles: &["r"] };
                let _ = Arc::new(policy).resolve(&subject).may_publish(&topic, QoS::AtMostOnce, true);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn exactly_the_rules_that_never_decide_have_a_warning(rules in vec(rule(), 1..=4)) {
        let model = Model { roles: vec![rules] };
        let policy = Policy::parse("access.toml", &model.to_toml()).expect("a valid file");
        let lines: Vec<u32> = policy.warnings().iter().map(|warning| warning.rule.line).collect();
        let mut decides = vec![false; model.roles[0].len()];
        let topics: Vec<String> = topics()
            .into_iter()
            // Below the rules all levels are equivalent.
            .filter(|topic| topic.split('/').count() < DEPTH || topic.ends_with("/z"))
            .collect();
        for (client_id, user, claim) in [
            ("c", Some("z"), Some("a")), ("z", Some("c"), Some("b")), ("$a", Some("$b"), Some("$a")), ("a", Some("a"), Some("a")),
            ("+", None, None), ("c", None, None), ("c", Some("c"), None), ("+", Some("c"), Some("c")), ("$b", None, Some("$a")),
            ("+", None, Some("c")), ("+", Some("c"), None), ("c", None, Some("c")), ("$a", Some("$a"), None), ("+", Some("$a"), Some("$a")),
            ("z", Some("z"), Some("c")), ("c", Some("z"), Some("z")), ("z", Some("c"), Some("z")),
        ] {
            let asker = Asker {
                client_id: client_id.to_owned(), user: user.map(str::to_owned), claim: claim.map(str::to_owned), roles: vec![true],
            };
            for topic in topics.iter().chain(&["$b".to_owned(), "$b/z".to_owned(), "$b/z/z".to_owned()]) {
                for (qos, flag) in [(0, false), (1, false), (2, false), (0, true), (1, true), (2, true)] {
                    let publish = model.first_for_publish(&asker, topic, qos, flag);
                    let receive = model.first_for_receive(&asker, topic, qos, flag);
                    for (rule, _) in publish.into_iter().chain(receive) {
                        decides[rule] = true;
                    }
                }
            }
        }
        for (number, rule) in model.roles[0].iter().enumerate() {
            let is_warned = lines.contains(&model.line_of((number, rule)));
            prop_assert_eq!(is_warned, !decides[number], "rule {} of {}", number, model.to_toml());
        }
    }
}

fn verdict(first: Option<(usize, &RuleModel)>) -> AccessDecision {
    match first {
        Some((_, rule)) if rule.allows => AccessDecision::Allowed,
        Some(_) => AccessDecision::Denied(Denial::ByRule),
        None => AccessDecision::Denied(Denial::NoRule),
    }
}
