//! Advice for refusals by the broker.

use tautwire_client::{Error, Refused};
use tautwire_protocol::ReasonCode;

/// What the operator can do, if access rules may be the reason.
pub(super) fn advice(error: &Error) -> Option<String> {
    let Error::Refused { what: Refused::Subscription(filter), reason, .. } = error else { return None };
    match *reason {
        ReasonCode::NotAuthorized => {
            Some(format!("the access rules must allow this client to subscribe to every topic that {filter} matches"))
        }
        // The only code that MQTT 3.1.1 has for a refusal [MQTT-3.9.3-2].
        ReasonCode::UnspecifiedError => Some(format!(
            "the access rules may deny {filter}; MQTT 3.1.1 has no reason codes, use -V 5 to get the reason"
        )),
        _ => None,
    }
}

/// Advice for a refused message to `topic`.
pub(super) fn advice_for_message(reason: ReasonCode, topic: &str) -> Option<String> {
    let topic = topic.escape_debug();
    (reason == ReasonCode::NotAuthorized)
        .then(|| format!("the access rules must allow this client to publish to {topic}"))
}
