use std::ops::Range;

use tautwire_protocol::{Delivery, PacketId, Properties, ProtocolVersion, Publish, QoS, TopicName};

use super::payload::PayloadForm;
use super::stamp::PayloadStamp;
use crate::failure::{ErrorContext, Failure, Result};

/// PUBLISH packets that are encoded once, adjacent in one buffer. To send a batch, stamp payloads and packet ids and
/// write once.
pub(crate) struct Publishes {
    bytes: Vec<u8>,
    /// The start of each packet, and the end of the last.
    starts: Vec<usize>,
    form: PayloadForm,
    /// The distance from the packet id to the payload.
    packet_id_before_payload: Option<usize>,
}

impl Publishes {
    /// One packet per topic, in order.
    pub(crate) fn encode<'a>(
        version: ProtocolVersion,
        qos: QoS,
        form: &PayloadForm,
        topics: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        let first_id = PacketId::new(1).ok_or_else(|| Failure::new("packet id 1 is valid"))?;
        let delivery = match qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce { packet_id: first_id, dup: false },
            QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id: first_id, dup: false },
        };
        let mut bytes = Vec::new();
        let mut starts = vec![0];
        for topic in topics {
            let name = TopicName::new(topic).map_err(|error| Failure::new(format!("topic {topic:?}: {error}")))?;
            let publish = Publish {
                delivery,
                retain: false,
                topic: Some(name),
                properties: Properties::EMPTY,
                payload: form.template(),
            };
            publish.append_to(version, &mut bytes).during(|| format!("encoding a publish to {topic:?}"))?;
            starts.push(bytes.len());
        }
        // Between packet id and payload: in 5.0 the property length 0, in 3.1.1 nothing.
        let properties_bytes = usize::from(version.is_v5());
        let packet_id_before_payload = (qos != QoS::AtMostOnce).then_some(properties_bytes + 2);
        Ok(Self { bytes, starts, form: form.clone(), packet_id_before_payload })
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    #[inline]
    pub(crate) fn stamp(&mut self, index: usize, stamp: PayloadStamp, packet_id: Option<PacketId>) {
        let end = self.starts[index + 1];
        let payload_at = end - self.form.bytes();
        if let (Some(distance), Some(packet_id)) = (self.packet_id_before_payload, packet_id) {
            let at = payload_at - distance;
            self.bytes[at..at + 2].copy_from_slice(&packet_id.get().to_be_bytes());
        }
        self.form.write(stamp, &mut self.bytes[payload_at..end]);
    }

    /// Sets the retain flag of these messages.
    pub(crate) fn retain(&mut self) {
        const RETAIN: u8 = 1;
        let count = self.len();
        for &start in &self.starts[..count] {
            self.bytes[start] |= RETAIN;
        }
    }

    /// The encoded bytes of consecutive packets.
    pub(crate) fn bytes(&self, packets: Range<usize>) -> &[u8] {
        &self.bytes[self.starts[packets.start]..self.starts[packets.end]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::{Frames, Incoming};

    #[test]
    fn stamped_packets_carry_their_id_and_stamp_in_both_versions() {
        for version in [ProtocolVersion::V3_1_1, ProtocolVersion::V5] {
            for (qos, level) in [(QoS::AtMostOnce, 0), (QoS::AtLeastOnce, 1), (QoS::ExactlyOnce, 2)] {
                for payload_bytes in [16, 200, 65_536] {
                    let form = PayloadForm::plain(payload_bytes).expect("large enough");
                    let mut publishes = Publishes::encode(version, qos, &form, ["a/b", "a/longer"]).expect("valid");
                    let stamp = PayloadStamp { seq: 5, publisher: 3, run: 8 };
                    publishes.stamp(1, stamp, PacketId::new(0x1234));
                    let mut frames = Frames::of(publishes.bytes(1..2));
                    let frame = frames.next_frame().expect("valid").expect("whole");
                    let Incoming::Publish { qos, packet_id, payload } = frame.read(version.is_v5()).expect("valid")
                    else {
                        panic!("not a PUBLISH");
                    };
                    assert_eq!((qos, packet_id), (level, if level == 0 { 0 } else { 0x1234 }));
                    assert_eq!(form.read(payload, 8), Some(stamp));
                }
            }
        }
    }

    #[test]
    fn retained_packets_differ_only_in_their_flag() {
        let form = PayloadForm::plain(16).expect("large enough");
        let mut publishes = Publishes::encode(ProtocolVersion::V5, QoS::AtLeastOnce, &form, ["a", "b"]).expect("valid");
        let before: Vec<u8> = publishes.bytes(0..2).to_vec();
        publishes.retain();
        let changed: Vec<usize> = (0..before.len()).filter(|&at| before[at] != publishes.bytes(0..2)[at]).collect();
        assert_eq!(changed, [0, before.len() / 2]);
        assert_eq!(publishes.bytes(0..2)[0], before[0] | 1);
    }
}
