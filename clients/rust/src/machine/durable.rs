//! What a store keeps, and what becomes of it when the next process begins.

use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::{
    DecodeOptions, Packet, PacketId, Properties, Property, PropertyContext, ProtocolVersion, Publish, QoS, TopicName,
    decode,
};
use tautwire_session::{Change, PendingMessage};

use super::Machine;
use super::outgoing::{pending, sending};
use crate::Error;
use crate::store::{Found, Record};

/// A message that the session holds: what the caller wants to have back, and its name in the store.
#[derive(Debug)]
pub(super) struct Tracked<T> {
    /// `None` where an earlier process has published it.
    pub(super) tag: Option<T>,
    /// 0 where no store has it.
    pub(super) sequence: u64,
}

impl<T> Machine<T> {
    /// Takes over what an earlier process has left. Nothing of it is sent before the server has said whether it has the session.
    pub(super) fn restore(&mut self) {
        let Some(found) = self.store.as_mut().and_then(|store| store.take_found()) else { return };
        let Found { client_id, outgoing, received } = found;
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
                // It was released and has no identifier: no client writes that.
                (None, None) => self.forget(sequence),
            }
        }
        if let Some(outbound) = self.session.outbound_mut() {
            outbound.rewind();
        }
    }

    /// Whether the store is that of this client.
    pub(super) fn check_store(&self) -> Result<(), Error> {
        match &self.stored_client_id {
            Some(stored) if *stored != self.client_id => Err(Error::Options(format!(
                "the store has the session of the client identifier \"{}\"",
                stored.escape_debug()
            ))),
            _ => Ok(()),
        }
    }

    /// The server has a new session.
    pub(super) fn store_beginning(&mut self) {
        if let Some(store) = &self.store {
            store.record(&Record::Began { client_id: &self.client_id });
            self.stored_client_id = Some(self.client_id.clone());
        }
    }

    /// Stores a message; gives its name there, or 0.
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

    /// The message needs nothing more.
    pub(super) fn forget(&self, sequence: u64) {
        self.store_record(sequence, &Record::Done { sequence });
    }

    fn store_record(&self, sequence: u64, record: &Record<'_>) {
        if let Some(store) = self.store.as_ref().filter(|_| sequence != 0) {
            store.record(record);
        }
    }
}

/// The PUBLISH packet of a message, with some packet identifier.
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

/// The message of a PUBLISH packet. Its lifetime begins anew: nobody knows how long the process was away.
fn read_packet(version: ProtocolVersion, packet: &[u8]) -> Option<PendingMessage> {
    let Ok((Packet::Publish(publish), _)) = decode(packet, &DecodeOptions::new(version)) else { return None };
    let mut properties = Vec::new();
    for property in &publish.properties {
        // An alias of another connection means nothing.
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
