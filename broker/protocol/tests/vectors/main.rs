//! The shared vectors of `spec/vectors`, checked in both directions. Their README explains the fields.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod files;
mod json_packet;

use std::collections::BTreeSet;

use files::{Vector, mqtt_vectors, topic_vectors};
use json_packet::text;
use serde_json::Value;
use tautwire_protocol::{
    DecodeCause, DecodeOptions, Fault, FixedHeader, Packet, PacketType, PropertyId, ProtocolVersion,
    ShortAcknowledgement, TopicFilter, TopicName, decode, topic_matches,
};

#[test]
fn every_vector_has_its_result() {
    for vector in mqtt_vectors() {
        let id = &vector.id;
        let input = vector.input();
        let decoded = decode(&input, &vector.options());
        let verdict = match &decoded {
            Ok(_) => ("valid", None),
            Err(error) => match error.fault {
                Fault::Incomplete { .. } => ("incomplete", None),
                Fault::Malformed => ("malformed", Some(error.reason.as_u8())),
                Fault::ProtocolError => ("protocol_error", Some(error.reason.as_u8())),
                Fault::OverLimit => ("too_large", Some(error.reason.as_u8())),
            },
        };
        assert_eq!(verdict, (vector.result.as_str(), vector.reason), "{id}: {decoded:?}");
        if let Ok((packet, consumed)) = decoded {
            assert_eq!(consumed, vector.bytes.len(), "{id}");
            assert_eq!(packet, json_packet::packet(&vector.packet, vector.version), "{id}");
        } else if let Err(error) = decoded {
            assert!(error.offset <= vector.bytes.len(), "{id}: {error}");
        }
    }
}

#[test]
fn the_short_acknowledgement_decoder_agrees_with_the_full_decoder() {
    for first in [0x30, 0x40, 0x50, 0x60, 0x62, 0x70, 0xC0] {
        for version in [ProtocolVersion::V3_1, ProtocolVersion::V3_1_1, ProtocolVersion::V5] {
            for packet_id in 0..=u16::MAX {
                let [high, low] = packet_id.to_be_bytes();
                for bytes in [&[first, 2, high, low][..], &[first, 3, high, low, 0], &[first, 2, high]] {
                    let options = DecodeOptions::new(version);
                    let Ok(header) = FixedHeader::decode(bytes, &options) else { continue };
                    let expected = match decode(bytes, &options) {
                        Ok((Packet::PubAck(ack), 4)) => Some(ShortAcknowledgement::PubAck(ack.packet_id)),
                        Ok((Packet::PubRec(ack), 4)) => Some(ShortAcknowledgement::PubRec(ack.packet_id)),
                        Ok((Packet::PubRel(ack), 4)) => Some(ShortAcknowledgement::PubRel(ack.packet_id)),
                        Ok((Packet::PubComp(ack), 4)) => Some(ShortAcknowledgement::PubComp(ack.packet_id)),
                        _ => None,
                    };
                    let short = ShortAcknowledgement::decode(&header, &bytes[header.header_len..]);
                    assert_eq!(short, expected, "{version} {bytes:x?}");
                }
            }
        }
    }
}

/// Whether a client may send the packet. A server has to decode a CONNECT that has no client identifier but keeps its session, to refuse
/// it. Before MQTT 5.0 a client must not send one [MQTT-3.1.3-7].
fn may_be_sent(vector: &Vector) -> bool {
    vector.version.is_v5() || !vector.id.ends_with("client-id-empty-not-clean")
}

#[test]
fn every_valid_vector_encodes_to_its_bytes() {
    for vector in mqtt_vectors().into_iter().filter(Vector::is_valid).filter(may_be_sent) {
        let id = &vector.id;
        let built = json_packet::packet(&vector.packet, vector.version);
        let (decoded, _) = decode(&vector.bytes, &vector.options()).unwrap();
        for packet in [built, decoded] {
            let mut encoded = vec![0; vector.bytes.len()];
            let len = packet.encode(vector.version, &mut encoded).unwrap_or_else(|error| panic!("{id}: {error}"));
            encoded.truncate(len);
            assert_eq!(packet.encoded_len(vector.version), Ok(len), "{id}");
            if vector.encode {
                assert!(encoded == vector.bytes, "{id}: encoded as {encoded:02x?}");
            } else {
                assert_eq!(decode(&encoded, &vector.options()), Ok((packet, len)), "{id}");
            }
            let mut appended = b"before".to_vec();
            assert_eq!(packet.append_to(vector.version, &mut appended), Ok(len), "{id}");
            assert!(appended[6..] == encoded, "{id}");
            for short in [0, 1, len - 1] {
                let error = packet.encode(vector.version, &mut encoded[..short]).unwrap_err();
                assert_eq!(error, tautwire_protocol::EncodeError::BufferTooSmall { needed: len }, "{id}");
            }
            if let Packet::Publish(publish) = packet {
                let mut header = vec![0; len];
                let header_len = publish.encode_header(vector.version, &mut header).unwrap();
                assert_eq!(header_len + publish.payload.len(), len, "{id}");
                assert!(header[..header_len] == encoded[..header_len], "{id}");
            }
        }
    }
}

#[test]
fn every_valid_vector_survives_conversion_to_owned() {
    for vector in mqtt_vectors().into_iter().filter(Vector::is_valid).filter(may_be_sent) {
        let built = json_packet::packet(&vector.packet, vector.version);
        let (decoded, _) = decode(&vector.bytes, &vector.options()).unwrap();
        for packet in [built, decoded] {
            let owned = packet.to_owned_packet().unwrap();
            assert_eq!(owned.as_packet(), packet, "{}", vector.id);
            assert!(owned.heap_bytes() <= vector.bytes.len(), "{}", vector.id);
            let mut encoded = Vec::new();
            owned.as_packet().append_to(vector.version, &mut encoded).unwrap();
            if vector.encode {
                assert!(encoded == vector.bytes, "{}", vector.id);
            }
        }
    }
}

#[test]
fn every_true_prefix_of_a_valid_vector_is_incomplete() {
    for vector in mqtt_vectors().into_iter().filter(Vector::is_valid) {
        let total = vector.bytes.len();
        for cut in cuts(total) {
            let error = decode(&vector.bytes[..cut], &vector.options()).unwrap_err();
            let Fault::Incomplete { needed } = error.fault else { panic!("{} cut at {cut}: {error:?}", vector.id) };
            assert!(cut < needed && needed <= total, "{} cut at {cut}: {needed} needed of {total}", vector.id);
        }
    }
}

/// Every byte boundary; for long packets only the first and the last thousand.
fn cuts(total: usize) -> impl Iterator<Item = usize> {
    (0..total).filter(move |&cut| cut < 1000 || cut + 1000 > total)
}

#[test]
fn too_large_packets_are_refused_after_their_fixed_header() {
    for vector in mqtt_vectors().into_iter().filter(|vector| vector.result == "too_large") {
        let unlimited = DecodeOptions::new(vector.version);
        let header_len = FixedHeader::decode(&vector.bytes, &unlimited).unwrap().header_len;
        let error = decode(&vector.bytes[..header_len], &vector.options()).unwrap_err();
        assert_eq!(error.fault, Fault::OverLimit, "{}", vector.id);
        let before = decode(&vector.bytes[..header_len - 1], &vector.options()).unwrap_err();
        assert!(before.is_incomplete(), "{}", vector.id);
    }
}

#[test]
fn a_whole_input_is_never_incomplete() {
    for vector in mqtt_vectors().into_iter().filter(|vector| vector.result != "incomplete") {
        if let Err(error) = decode(&vector.input(), &vector.options()) {
            assert!(!error.is_incomplete(), "{}", vector.id);
        }
    }
}

#[test]
fn the_vectors_cover_every_packet_type_and_property() {
    let vectors = mqtt_vectors();
    let packets: Vec<Packet<'_>> = vectors
        .iter()
        .filter(|vector| vector.is_valid())
        .map(|vector| decode(&vector.bytes, &DecodeOptions::new(vector.version)).unwrap().0)
        .collect();
    let types: BTreeSet<PacketType> = packets.iter().map(Packet::packet_type).collect();
    assert_eq!(types.len(), PacketType::ALL.len());
    let properties: BTreeSet<PropertyId> = packets
        .iter()
        .flat_map(json_packet::all_properties)
        .flat_map(|properties| properties.iter().map(|property| property.id()).collect::<Vec<_>>())
        .collect();
    assert_eq!(properties.len(), PropertyId::ALL.len());
}

#[test]
fn the_vectors_reach_every_check_of_the_decoder() {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    for vector in mqtt_vectors() {
        if let Err(error) = decode(&vector.input(), &vector.options()) {
            reached.insert(error.cause.code());
        }
    }
    let missed: Vec<&str> =
        DecodeCause::ALL.iter().map(|cause| cause.code()).filter(|code| !reached.contains(code)).collect();
    assert!(missed.is_empty(), "no vector ends in {missed:?}");
}

#[test]
fn topic_names_are_validated_like_the_vectors() {
    for (id, vector) in topic_vectors("names.json") {
        let topic = text(&vector, "topic");
        assert_eq!(TopicName::new(topic).is_ok(), vector["result"] == "valid", "{id}");
        if let Err(error) = TopicName::new(topic) {
            assert_eq!(error.kind.code(), vector["cause"].as_str().unwrap(), "{id}");
        }
    }
}

#[test]
fn topic_filters_are_validated_like_the_vectors() {
    for (id, vector) in topic_vectors("filters.json") {
        match TopicFilter::new(text(&vector, "filter")) {
            Ok(filter) => {
                assert_eq!(vector["result"], "valid", "{id}");
                assert_eq!(filter.has_wildcard(), vector["has_wildcard"].as_bool().unwrap(), "{id}");
                let expected = &vector["share"];
                match filter.share() {
                    None => assert_eq!(*expected, Value::Null, "{id}"),
                    Some(share) => {
                        assert_eq!(share.group, text(expected, "group"), "{id}");
                        assert_eq!(share.filter, text(expected, "filter"), "{id}");
                    }
                }
            }
            Err(error) => {
                assert_eq!(vector["result"], "invalid", "{id}: {error}");
                assert_eq!(error.kind.code(), vector["cause"].as_str().unwrap(), "{id}");
            }
        }
    }
}

#[test]
fn topics_match_like_the_vectors() {
    for (id, vector) in topic_vectors("matching.json") {
        let (filter, topic) = (text(&vector, "filter"), text(&vector, "topic"));
        let matches = vector["matches"].as_bool().unwrap();
        assert_eq!(topic_matches(filter, topic), matches, "{id}");
        let (filter, topic) = (TopicFilter::new(filter).unwrap(), TopicName::new(topic).unwrap());
        assert_eq!(filter.matches(topic), matches, "{id}");
    }
}
