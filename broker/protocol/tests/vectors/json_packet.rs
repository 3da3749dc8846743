//! Packets in the JSON form of the vectors. Values are leaked: a test process is short-lived.

use std::num::{NonZeroU16, NonZeroU32};

use serde_json::Value;
use tautwire_protocol::{
    Auth, AuthReason, ConnAck, Connect, ConnectReason, Delivery, Disconnect, DisconnectReason, List, Packet, PacketId,
    PayloadFormat, Properties, Property, PropertyId, ProtocolVersion, PubAck, PubAckReason, PubComp, PubCompReason,
    PubRec, PubRecReason, PubRel, PubRelReason, Publish, QoS, RetainHandling, SubAck, Subscribe, SubscribeReason,
    SubscriptionId, SubscriptionOptions, SubscriptionRequest, TopicFilter, TopicName, UnsubAck, Unsubscribe,
    UnsubscribeReason, Will,
};

/// The packet that `json` describes.
pub(crate) fn packet(json: &Value, version: ProtocolVersion) -> Packet<'static> {
    let properties = properties(&json["properties"]);
    match json["type"].as_str().unwrap() {
        "connect" => Packet::Connect(connect(json, version, properties)),
        "connack" => Packet::ConnAck(ConnAck {
            session_present: json["session_present"].as_bool().unwrap(),
            reason: ConnectReason::from_u8(byte(&json["reason"])).unwrap(),
            properties,
        }),
        "publish" => Packet::Publish(publish(json, properties)),
        "puback" => Packet::PubAck(PubAck {
            packet_id: packet_id(json),
            reason: PubAckReason::from_u8(byte(&json["reason"])).unwrap(),
            properties,
        }),
        "pubrec" => Packet::PubRec(PubRec {
            packet_id: packet_id(json),
            reason: PubRecReason::from_u8(byte(&json["reason"])).unwrap(),
            properties,
        }),
        "pubrel" => Packet::PubRel(PubRel {
            packet_id: packet_id(json),
            reason: PubRelReason::from_u8(byte(&json["reason"])).unwrap(),
            properties,
        }),
        "pubcomp" => Packet::PubComp(PubComp {
            packet_id: packet_id(json),
            reason: PubCompReason::from_u8(byte(&json["reason"])).unwrap(),
            properties,
        }),
        "subscribe" => Packet::Subscribe(Subscribe {
            packet_id: packet_id(json),
            properties,
            requests: list(&json["requests"], request),
        }),
        "suback" => Packet::SubAck(SubAck {
            packet_id: packet_id(json),
            properties,
            reasons: list(&json["reasons"], |reason| SubscribeReason::from_u8(byte(reason)).unwrap()),
        }),
        "unsubscribe" => Packet::Unsubscribe(Unsubscribe {
            packet_id: packet_id(json),
            properties,
            filters: list(&json["filters"], |filter| TopicFilter::new(string(filter)).unwrap()),
        }),
        "unsuback" => Packet::UnsubAck(UnsubAck {
            packet_id: packet_id(json),
            properties,
            reasons: list(&json["reasons"], |reason| UnsubscribeReason::from_u8(byte(reason)).unwrap()),
        }),
        "pingreq" => Packet::PingReq,
        "pingresp" => Packet::PingResp,
        "disconnect" => Packet::Disconnect(Disconnect {
            reason: DisconnectReason::from_u8(byte(&json["reason"])).unwrap(),
            properties,
        }),
        "auth" => Packet::Auth(Auth { reason: AuthReason::from_u8(byte(&json["reason"])).unwrap(), properties }),
        other => panic!("packet type {other}"),
    }
}

/// The properties of the packet and of its will.
pub(crate) fn all_properties<'a>(packet: &Packet<'a>) -> Vec<Properties<'a>> {
    match packet {
        Packet::Connect(packet) => match packet.will {
            Some(will) => vec![packet.properties, will.properties],
            None => vec![packet.properties],
        },
        Packet::ConnAck(packet) => vec![packet.properties],
        Packet::Publish(packet) => vec![packet.properties],
        Packet::PubAck(packet) => vec![packet.properties],
        Packet::PubRec(packet) => vec![packet.properties],
        Packet::PubRel(packet) => vec![packet.properties],
        Packet::PubComp(packet) => vec![packet.properties],
        Packet::Subscribe(packet) => vec![packet.properties],
        Packet::SubAck(packet) => vec![packet.properties],
        Packet::Unsubscribe(packet) => vec![packet.properties],
        Packet::UnsubAck(packet) => vec![packet.properties],
        Packet::PingReq | Packet::PingResp => vec![],
        Packet::Disconnect(packet) => vec![packet.properties],
        Packet::Auth(packet) => vec![packet.properties],
    }
}

/// Bytes of hexadecimal digits.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    assert!(digits.len().is_multiple_of(2), "{digits}");
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// The bytes of `json[plain]`, which is hexadecimal, or of `json[parts]`.
pub(crate) fn bytes_of(json: &Value, plain: &str, parts: &str) -> Vec<u8> {
    match &json[plain] {
        Value::String(digits) => hex(digits),
        _ => join(&json[parts]),
    }
}

/// The text of `json[name]` or of `json[name_parts]`.
pub(crate) fn text(json: &Value, name: &str) -> &'static str {
    match &json[name] {
        Value::Null => leak_text(join(&json[format!("{name}_parts")])),
        value => string(value),
    }
}

fn optional_text(json: &Value, name: &str) -> Option<&'static str> {
    let is_there = !json[name].is_null() || !json[format!("{name}_parts")].is_null();
    is_there.then(|| text(json, name))
}

fn optional_bytes(json: &Value, name: &str) -> Option<&'static [u8]> {
    let (plain, parts) = (format!("{name}_hex"), format!("{name}_parts"));
    let is_there = !json[&plain].is_null() || !json[&parts].is_null();
    is_there.then(|| &*bytes_of(json, &plain, &parts).leak())
}

fn join(parts: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts.as_array().unwrap_or_else(|| panic!("no parts: {parts}")) {
        match part["count"].as_u64() {
            Some(count) => bytes.extend(hex(part["repeat"].as_str().unwrap()).repeat(count as usize)),
            None => bytes.extend(hex(part["hex"].as_str().unwrap())),
        }
    }
    bytes
}

/// A string, or `{"parts": …}`.
fn string(value: &Value) -> &'static str {
    match value {
        Value::String(text) => leak_text(text.clone().into_bytes()),
        value => leak_text(join(&value["parts"])),
    }
}

/// `{"hex": …}` or `{"parts": …}`.
fn binary(value: &Value) -> &'static [u8] {
    bytes_of(value, "hex", "parts").leak()
}

fn leak_text(bytes: Vec<u8>) -> &'static str {
    String::from_utf8(bytes).unwrap().leak()
}

fn byte(value: &Value) -> u8 {
    u8::try_from(value.as_u64().unwrap()).unwrap()
}

fn two_bytes(value: &Value) -> u16 {
    u16::try_from(value.as_u64().unwrap()).unwrap()
}

fn four_bytes(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

fn boolean(value: &Value) -> bool {
    match value.as_u64().unwrap() {
        0 => false,
        1 => true,
        other => panic!("{other} is not a boolean"),
    }
}

fn packet_id(json: &Value) -> PacketId {
    PacketId::new(two_bytes(&json["packet_id"])).unwrap()
}

fn list<T>(json: &Value, item: impl Fn(&Value) -> T) -> List<'static, T> {
    let items: Vec<T> = json.as_array().unwrap().iter().map(item).collect();
    List::from_slice(items.leak())
}

fn connect(json: &Value, version: ProtocolVersion, properties: Properties<'static>) -> Connect<'static> {
    Connect {
        version,
        clean_start: json["clean_start"].as_bool().unwrap(),
        keep_alive_s: two_bytes(&json["keep_alive_s"]),
        client_id: text(json, "client_id"),
        will: match &json["will"] {
            Value::Null => None,
            will => Some(Will {
                topic: TopicName::new(text(will, "topic")).unwrap(),
                payload: optional_bytes(will, "payload").unwrap(),
                qos: QoS::from_u8(byte(&will["qos"])).unwrap(),
                retain: will["retain"].as_bool().unwrap(),
                properties: self::properties(&will["properties"]),
            }),
        },
        user_name: optional_text(json, "user_name"),
        password: optional_bytes(json, "password"),
        properties,
    }
}

fn publish(json: &Value, properties: Properties<'static>) -> Publish<'static> {
    let dup = json["dup"].as_bool().unwrap();
    Publish {
        delivery: match byte(&json["qos"]) {
            0 => {
                assert!(!dup && json["packet_id"].is_null());
                Delivery::AtMostOnce
            }
            1 => Delivery::AtLeastOnce { packet_id: packet_id(json), dup },
            2 => Delivery::ExactlyOnce { packet_id: packet_id(json), dup },
            other => panic!("QoS {other}"),
        },
        retain: json["retain"].as_bool().unwrap(),
        topic: optional_text(json, "topic").map(|topic| TopicName::new(topic).unwrap()),
        properties,
        payload: optional_bytes(json, "payload").unwrap(),
    }
}

fn request(json: &Value) -> SubscriptionRequest<'static> {
    SubscriptionRequest {
        filter: TopicFilter::new(text(json, "filter")).unwrap(),
        options: SubscriptionOptions {
            qos: QoS::from_u8(byte(&json["qos"])).unwrap(),
            no_local: json["no_local"].as_bool().unwrap(),
            retain_as_published: json["retain_as_published"].as_bool().unwrap(),
            retain_handling: RetainHandling::from_u8(byte(&json["retain_handling"])).unwrap(),
        },
    }
}

fn properties(json: &Value) -> Properties<'static> {
    let list: Vec<Property<'static>> = json.as_array().map_or(&[][..], Vec::as_slice).iter().map(property).collect();
    Properties::from_list(list.leak())
}

fn property(json: &Value) -> Property<'static> {
    let name = json["name"].as_str().unwrap();
    let value = &json["value"];
    let id = *PropertyId::ALL.iter().find(|id| id.name() == name).unwrap_or_else(|| panic!("property {name}"));
    match id {
        PropertyId::PayloadFormatIndicator => Property::PayloadFormatIndicator(match boolean(value) {
            false => PayloadFormat::Unspecified,
            true => PayloadFormat::Utf8,
        }),
        PropertyId::MessageExpiryInterval => Property::MessageExpiryInterval(four_bytes(value)),
        PropertyId::ContentType => Property::ContentType(string(value)),
        PropertyId::ResponseTopic => Property::ResponseTopic(TopicName::new(string(value)).unwrap()),
        PropertyId::CorrelationData => Property::CorrelationData(binary(value)),
        PropertyId::SubscriptionIdentifier => {
            Property::SubscriptionIdentifier(SubscriptionId::new(four_bytes(value)).unwrap())
        }
        PropertyId::SessionExpiryInterval => Property::SessionExpiryInterval(four_bytes(value)),
        PropertyId::AssignedClientIdentifier => Property::AssignedClientIdentifier(string(value)),
        PropertyId::ServerKeepAlive => Property::ServerKeepAlive(two_bytes(value)),
        PropertyId::AuthenticationMethod => Property::AuthenticationMethod(string(value)),
        PropertyId::AuthenticationData => Property::AuthenticationData(binary(value)),
        PropertyId::RequestProblemInformation => Property::RequestProblemInformation(boolean(value)),
        PropertyId::WillDelayInterval => Property::WillDelayInterval(four_bytes(value)),
        PropertyId::RequestResponseInformation => Property::RequestResponseInformation(boolean(value)),
        PropertyId::ResponseInformation => Property::ResponseInformation(string(value)),
        PropertyId::ServerReference => Property::ServerReference(string(value)),
        PropertyId::ReasonString => Property::ReasonString(string(value)),
        PropertyId::ReceiveMaximum => Property::ReceiveMaximum(NonZeroU16::new(two_bytes(value)).unwrap()),
        PropertyId::TopicAliasMaximum => Property::TopicAliasMaximum(two_bytes(value)),
        PropertyId::TopicAlias => Property::TopicAlias(NonZeroU16::new(two_bytes(value)).unwrap()),
        PropertyId::MaximumQoS => Property::MaximumQoS(QoS::from_u8(byte(value)).unwrap()),
        PropertyId::RetainAvailable => Property::RetainAvailable(boolean(value)),
        PropertyId::UserProperty => Property::UserProperty(string(&value[0]), string(&value[1])),
        PropertyId::MaximumPacketSize => Property::MaximumPacketSize(NonZeroU32::new(four_bytes(value)).unwrap()),
        PropertyId::WildcardSubscriptionAvailable => Property::WildcardSubscriptionAvailable(boolean(value)),
        PropertyId::SubscriptionIdentifierAvailable => Property::SubscriptionIdentifierAvailable(boolean(value)),
        PropertyId::SharedSubscriptionAvailable => Property::SharedSubscriptionAvailable(boolean(value)),
    }
}
