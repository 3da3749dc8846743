//! The context of a node for session operations.

use crate::names::{ClientKey, Incarnation, Seed};
use crate::nodes::Nodes;
use crate::outbox::Outbox;
use crate::peer_message::{PeerMessage, PeerMessageKind};
use crate::producers::PartitionProducers;
use crate::settings::Settings;

/// The context of a node for session operations.
pub(crate) struct SessionContext<'a> {
    pub(crate) me: Incarnation,
    pub(crate) seed: Seed,
    pub(crate) now_ms: u64,
    pub(crate) is_serving: bool,
    pub(crate) settings: &'a Settings,
    pub(crate) nodes: &'a Nodes,
    pub(crate) producers: &'a mut PartitionProducers,
    pub(crate) out: &'a mut Outbox,
}

impl SessionContext<'_> {
    /// Reports to a node that has seen this claim that no client of the session is served here.
    pub(super) fn send_released(&mut self, key: ClientKey, to: Incarnation, claim: u64) {
        if to != self.me {
            self.out.send(to, PeerMessage { from: self.me, client: key, claim, kind: PeerMessageKind::Released });
        }
    }
}
