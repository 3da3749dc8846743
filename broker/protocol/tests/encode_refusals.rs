//! Packets that cannot be encoded give a named error, and nothing is written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tautwire_protocol::{
    Auth, AuthReason, ConnAck, Connect, ConnectReason, Delivery, Disconnect, DisconnectReason, EncodeError, List,
    Packet, PacketId, Properties, Property, PropertyContext, PropertyId, ProtocolVersion, PubAck, PubAckReason,
    Publish, QoS, RetainHandling, SubAck, Subscribe, SubscribeReason, SubscriptionOptions, SubscriptionRequest,
    TopicFilter, TopicName, UnsubAck, Unsubscribe, UnsubscribeReason, Will,
};

const V3: ProtocolVersion = ProtocolVersion::V3_1_1;
const V5: ProtocolVersion = ProtocolVersion::V5;

/// The error for `packet`; all three ways of encoding agree, and none of them writes.
fn refusal<'a>(packet: impl Into<Packet<'a>>, version: ProtocolVersion) -> EncodeError {
    let packet = packet.into();
    let error = packet.encoded_len(version).unwrap_err();
    let mut out = vec![0xEE; 400_000];
    assert_eq!(packet.encode(version, &mut out), Err(error));
    assert!(out.iter().all(|&byte| byte == 0xEE));
    let mut appended = vec![1, 2, 3];
    assert_eq!(packet.append_to(version, &mut appended), Err(error));
    assert_eq!(appended, [1, 2, 3]);
    error
}

fn id() -> PacketId {
    PacketId::new(7).unwrap()
}

fn publish<'a>(properties: &'a [Property<'a>]) -> Publish<'a> {
    Publish {
        delivery: Delivery::AtMostOnce,
        retain: false,
        topic: Some(TopicName::new("t").unwrap()),
        properties: Properties::from_list(properties),
        payload: b"x",
    }
}

fn connect() -> Connect<'static> {
    Connect {
        version: V5,
        clean_start: true,
        keep_alive_s: 0,
        client_id: "c",
        will: None,
        user_name: None,
        password: None,
        properties: Properties::EMPTY,
    }
}

fn subscribe<'a>(requests: &'a [SubscriptionRequest<'a>]) -> Subscribe<'a> {
    Subscribe { packet_id: id(), properties: Properties::EMPTY, requests: List::from_slice(requests) }
}

#[test]
fn a_property_of_another_packet_is_refused() {
    let error = refusal(publish(&[Property::ReceiveMaximum(1.try_into().unwrap())]), V5);
    let property = PropertyId::ReceiveMaximum;
    assert_eq!(error, EncodeError::PropertyNotAllowed { property, context: PropertyContext::Publish });
    assert_eq!(
        error.to_string(),
        "receive_maximum: the property is not allowed in this packet: remove it (PUBLISH) [property_not_allowed]"
    );
}

#[test]
fn a_property_is_refused_twice_unless_it_may_repeat() {
    let twice = [Property::ContentType("a"), Property::ContentType("b")];
    let property = PropertyId::ContentType;
    assert_eq!(refusal(publish(&twice), V5), EncodeError::PropertyRepeated { property });
    assert!(publish(&[Property::UserProperty("a", "1"), Property::UserProperty("a", "1")]).encoded_len(V5).is_ok());
}

#[test]
fn maximum_qos_2_is_omitted() {
    let list = [Property::MaximumQoS(QoS::ExactlyOnce)];
    let properties = Properties::from_list(&list);
    let packet = ConnAck { session_present: false, reason: ConnectReason::Success, properties };
    assert_eq!(refusal(packet, V5), EncodeError::MaximumQoSOutOfRange);
}

#[test]
fn checked_properties_of_one_packet_are_checked_again_for_another() {
    let mut block = Vec::new();
    Property::WillDelayInterval(5).append_to(&mut block).unwrap();
    let of_will = Properties::from_wire(&block, PropertyContext::Will).unwrap();
    let packet = Publish { properties: of_will, ..publish(&[]) };
    let property = PropertyId::WillDelayInterval;
    assert_eq!(refusal(packet, V5), EncodeError::PropertyNotAllowed { property, context: PropertyContext::Publish });
    assert!(packet.to_owned_publish().is_err());
}

#[test]
fn strings_must_not_be_too_long_or_contain_null() {
    let long = "x".repeat(65_536);
    let field = "client_id";
    assert_eq!(
        refusal(Connect { client_id: &long, ..connect() }, V5),
        EncodeError::FieldTooLong { field, len: 65_536 }
    );
    assert_eq!(refusal(Connect { client_id: "a\0", ..connect() }, V5), EncodeError::NullInString { field });
    let user_name = Connect { user_name: Some("\0"), ..connect() };
    assert_eq!(refusal(user_name, V5), EncodeError::NullInString { field: "user_name" });
    let password = Connect { password: Some(long.as_bytes()), ..connect() };
    assert_eq!(refusal(password, V5), EncodeError::FieldTooLong { field: "password", len: 65_536 });
    let will = Will {
        topic: TopicName::new("t").unwrap(),
        payload: long.as_bytes(),
        qos: QoS::AtMostOnce,
        retain: false,
        properties: Properties::EMPTY,
    };
    let will = Connect { will: Some(will), ..connect() };
    assert_eq!(refusal(will, V5), EncodeError::FieldTooLong { field: "will.payload", len: 65_536 });
    let field = "user_property";
    assert_eq!(refusal(publish(&[Property::UserProperty("a\0", "b")]), V5), EncodeError::NullInString { field });
    assert_eq!(refusal(publish(&[Property::UserProperty("a", "b\0")]), V5), EncodeError::NullInString { field });
    let correlation = [Property::CorrelationData(long.as_bytes())];
    let field = "correlation_data";
    assert_eq!(refusal(publish(&correlation), V5), EncodeError::FieldTooLong { field, len: 65_536 });
}

#[test]
fn a_message_needs_a_topic_or_an_alias() {
    let alias = [Property::TopicAlias(3.try_into().unwrap())];
    assert_eq!(refusal(Publish { topic: None, ..publish(&[]) }, V5), EncodeError::TopicMissing);
    assert_eq!(refusal(Publish { topic: None, ..publish(&[]) }, V3), EncodeError::TopicMissing);
    assert!(Publish { topic: None, ..publish(&alias) }.encoded_len(V5).is_ok());
}

#[test]
fn a_packet_above_the_largest_remaining_length_is_refused() {
    let payload = vec![0; 268_435_455];
    let packet = Publish { payload: &payload, ..publish(&[]) };
    assert_eq!(packet.encoded_len(V3), Err(EncodeError::PacketTooLarge { remaining_len: 268_435_458 }));
    assert_eq!(Publish { payload: &payload[3..], ..packet }.encoded_len(V3), Ok(268_435_460));
}

#[test]
fn authentication_needs_its_method() {
    let data = [Property::AuthenticationData(b"x")];
    let properties = Properties::from_list(&data);
    assert_eq!(refusal(Connect { properties, ..connect() }, V5), EncodeError::AuthenticationDataAlone);
    let continued = Auth { reason: AuthReason::ContinueAuthentication, properties: Properties::EMPTY };
    assert_eq!(refusal(continued, V5), EncodeError::AuthenticationMethodMissing);
    assert_eq!(Auth { reason: AuthReason::Success, ..continued }.encoded_len(V5), Ok(2));
}

#[test]
fn lists_must_not_be_empty() {
    assert_eq!(refusal(subscribe(&[]), V5), EncodeError::NoTopicFilters);
    let unsubscribe = Unsubscribe { packet_id: id(), properties: Properties::EMPTY, filters: List::EMPTY };
    assert_eq!(refusal(unsubscribe, V3), EncodeError::NoTopicFilters);
    let suback = SubAck { packet_id: id(), properties: Properties::EMPTY, reasons: List::EMPTY };
    assert_eq!(refusal(suback, V3), EncodeError::NoReasonCodes);
    let unsuback = UnsubAck { packet_id: id(), properties: Properties::EMPTY, reasons: List::EMPTY };
    assert_eq!(refusal(unsuback, V5), EncodeError::NoReasonCodes);
    assert_eq!(unsuback.encoded_len(V3), Ok(4));
}

#[test]
fn no_local_is_refused_on_a_shared_subscription() {
    let filter = TopicFilter::new("$share/g/a").unwrap();
    let options = SubscriptionOptions { no_local: true, ..SubscriptionOptions::default() };
    assert_eq!(refusal(subscribe(&[SubscriptionRequest { filter, options }]), V5), EncodeError::NoLocalOnShared);
}

#[test]
fn a_refused_connack_has_no_session_present() {
    let packet = ConnAck { session_present: true, ..ConnAck::refusal(ConnectReason::NotAuthorized) };
    assert_eq!(refusal(packet, V5), EncodeError::SessionPresentOnFailure);
    assert_eq!(refusal(packet, V3), EncodeError::SessionPresentOnFailure);
}

#[test]
fn before_v5_a_password_needs_a_user_name() {
    let packet = Connect { version: V3, password: Some(b"p"), ..connect() };
    assert_eq!(refusal(packet, V3), EncodeError::PasswordWithoutUserName);
    assert!(Connect { version: V5, ..packet }.encoded_len(V5).is_ok());
}

/// [MQTT-3.1.3-7] of 3.1.1.
#[test]
fn before_v5_a_persistent_session_needs_a_client_id() {
    let packet = Connect { version: V3, client_id: "", clean_start: false, ..connect() };
    assert_eq!(refusal(packet, V3), EncodeError::ClientIdMissing);
    for legal in [
        Connect { clean_start: true, ..packet },
        Connect { client_id: "c", ..packet },
        Connect { version: V5, ..packet },
    ] {
        assert!(legal.encoded_len(legal.version).is_ok(), "{legal:?}");
    }
}

#[test]
fn features_of_v5_are_refused_before_it() {
    let user = [Property::UserProperty("a", "b")];
    let properties = Properties::from_list(&user);
    let filter = TopicFilter::new("a").unwrap();
    let request = |options| [SubscriptionRequest { filter, options }];
    let options = SubscriptionOptions::with_qos(QoS::AtLeastOnce);
    let will =
        Will { topic: TopicName::new("t").unwrap(), payload: b"", qos: QoS::AtMostOnce, retain: false, properties };
    let no_local = request(SubscriptionOptions { no_local: true, ..options });
    let retain_as_published = request(SubscriptionOptions { retain_as_published: true, ..options });
    let retain_handling = request(SubscriptionOptions { retain_handling: RetainHandling::DoNotSend, ..options });
    let packets: [Packet<'_>; 12] = [
        publish(&user).into(),
        Connect { version: V3, properties, ..connect() }.into(),
        Connect { version: V3, will: Some(will), ..connect() }.into(),
        ConnAck::refusal(ConnectReason::Banned).into(),
        PubAck::new(id(), PubAckReason::NoMatchingSubscribers).into(),
        PubAck { properties, ..PubAck::success(id()) }.into(),
        subscribe(&no_local).into(),
        subscribe(&retain_as_published).into(),
        subscribe(&retain_handling).into(),
        SubAck {
            packet_id: id(),
            properties: Properties::EMPTY,
            reasons: List::from_slice(&[SubscribeReason::NotAuthorized]),
        }
        .into(),
        UnsubAck {
            packet_id: id(),
            properties: Properties::EMPTY,
            reasons: List::from_slice(&[UnsubscribeReason::Success]),
        }
        .into(),
        Disconnect::new(DisconnectReason::ServerBusy).into(),
    ];
    for packet in packets {
        let error = refusal(packet, V3);
        assert!(matches!(error, EncodeError::NotInVersion { version: V3, .. }), "{packet:?}: {error}");
    }
    let auth = Auth { reason: AuthReason::Success, properties: Properties::EMPTY };
    assert_eq!(refusal(auth, V3), EncodeError::AuthBeforeV5);
}

#[test]
fn every_v3_return_code_is_encoded() {
    for (code, reason) in [
        (0, ConnectReason::Success),
        (1, ConnectReason::UnsupportedProtocolVersion),
        (2, ConnectReason::ClientIdentifierNotValid),
        (3, ConnectReason::ServerUnavailable),
        (4, ConnectReason::BadUserNameOrPassword),
        (5, ConnectReason::NotAuthorized),
    ] {
        let mut out = [0; 4];
        assert_eq!(ConnAck::refusal(reason).encode(V3, &mut out), Ok(4));
        assert_eq!(out, [0x20, 2, 0, code]);
        assert_eq!(reason.v3_return_code(), Some(code));
    }
}

#[test]
fn errors_name_field_cause_advice_code_and_statement() {
    let long = "x".repeat(65_536);
    for (error, said) in [
        (
            refusal(Connect { client_id: &long, ..connect() }, V5),
            "client_id: the string or binary field is longer than 65,535 bytes: shorten it (65536 bytes) [field_too_long]",
        ),
        (
            refusal(Connect { client_id: "a\0", ..connect() }, V5),
            "client_id: the string contains U+0000: remove it [utf8_null] (MQTT-1.5.4-2)",
        ),
        (
            refusal(Connect { version: V3, password: Some(b"hunter2"), ..connect() }, V3),
            "password: before MQTT 5.0 a password needs a user name: send both [password_without_user_name]",
        ),
        (
            refusal(Disconnect::new(DisconnectReason::ServerBusy), V3),
            "reason: this version of the protocol cannot express it: leave it out, or use MQTT 5.0 (MQTT 3.1.1) [not_in_version]",
        ),
        (
            EncodeError::BufferTooSmall { needed: 9 },
            "the buffer is too small for the packet: give it more room (9 bytes) [buffer_too_small]",
        ),
    ] {
        assert_eq!(error.to_string(), said);
        assert!(said.contains(error.text()) && said.contains(&format!("[{}]", error.code())), "{said}");
    }
}
