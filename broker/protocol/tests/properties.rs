//! Properties in both forms, forwarding, and redacted debug output.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tautwire_protocol::{
    Connect, DecodeCause, DecodeOptions, Delivery, Packet, PayloadFormat, Properties, Property, PropertyContext,
    PropertyId, ProtocolVersion, Publish, SubscriptionId, TopicName, Will, decode,
};

const V5: ProtocolVersion = ProtocolVersion::V5;

fn list() -> [Property<'static>; 7] {
    [
        Property::UserProperty("a", "1"),
        Property::TopicAlias(5.try_into().unwrap()),
        Property::SubscriptionIdentifier(SubscriptionId::new(128).unwrap()),
        Property::UserProperty("b", "2"),
        Property::MessageExpiryInterval(60),
        Property::SubscriptionIdentifier(SubscriptionId::new(3).unwrap()),
        Property::UserProperty("a", "3"),
    ]
}

fn publish<'a>(properties: Properties<'a>, payload: &'a [u8]) -> Publish<'a> {
    let topic = Some(TopicName::new("t").unwrap());
    Publish { delivery: Delivery::AtMostOnce, retain: false, topic, properties, payload }
}

fn encoded(packet: Publish<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.append_to(V5, &mut bytes).unwrap();
    bytes
}

fn decoded(bytes: &[u8]) -> Publish<'_> {
    match decode(bytes, &DecodeOptions::new(V5)).unwrap().0 {
        Packet::Publish(publish) => publish,
        other => panic!("{other:?}"),
    }
}

#[test]
fn accessors_agree_for_both_forms() {
    let list = list();
    let bytes = encoded(publish(Properties::from_list(&list), b""));
    for properties in [Properties::from_list(&list), decoded(&bytes).properties] {
        assert_eq!(properties.iter().collect::<Vec<_>>(), list);
        assert_eq!(properties.topic_alias().map(u16::from), Some(5));
        assert_eq!(properties.message_expiry_interval(), Some(60));
        assert_eq!(properties.content_type(), None);
        assert_eq!(properties.subscription_identifier().map(SubscriptionId::get), Some(128));
        let identifiers: Vec<u32> = properties.subscription_identifiers().map(SubscriptionId::get).collect();
        assert_eq!(identifiers, [128, 3]);
        let pairs: Vec<_> = properties.user_properties().collect();
        assert_eq!(pairs, [("a", "1"), ("b", "2"), ("a", "3")]);
        assert!(properties.contains(PropertyId::TopicAlias) && !properties.contains(PropertyId::ContentType));
    }
}

#[test]
fn a_decoded_property_block_can_be_forwarded_whole_and_in_parts() {
    let list = list();
    let bytes = encoded(publish(Properties::from_list(&list), b"payload"));
    let incoming = decoded(&bytes);
    let block = incoming.properties.as_wire().unwrap();
    assert_eq!(Properties::from_wire(block, PropertyContext::Publish), Ok(incoming.properties));

    let mut kept = Vec::new();
    for raw in incoming.properties.raw().unwrap() {
        if raw.id == PropertyId::UserProperty {
            kept.extend_from_slice(raw.bytes);
        }
    }
    Property::MessageExpiryInterval(59).append_to(&mut kept).unwrap();
    let outgoing = publish(Properties::from_wire(&kept, PropertyContext::Publish).unwrap(), incoming.payload);
    let expected = [list[0], list[3], list[6], Property::MessageExpiryInterval(59)];
    assert_eq!(decoded(&encoded(outgoing)).properties, Properties::from_list(&expected));
}

#[test]
fn a_packet_without_properties_has_an_empty_block() {
    let bytes = encoded(publish(Properties::EMPTY, b""));
    assert_eq!(decoded(&bytes).properties.as_wire(), Some(&[][..]));
    assert!(decoded(&bytes).properties.is_empty());
}

#[test]
fn an_invalid_property_block_is_refused_with_its_position() {
    let error = Properties::from_wire(&[0x01, 0x01, 0x01, 0x00], PropertyContext::Publish).unwrap_err();
    assert_eq!((error.cause, error.offset), (DecodeCause::PropertyRepeated, 2));
    let error = Properties::from_wire(&[0x03, 0x00, 0x05, b'a'], PropertyContext::Publish).unwrap_err();
    assert_eq!(error.cause, DecodeCause::PropertyPastBlock);
}

#[test]
fn errors_count_from_the_start_of_the_packet() {
    // PUBLISH "t", content type twice.
    let bytes = [0x30, 12, 0, 1, b't', 8, 0x03, 0, 1, b'a', 0x03, 0, 1, b'b'];
    let error = decode(&bytes, &DecodeOptions::new(V5)).unwrap_err();
    assert_eq!((error.cause, error.offset), (DecodeCause::PropertyRepeated, 10));
    assert_eq!(error.to_string(), "the property may appear at most once: send it once [property_repeated] at byte 10");
}

#[test]
fn the_payload_format_is_checked_on_request() {
    let utf8 = [Property::PayloadFormatIndicator(PayloadFormat::Utf8)];
    let bytes = [Property::PayloadFormatIndicator(PayloadFormat::Unspecified)];
    assert!(publish(Properties::from_list(&utf8), "ü".as_bytes()).payload_is_as_indicated());
    assert!(!publish(Properties::from_list(&utf8), b"\xff").payload_is_as_indicated());
    assert!(publish(Properties::from_list(&bytes), b"\xff").payload_is_as_indicated());
    assert!(publish(Properties::EMPTY, b"\xff").payload_is_as_indicated());
}

#[test]
fn debug_output_hides_payloads_and_secrets() {
    let secrets = [Property::AuthenticationMethod("m"), Property::AuthenticationData(b"hunter2")];
    let will = Will {
        topic: TopicName::new("t").unwrap(),
        payload: b"hunter2",
        qos: Default::default(),
        retain: false,
        properties: Properties::EMPTY,
    };
    let connect = Connect {
        version: V5,
        clean_start: true,
        keep_alive_s: 0,
        client_id: "c",
        will: Some(will),
        user_name: Some("u"),
        password: Some(b"hunter2"),
        properties: Properties::from_list(&secrets),
    };
    let shown = format!("{:?} {:?}", Packet::Connect(connect), publish(Properties::EMPTY, b"hunter2"));
    let secret = format!("{:?}", b"hunter2");
    assert!(!shown.contains("hunter2") && !shown.contains(&secret[1..secret.len() - 1]), "{shown}");
    assert_eq!(shown.matches("<7 bytes>").count(), 4, "{shown}");
}
