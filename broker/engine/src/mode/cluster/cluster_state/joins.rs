//! Shared subscriptions whose group is being joined, and the refusals for their SUBACK.

use std::collections::HashMap;

use tautwire_cluster::names::{ClientKey, GroupKey};
use tautwire_protocol::{PacketId, SubscribeReason};

/// A filter of a SUBSCRIBE: the packet identifier, and the filter's position in the packet.
pub(crate) type SubscribeFilter = (PacketId, usize);

#[derive(Debug, Default)]
pub(crate) struct PendingJoins {
    requests: HashMap<(ClientKey, GroupKey), SubscribeFilter>,
    /// Refused filters of packets without a SUBACK yet.
    refused: Vec<(ClientKey, SubscribeFilter, SubscribeReason)>,
}

impl PendingJoins {
    pub(crate) fn begin(&mut self, client: ClientKey, group: GroupKey, request: SubscribeFilter) {
        self.requests.insert((client, group), request);
    }

    /// Ends a join; returns the filter that requested it.
    pub(crate) fn end(&mut self, client: ClientKey, group: GroupKey) -> Option<SubscribeFilter> {
        self.requests.remove(&(client, group))
    }

    /// Records the reason code for a refused filter.
    pub(crate) fn refuse(&mut self, client: ClientKey, request: SubscribeFilter, reason: SubscribeReason) {
        self.refused.push((client, request, reason));
    }

    /// Writes the refusals of a packet into the reason codes of its SUBACK.
    pub(crate) fn add_refusals(&mut self, client: ClientKey, packet_id: PacketId, reasons: &mut [SubscribeReason]) {
        self.refused.retain(|(refused, (of, nth), reason)| {
            let is_match = *refused == client && *of == packet_id;
            if is_match && let Some(place) = reasons.get_mut(*nth) {
                *place = *reason;
            }
            !is_match
        });
    }

    /// Removes the joins of a session that is no longer served.
    pub(super) fn remove_client(&mut self, client: ClientKey) {
        if !self.requests.is_empty() {
            self.requests.retain(|(joining, _), _| *joining != client);
        }
        self.refused.retain(|(refused, ..)| *refused != client);
    }
}
