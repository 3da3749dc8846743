//! The state that the records of a session file describe.

use std::collections::{BTreeMap, BTreeSet};

use tautwire_protocol::PacketId;

use super::record::Record;

/// The position of the record that queued a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// An outgoing message.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) packet_id: Option<PacketId>,
    /// `None` once it was released: its packet is no longer needed.
    pub(super) place: Option<Place>,
    /// The order of release, for released messages.
    pub(super) release: u64,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) client_id: Option<String>,
    /// By sequence, in the order of publication.
    pub(super) outgoing: BTreeMap<u64, Outgoing>,
    pub(super) received: BTreeSet<PacketId>,
    releases: u64,
    /// The bytes of records that are still needed.
    pub(super) live_bytes: u64,
}

impl Ledger {
    /// Applies a record at `place`. Returns false if it contradicts the earlier records; nothing has changed then.
    pub(super) fn apply(&mut self, record: &Record<'_>, place: Place) -> bool {
        match *record {
            Record::Began { client_id } => {
                self.client_id = Some(client_id.to_owned());
                self.received.clear();
            }
            Record::Queued { sequence, .. } => {
                self.live_bytes += place.bytes;
                let outgoing = Outgoing { packet_id: None, place: Some(place), release: 0 };
                self.outgoing.insert(sequence, outgoing);
            }
            Record::Sent { sequence, packet_id } => {
                let Some(outgoing) = self.outgoing.get_mut(&sequence) else { return false };
                outgoing.packet_id = Some(packet_id);
            }
            Record::Unsent { sequence } => {
                let Some(outgoing) = self.outgoing.get_mut(&sequence) else { return false };
                outgoing.packet_id = None;
            }
            Record::Released { sequence } => {
                let Some(outgoing) = self.outgoing.get_mut(&sequence) else { return false };
                self.releases += 1;
                outgoing.release = self.releases;
                let place = outgoing.place.take();
                self.live_bytes -= place.map_or(0, |place| place.bytes);
            }
            Record::Done { sequence } => {
                let Some(outgoing) = self.outgoing.remove(&sequence) else { return false };
                self.live_bytes -= outgoing.place.map_or(0, |place| place.bytes);
            }
            Record::Received { packet_id } => {
                self.received.insert(packet_id);
            }
            Record::Completed { packet_id } => {
                self.received.remove(&packet_id);
            }
        }
        true
    }
}
