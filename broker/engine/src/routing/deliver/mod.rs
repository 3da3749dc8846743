//! Delivery of a matching message to a client's output or to its session's queue.

mod replay;
mod steps;

use std::sync::Arc;

use tautwire_memory::MemoryLedger;
use tautwire_protocol::{QoS, SubscriptionId};
use tautwire_session::{PendingMessage, SubscriptionIds};

use crate::routing::publish_packets::OutgoingPublish;

/// The options with which a message is delivered to a subscription.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryOptions<'a> {
    /// The lower of the message's QoS and the granted one [MQTT-3.8.4-8].
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) subscription_ids: &'a [SubscriptionId],
    pub(super) share: Option<&'a Arc<str>>,
    /// The message has other receivers.
    pub(super) is_shared: bool,
}

impl<'a> DeliveryOptions<'a> {
    /// Of a retained message for a new subscription.
    fn of_retained(qos: QoS, subscription_ids: &'a [SubscriptionId]) -> DeliveryOptions<'a> {
        DeliveryOptions { qos, retain: true, subscription_ids, share: None, is_shared: false }
    }

    /// The message as a session stores it.
    #[inline]
    fn to_pending(self, outgoing: &mut OutgoingPublish<'_>, ledger: &Arc<MemoryLedger>) -> PendingMessage {
        PendingMessage {
            message: outgoing.store_message(ledger).into(),
            qos: self.qos,
            retain: self.retain,
            subscription_ids: SubscriptionIds::from(self.subscription_ids),
            share: self.share.cloned(),
        }
    }
}
