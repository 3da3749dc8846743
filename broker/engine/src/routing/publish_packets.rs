//! Encoded PUBLISH packets. A packet is encoded once per layout and shared by all receivers.

use std::sync::Arc;

use tautwire_memory::MemoryLedger;
use tautwire_message::{Message, MessageRef, Transcodings};
use tautwire_protocol::{MAX_PACKET_SIZE_BYTES, PacketId, QoS, SubscriptionId, wire};

use crate::connection::connections::{Chunk, Connection, Output, TopicAlias};
use crate::connection::mount::View;
use crate::index::ConnectionIndex;
use crate::routing::retained_publisher::without_publisher;

/// A payload of at least this length is not copied into outputs but referenced.
pub(crate) const SHARED_PAYLOAD_BYTES: usize = 4096;

const SUBSCRIPTION_IDENTIFIER: u8 = 0x0b;
const MESSAGE_EXPIRY_INTERVAL: u8 = 0x02;
const TOPIC_ALIAS: u8 = 0x23;

/// A message in delivery: its bytes, the checks it has passed, and what has been encoded so far.
#[derive(Debug)]
pub(crate) struct OutgoingPublish<'a> {
    pub(crate) message: MessageRef<'a>,
    /// The chunk with the payload, and the offset of the payload in it.
    pub(crate) chunk: Option<(&'a Chunk, usize)>,
    /// The message as one allocation, once it was needed.
    pub(crate) stored: Option<Message>,
    /// Its packet may exceed MQTT's maximum packet size.
    pub(crate) may_be_too_long: bool,
    /// The contract of its topic has been checked, or does not apply.
    pub(crate) is_checked: bool,
    /// There is memory for it in the output of every receiver.
    pub(crate) has_room: bool,
    /// There is memory for it, or it was acknowledged already.
    pub(crate) is_admitted: bool,
    /// Its other formats, if receivers outside of this shard's subscriptions may need one.
    pub(crate) transcodings: Option<Arc<Transcodings>>,
    /// The publisher, if the access rules have not been checked yet.
    pub(crate) unchecked_publisher: Option<ConnectionIndex>,
    /// It is sent as a retained message, not live.
    pub(crate) is_retained_replay: bool,
}

impl<'a> OutgoingPublish<'a> {
    #[inline]
    pub(crate) fn new(message: MessageRef<'a>) -> OutgoingPublish<'a> {
        OutgoingPublish {
            message,
            chunk: None,
            stored: None,
            may_be_too_long: may_be_too_long(&message),
            is_checked: false,
            has_room: false,
            is_admitted: false,
            transcodings: None,
            unchecked_publisher: None,
            is_retained_replay: false,
        }
    }

    /// A stored message, which has passed all checks.
    pub(crate) fn of(message: &'a Message) -> OutgoingPublish<'a> {
        let stored = Some(message.clone());
        OutgoingPublish { stored, is_checked: true, is_admitted: true, ..OutgoingPublish::new(message.as_ref()) }
    }

    /// The message as seen by a client with a mount point. The payload is not copied.
    pub(crate) fn with_view<'v>(&'v self, view: &'v View<'_>) -> OutgoingPublish<'v> {
        OutgoingPublish {
            chunk: self.chunk,
            stored: self.stored.clone(),
            ..OutgoingPublish::new(view.message(&self.message))
        }
    }

    /// The message as one allocation, charged to `ledger`.
    pub(crate) fn store_message(&mut self, ledger: &Arc<MemoryLedger>) -> Message {
        self.stored.get_or_insert_with(|| self.message.to_message_in(ledger)).clone()
    }
}

/// Whether a packet with the message may exceed MQTT's maximum packet size, because of properties that the publisher's packet
/// did not have.
#[inline]
pub(crate) fn may_be_too_long(message: &MessageRef<'_>) -> bool {
    /// The most that subscription identifiers, an alias and an expiry interval take.
    const MORE_BYTES: usize = 1 << 20;
    message.payload.len() + message.properties.len() > MAX_PACKET_SIZE_BYTES as usize - MORE_BYTES
}

/// The parts of a PUBLISH packet that differ between clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishHeader<'a> {
    pub(crate) v5: bool,
    pub(crate) qos: QoS,
    pub(crate) dup: bool,
    pub(crate) retain: bool,
    /// `Some` exactly if the QoS is above 0.
    pub(crate) packet_id: Option<PacketId>,
    pub(crate) subscription_ids: &'a [SubscriptionId],
    pub(crate) alias: TopicAlias,
    pub(crate) now_ms: u64,
}

impl PublishHeader<'_> {
    fn first_byte(&self) -> u8 {
        first_byte(self.dup, self.qos, self.retain)
    }

    fn topic<'m>(&self, message: &MessageRef<'m>) -> &'m str {
        if matches!(self.alias, TopicAlias::Use(_)) { "" } else { message.topic }
    }

    fn properties_len(&self, message: &MessageRef<'_>) -> usize {
        let ids = self.subscription_ids.iter().map(|id| 1 + wire::variable_byte_integer_len(id.get()));
        ids.sum::<usize>()
            + without_publisher(message).len()
            + if message.expires_at_ms.is_some() { 5 } else { 0 }
            + if self.alias == TopicAlias::None { 0 } else { 3 }
    }

    /// The Remaining Length of the packet, and the length of its properties, which only 5.0 has.
    #[inline(always)]
    fn lengths(&self, message: &MessageRef<'_>) -> (usize, usize) {
        let packet_id_len = if self.packet_id.is_some() { 2 } else { 0 };
        let plain_len = 2 + self.topic(message).len() + packet_id_len + message.payload.len();
        if !self.v5 {
            return (plain_len, 0);
        }
        let properties_len = self.properties_len(message);
        (plain_len + wire::variable_byte_integer_len(properties_len as u32) + properties_len, properties_len)
    }

    /// The length of the whole packet.
    pub(crate) fn packet_len(&self, message: &MessageRef<'_>) -> usize {
        let (remaining, _) = self.lengths(message);
        1 + wire::variable_byte_integer_len(remaining as u32) + remaining
    }

    /// Appends everything but the payload. Returns the offset of the packet identifier.
    fn append_to(&self, message: &MessageRef<'_>, out: &mut Vec<u8>) -> usize {
        let topic = self.topic(message);
        let (remaining, properties_len) = self.lengths(message);
        out.push(self.first_byte());
        push_variable_byte_integer(out, remaining as u32);
        out.extend_from_slice(&(topic.len() as u16).to_be_bytes());
        out.extend_from_slice(topic.as_bytes());
        let packet_id_at = out.len();
        if let Some(id) = self.packet_id {
            out.extend_from_slice(&id.get().to_be_bytes());
        }
        if self.v5 {
            push_variable_byte_integer(out, properties_len as u32);
            if let Some(at_ms) = message.expires_at_ms {
                // [MQTT-3.3.2-6]; a message that expires during delivery, or was published with 0, is sent with 0.
                let left_s = at_ms.saturating_sub(self.now_ms).div_ceil(1000).min(u64::from(u32::MAX));
                out.push(MESSAGE_EXPIRY_INTERVAL);
                out.extend_from_slice(&(left_s as u32).to_be_bytes());
            }
            if let TopicAlias::Set(alias) | TopicAlias::Use(alias) = self.alias {
                out.push(TOPIC_ALIAS);
                out.extend_from_slice(&alias.to_be_bytes());
            }
            for id in self.subscription_ids {
                out.push(SUBSCRIPTION_IDENTIFIER);
                push_variable_byte_integer(out, id.get());
            }
            out.extend_from_slice(without_publisher(message));
        }
        packet_id_at
    }
}

/// The header with the topic alias to use; `None` if the packet is larger than the client accepts, with or without an alias.
#[cold]
pub(crate) fn with_alias<'i>(
    connection: &Connection,
    header: PublishHeader<'i>,
    message: &MessageRef<'_>,
) -> Option<PublishHeader<'i>> {
    let header = PublishHeader { alias: connection.alias_for(message.topic), ..header };
    let maximum =
        connection.connect_parameters().maximum_packet_size_bytes.map_or(MAX_PACKET_SIZE_BYTES, |bytes| bytes.get());
    let maximum = maximum.min(MAX_PACKET_SIZE_BYTES) as usize;
    let fits = |header: &PublishHeader<'_>| header.packet_len(message) <= maximum;
    Some(header).filter(fits).or_else(|| Some(PublishHeader { alias: TopicAlias::None, ..header }).filter(fits))
}

/// The first byte of a PUBLISH packet.
#[inline]
pub(crate) fn first_byte(dup: bool, qos: QoS, retain: bool) -> u8 {
    0x30 | u8::from(dup) << 3 | qos.as_u8() << 1 | u8::from(retain)
}

fn push_variable_byte_integer(out: &mut Vec<u8>, value: u32) {
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    let mut bytes = [0; 4];
    let len = wire::write_variable_byte_integer(value, &mut bytes);
    out.extend_from_slice(&bytes[..len]);
}

/// The packets of one message, encoded on first use: for 3.1.1 and 5.0, with and without a packet identifier.
/// Differences between clients with the same layout are patched in the copy.
#[derive(Debug, Default)]
pub(crate) struct PublishPackets {
    layouts: [EncodedPacket; 4],
}

#[derive(Debug, Default)]
struct EncodedPacket {
    bytes: Vec<u8>,
    packet_id_at: usize,
}

/// The index of a packet in [`PublishPackets::layouts`].
#[inline]
fn layout(v5: bool, has_packet_id: bool) -> usize {
    usize::from(v5) << 1 | usize::from(has_packet_id)
}

impl PublishPackets {
    /// Clears the packets of the last message.
    pub(crate) fn clear(&mut self) {
        for frame in &mut self.layouts {
            frame.bytes.clear();
        }
    }

    /// The message's QoS 0 packet for clients of a version; empty if not encoded yet. The first byte must be patched.
    #[inline]
    pub(crate) fn encoded(&self, v5: bool) -> &[u8] {
        &self.layouts[layout(v5, false)].bytes
    }

    /// Appends the packet to `output`. With `shared`, the encoded packet is cached, because the message has other receivers.
    // Always inlined: the hot path of every message to every receiver.
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        header: &PublishHeader<'_>,
        outgoing: &OutgoingPublish<'_>,
        shared: bool,
        output: &mut Output,
    ) {
        let message = &outgoing.message;
        let is_payload_separate = message.payload.len() >= SHARED_PAYLOAD_BYTES;
        let common = header.subscription_ids.is_empty() && header.alias == TopicAlias::None;
        let (tail, before) = output.begin_append();
        if shared && common {
            let frame = &mut self.layouts[layout(header.v5, header.packet_id.is_some())];
            if frame.bytes.is_empty() {
                frame.packet_id_at = header.append_to(message, &mut frame.bytes);
                if !is_payload_separate {
                    frame.bytes.extend_from_slice(message.payload);
                }
            }
            let start = tail.len();
            tail.extend_from_slice(&frame.bytes);
            tail[start] = header.first_byte();
            if let Some(id) = header.packet_id {
                let at = start + frame.packet_id_at;
                tail[at..at + 2].copy_from_slice(&id.get().to_be_bytes());
            }
        } else {
            header.append_to(message, tail);
            if !is_payload_separate {
                tail.extend_from_slice(message.payload);
            }
        }
        output.end_append(before);
        if is_payload_separate {
            match (&outgoing.stored, outgoing.chunk) {
                (Some(stored), _) => output.append_payload(stored.clone()),
                (None, Some((chunk, at))) => output.append_chunk(chunk, at..at + message.payload.len()),
                (None, None) => output.append(|tail| tail.extend_from_slice(message.payload)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_message::MessageId;
    use tautwire_protocol::{DecodeOptions, Packet, Property, ProtocolVersion, decode};

    fn parts(payload: &[u8], expires_at_ms: Option<u64>) -> MessageRef<'_> {
        // Content Type "x".
        let properties = &[0x03, 0, 1, b'x'];
        MessageRef {
            id: MessageId::NONE,
            topic: "a/b",
            properties,
            payload,
            qos: QoS::ExactlyOnce,
            retain: false,
            expires_at_ms,
        }
    }

    fn bytes_of(output: &Output) -> Vec<u8> {
        let mut slices = [std::io::IoSlice::new(&[]); 4];
        let filled = output.fill(&mut slices, usize::MAX);
        slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect()
    }

    fn header(v5: bool, packet_id: u16) -> PublishHeader<'static> {
        PublishHeader {
            v5,
            qos: if packet_id == 0 { QoS::AtMostOnce } else { QoS::ExactlyOnce },
            dup: false,
            retain: false,
            packet_id: PacketId::new(packet_id),
            subscription_ids: &[],
            alias: TopicAlias::None,
            now_ms: 500,
        }
    }

    #[test]
    fn shared_and_single_encoding_agree_in_every_layout() {
        let large = vec![b'p'; SHARED_PAYLOAD_BYTES];
        for payload in [&b"hello"[..], b"", &large] {
            for v5 in [false, true] {
                let mut frames = PublishPackets::default();
                for packet_id in [0, 7, 0, 65_535] {
                    for retain in [false, true] {
                        let header = PublishHeader { retain, ..header(v5, packet_id) };
                        let outgoing = OutgoingPublish::new(parts(payload, Some(10_000)));
                        let (mut single, mut shared) = (Output::new(&Arc::default()), Output::new(&Arc::default()));
                        PublishPackets::default().append(&header, &outgoing, false, &mut single);
                        frames.append(&header, &outgoing, true, &mut shared);
                        assert_eq!(bytes_of(&single), bytes_of(&shared));
                        assert_eq!(bytes_of(&single).len(), header.packet_len(&outgoing.message));
                        let version = if v5 { ProtocolVersion::V5 } else { ProtocolVersion::V3_1_1 };
                        let bytes = bytes_of(&single);
                        let (packet, _) = decode(&bytes, &DecodeOptions::new(version)).expect("a valid packet");
                        let Packet::Publish(publish) = packet else { panic!("a PUBLISH") };
                        assert_eq!(publish.delivery.packet_id(), header.packet_id);
                        assert_eq!(publish.retain, retain);
                        assert_eq!(publish.payload, payload);
                    }
                }
            }
        }
    }

    #[test]
    fn client_properties_precede_message_properties() {
        let ids = [SubscriptionId::new(5).expect("not zero"), SubscriptionId::new(300).expect("not zero")];
        let header = PublishHeader { subscription_ids: &ids, alias: TopicAlias::Set(9), ..header(true, 1) };
        let mut output = Output::new(&Arc::default());
        PublishPackets::default().append(&header, &OutgoingPublish::new(parts(b"x", Some(2_400))), true, &mut output);
        let bytes = bytes_of(&output);
        let (packet, _) = decode(&bytes, &DecodeOptions::new(ProtocolVersion::V5)).expect("a valid packet");
        let Packet::Publish(publish) = packet else { panic!("a PUBLISH") };
        let properties: Vec<_> = publish.properties.iter().collect();
        assert!(properties.contains(&Property::MessageExpiryInterval(2)), "1.9 s are left");
        assert!(properties.contains(&Property::ContentType("x")));
        assert_eq!(publish.properties.topic_alias(), std::num::NonZeroU16::new(9));
        assert_eq!(properties.len(), 5);
    }
}
