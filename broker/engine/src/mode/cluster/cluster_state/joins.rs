//! Subscriptions that wait until their session is a member of a group, and what SUBACK says of those that never will be.

use std::collections::HashMap;

use tautwire_cluster::names::{ClientKey, GroupKey};
use tautwire_protocol::{PacketId, SubscribeReason};

/// A filter of a SUBSCRIBE: the packet's identifier, and which of its filters.
pub(crate) type SubscribeFilter = (PacketId, usize);

#[derive(Debug, Default)]
pub(crate) struct PendingJoins {
    asked: HashMap<(ClientKey, GroupKey), SubscribeFilter>,
    /// What packets that have not been answered yet are refused.
    refused: Vec<(ClientKey, SubscribeFilter, SubscribeReason)>,
}

impl PendingJoins {
    pub(crate) fn begin(&mut self, client: ClientKey, group: GroupKey, asked: SubscribeFilter) {
        self.asked.insert((client, group), asked);
    }

    /// It is known whether the session is a member. Gives who has asked.
    pub(crate) fn end(&mut self, client: ClientKey, group: GroupKey) -> Option<SubscribeFilter> {
        self.asked.remove(&(client, group))
    }

    /// The answer to a packet says this of one of its filters.
    pub(crate) fn refuse(&mut self, client: ClientKey, asked: SubscribeFilter, reason: SubscribeReason) {
        self.refused.push((client, asked, reason));
    }

    /// What the answer to a packet has to say of its filters.
    pub(crate) fn amend(&mut self, client: ClientKey, packet_id: PacketId, reasons: &mut [SubscribeReason]) {
        self.refused.retain(|(refused, (of, nth), reason)| {
            let is_meant = *refused == client && *of == packet_id;
            if is_meant && let Some(place) = reasons.get_mut(*nth) {
                *place = *reason;
            }
            !is_meant
        });
    }

    /// A session is not served any more.
    pub(super) fn leave(&mut self, client: ClientKey) {
        if !self.asked.is_empty() {
            self.asked.retain(|(asked, _), _| *asked != client);
        }
        self.refused.retain(|(refused, ..)| *refused != client);
    }
}
