//! Rule files of arbitrary text: no panic, errors have a position, and a granted subscription matches no denied topic.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tautwire_access::import::mosquitto_acl;
use tautwire_access::{ErrorCode, Policy, Request, Subject};
use tautwire_protocol::{QoS, TopicFilter, TopicName};

fuzz_target!(|input: &[u8]| {
    let [kind, text @ ..] = input else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    // The request comes before the file.
    let mut parts = text.splitn(4, '\n');
    let mut part = || parts.next().unwrap_or_default();
    let (client_id, filter, topic, text) = (part(), part(), part(), part());
    let file = match kind % 3 {
        0 => text.to_owned(),
        1 => format!("[[role]]\nname = \"role\"\nrules = [\n{text}\n]\n"),
        _ => mosquitto_acl(text).text,
    };
    let policy = match Policy::parse("access.toml", &file) {
        Ok(policy) => Arc::new(policy),
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(kind % 3 != 2 || error.code == ErrorCode::Empty, "an invalid import: {error}\n{file}");
                let (line, column) = error.position.unwrap_or((1, 1));
                assert!(line >= 1 && column >= 1 && line <= file.split('\n').count(), "{error}");
            }
            return;
        }
    };
    let claims = [("tenant", topic)];
    let subject =
        Subject { client_id, user: Some(client_id), listener: "tls", claims: &claims, roles: &["role", "anonymous"] };
    let permissions = policy.resolve(&subject);
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        if let Ok(topic) = TopicName::new(topic) {
            let request = Request::Publish { topic: topic.as_str(), qos, retain: true };
            let decision = permissions.may_publish(topic.as_str(), qos, true);
            assert_eq!(policy.explain(&subject, &request).decision, decision);
        }
        let Ok(filter) = TopicFilter::new(filter) else { continue };
        let decision = permissions.may_subscribe(filter, qos);
        let explanation = policy.explain(&subject, &Request::Subscribe { filter, qos });
        assert_eq!(explanation.decision, decision);
        let is_shared = filter.share().is_some();
        let example = explanation.example.as_deref();
        for topic in [topic, example.unwrap_or_default()].map(TopicName::new).into_iter().flatten() {
            let is_allowed = permissions.may_receive(topic.as_str(), qos, is_shared).is_allowed();
            let in_a_format = filter.matched().starts_with("$as/");
            assert!(is_allowed || !decision.is_allowed() || in_a_format || !filter.matches(topic), "{topic} leaks");
        }
        if let (Some(example), false) = (example, decision.is_allowed()) {
            assert!(!permissions.may_receive(example, qos, is_shared).is_allowed(), "{example} is not an example");
        }
    }
});
