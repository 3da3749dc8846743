//! From a message that matches to bytes in a client's output or a place in its queue.

mod steps;

use std::sync::Arc;

use tautwire_protocol::{QoS, SubscriptionId};

/// How a subscription wants a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryOptions<'a> {
    /// The lower of the message's QoS and the granted one [MQTT-3.8.4-8].
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) subscription_ids: &'a [SubscriptionId],
    pub(crate) share: Option<&'a Arc<str>>,
    /// The message goes to others too.
    pub(crate) is_shared: bool,
}
