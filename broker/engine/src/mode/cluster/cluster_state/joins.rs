//! Shared subscriptions whose group is being joined, and the refusals for their SUBACK.

use std::collections::HashMap;

use tautwire_cluster::names::{ClientKey, GroupKey};
use tautwire_protocol::{PacketId, SubscribeReason};

/// A filter of a SUBSCRIBE: the packet identifier, and the filter's position in the packet.
pub(crate) type SubscribeFilter = (PacketId, usize);

#[derive(Debug, Default)]
pub(crate) struct PendingJoins {
    asked: HashMap<(ClientKey, GroupKey), SubscribeFilter>,
    /// Refused filters of packets without a SUBACK yet.
    refused: Vec<(ClientKey, SubscribeFilter, SubscribeReason)>,
}

impl PendingJoins {
    pub(crate) fn begin(&mut self, client: ClientKey, group: GroupKey, asked: SubscribeFilter) {
        self.asked.insert((client, group), asked);
    }

    /// Ends a join; returns the filter that requested it.
    pub(crate) fn end(&mut self, client: ClientKey, group: GroupKey) -> Option<SubscribeFilter> {
        self.asked.remove(&(client, group))
    }

    /// Records the reason code for a refused filter.
    pub(crate) fn refuse(&mut self, client: ClientKey, asked: SubscribeFilter, reason: SubscribeReason) {
        self.refused.push((client, asked, reason));
    }

    /// Writes the refusals of a packet into the reason codes of its SUBACK.
    pub(crate) fn amend(&mut self, client: ClientKey, packet_id: PacketId, reasons: &mut [SubscribeReason]) {
        self.refused.retain(|(refused, (of, nth), reason)| {
            let is_meant = *refused == client && *of == packet_id;
            if is_meant && let Some(place) = reasons.get_mut(*nth) {
                *place = *reason;
            }
            !is_meant
        });
    }

    /// Removes the joins of a session that is no longer served.
    pub(super) fn leave(&mut self, client: ClientKey) {
        if !self.asked.is_empty() {
            self.asked.retain(|(asked, _), _| *asked != client);
        }
        self.refused.retain(|(refused, ..)| *refused != client);
    }
}
