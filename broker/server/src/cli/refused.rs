//! What to do about a refusal of the broker.

use tautwire_client::{Error, Refused};
use tautwire_protocol::ReasonCode;

/// What the broker's operator has to allow, where the refusal may come from access rules.
pub(super) fn advice(error: &Error) -> Option<String> {
    let Error::Refused { what: Refused::Subscription(filter), reason, .. } = error else { return None };
    match *reason {
        ReasonCode::NotAuthorized => {
            Some(format!("the access rules must allow this client to subscribe to every topic that {filter} matches"))
        }
        // The only code that MQTT 3.1.1 has for a refusal [MQTT-3.9.3-2].
        ReasonCode::UnspecifiedError => {
            Some(format!("the access rules may deny {filter}; MQTT 3.1.1 has no code for that, -V 5 gives the reason"))
        }
        _ => None,
    }
}

/// The same for a message to `topic`.
pub(super) fn advice_for_message(reason: ReasonCode, topic: &str) -> Option<String> {
    let topic = topic.escape_debug();
    (reason == ReasonCode::NotAuthorized)
        .then(|| format!("the access rules must allow this client to publish to {topic}"))
}
