//! Writes the session to the store, and restores it in the next process.

use tautwire_message::MessageRef;
use tautwire_protocol::{PacketId, QoS};
use tautwire_session::Change;

use super::Machine;
use super::publish_packet::{packet_of, read_packet};
use super::tracked_message::TrackedMessage;
use crate::Error;
use crate::store::{Record, RestoredSession};

impl<T> Machine<T> {
    /// Restores the session of an earlier process. Nothing of it is sent before the server has said whether it has the session.
    pub(super) fn restore(&mut self) {
        let Some(found) = self.store.as_mut().and_then(|store| store.take_restored()) else { return };
        let RestoredSession { client_id, outgoing, received } = found;
        self.stored_client_id = client_id;
        for packet_id in received {
            self.session.apply(Change::Taken(packet_id));
        }
        for message in outgoing {
            let sequence = message.sequence;
            self.last_sequence = self.last_sequence.max(sequence);
            let tracked = TrackedMessage { tag: None, sequence };
            match (message.packet_id, message.packet) {
                (Some(packet_id), None) => {
                    self.session.apply(Change::NextPacketId(packet_id));
                    self.session.apply(Change::AwaitingPubComp(packet_id));
                    self.tags.insert(packet_id, tracked);
                }
                (packet_id, Some((version, packet))) => {
                    let Some(message) = read_packet(version, &packet) else {
                        self.forget(sequence);
                        continue;
                    };
                    let Some(packet_id) = packet_id else {
                        self.session.apply(Change::Queued(message));
                        self.queued_tags.push_back(tracked);
                        continue;
                    };
                    self.session.apply(Change::NextPacketId(packet_id));
                    self.session.apply(Change::Started(message));
                    self.tags.insert(packet_id, tracked);
                }
                // Released without an identifier: no client writes this.
                (None, None) => self.forget(sequence),
            }
        }
        if let Some(outbound) = self.session.outbound_mut() {
            outbound.rewind();
        }
    }

    /// Whether the store belongs to this client.
    pub(super) fn check_store(&self) -> Result<(), Error> {
        match &self.stored_client_id {
            Some(stored) if *stored != self.client_id => Err(Error::Options(format!(
                "the store has the session of the client identifier \"{}\"",
                stored.escape_debug()
            ))),
            _ => Ok(()),
        }
    }

    /// The server has started a new session.
    pub(super) fn store_beginning(&mut self) {
        if let Some(store) = &self.store {
            store.record(&Record::Began { client_id: &self.client_id });
            self.stored_client_id = Some(self.client_id.clone());
        }
    }

    /// Stores a message; returns its sequence number, or 0.
    pub(super) fn store_message(&mut self, message: &MessageRef<'_>, packet_id: Option<PacketId>, now_ms: u64) -> u64 {
        let Some(store) = self.store.as_ref().filter(|_| message.qos != QoS::AtMostOnce) else { return 0 };
        let version = self.options.version;
        let Some(packet) = packet_of(message, version, now_ms) else { return 0 };
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        store.record(&Record::Queued { sequence, version, packet: &packet });
        if let Some(packet_id) = packet_id {
            store.record(&Record::Sent { sequence, packet_id });
        }
        sequence
    }

    pub(super) fn store_sent(&self, sequence: u64, packet_id: PacketId) {
        self.store_record(sequence, &Record::Sent { sequence, packet_id });
    }

    pub(super) fn store_unsent(&self, sequence: u64) {
        self.store_record(sequence, &Record::Unsent { sequence });
    }

    pub(super) fn store_released(&self, sequence: u64) {
        self.store_record(sequence, &Record::Released { sequence });
    }

    /// Removes a completed message from the store.
    pub(super) fn forget(&self, sequence: u64) {
        self.store_record(sequence, &Record::Done { sequence });
    }

    fn store_record(&self, sequence: u64, record: &Record<'_>) {
        if let Some(store) = self.store.as_ref().filter(|_| sequence != 0) {
            store.record(record);
        }
    }
}
