//! Delivery of a matching message to a client's output or to its session's queue.

mod steps;

use std::sync::Arc;

use tautwire_protocol::{QoS, SubscriptionId};

/// The options with which a message is delivered to a subscription.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryOptions<'a> {
    /// The lower of the message's QoS and the granted one [MQTT-3.8.4-8].
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) subscription_ids: &'a [SubscriptionId],
    pub(crate) share: Option<&'a Arc<str>>,
    /// The message has other receivers.
    pub(crate) is_shared: bool,
}
