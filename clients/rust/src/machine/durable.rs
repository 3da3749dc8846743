//! Writes the session to the store, and restores it in the next process.

use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::{
    DecodeOptions, Packet, PacketId, Properties, Property, PropertyContext, ProtocolVersion, Publish, QoS, TopicName,
    decode,
};
use tautwire_session::{Change, PendingMessage};

use super::Machine;
use super::outgoing::{pending, sending};
use crate::Error;
use crate::store::{Record, RestoredSession};

/// An outgoing message of the session: the caller's tag and its sequence number in the store.
#[derive(Debug)]
pub(super) struct Tracked<T> {
    /// `None` if an earlier process published it.
    pub(super) tag: Option<T>,
    /// 0 if it is not in a store.
    pub(super) sequence: u64,
}

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
            let tracked = Tracked { tag: None, sequence };
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

/// The PUBLISH packet of a message, with a placeholder packet identifier.
fn packet_of(message: &MessageRef<'_>, version: ProtocolVersion, now_ms: u64) -> Option<Vec<u8>> {
    let mut block = message.properties.to_vec();
    if let Some(at_ms) = message.expires_at_ms {
        let left_s = at_ms.saturating_sub(now_ms).div_ceil(1000).min(u64::from(u32::MAX));
        Property::MessageExpiryInterval(left_s as u32).append_to(&mut block).ok()?;
    }
    let publish = Publish {
        delivery: sending(message.qos, PacketId::new(1)?, false),
        retain: message.retain,
        topic: TopicName::new(message.topic).ok(),
        properties: Properties::from_wire(&block, PropertyContext::Publish).ok()?,
        payload: message.payload,
    };
    let mut packet = Vec::new();
    publish.append_to(version, &mut packet).ok()?;
    Some(packet)
}

/// The message of a PUBLISH packet. Its expiry interval starts again: the downtime of the process is unknown.
fn read_packet(version: ProtocolVersion, packet: &[u8]) -> Option<PendingMessage> {
    let Ok((Packet::Publish(publish), _)) = decode(packet, &DecodeOptions::new(version)) else { return None };
    let mut properties = Vec::new();
    for property in &publish.properties {
        // An alias is valid only on its own connection.
        if !matches!(property, Property::MessageExpiryInterval(_) | Property::TopicAlias(_)) {
            property.append_to(&mut properties).ok()?;
        }
    }
    Some(pending(&MessageRef {
        id: MessageId::NONE,
        topic: publish.topic?.as_str(),
        properties: &properties,
        payload: publish.payload,
        qos: publish.qos(),
        retain: publish.retain,
        expires_at_ms: publish.properties.message_expiry_interval().map(|seconds| u64::from(seconds) * 1000),
    }))
}
