//! Proof of absence: what has not arrived before a later message on the same path was not sent.

use tautwire_protocol::QoS;

use super::client::Client;

/// Expects that no message `publisher` has published so far is on its way to `subscriber`.
///
/// The subscriber subscribes to a topic of its own, the publisher publishes there, and that message must be the first to arrive. Both
/// clients stay usable.
#[track_caller]
pub(crate) fn expect_nothing_from(publisher: &mut Client, subscriber: &mut Client) {
    const FENCE: &str = "fence/absence";
    subscriber.subscribe(FENCE, QoS::AtLeastOnce);
    publisher.publish(FENCE, QoS::AtLeastOnce, b"fence");
    let message = subscriber.receive();
    assert_eq!(message.topic(), FENCE, "expected nothing, got {message:?}");
    subscriber.unsubscribe(&[FENCE]);
}
