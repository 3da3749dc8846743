//! Random packets that the standard allows. Values are leaked: a test process is short-lived.

use std::num::{NonZeroU16, NonZeroU32};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tautwire_protocol::{
    Auth, AuthReason, ConnAck, Connect, ConnectReason, Delivery, Disconnect, DisconnectReason, List, Packet, PacketId,
    PayloadFormat, Properties, Property, PropertyContext, PropertyId, ProtocolVersion, PubAck, PubAckReason, PubComp,
    PubCompReason, PubRec, PubRecReason, PubRel, PubRelReason, Publish, QoS, RetainHandling, SubAck, Subscribe,
    SubscribeReason, SubscriptionId, SubscriptionOptions, SubscriptionRequest, TopicFilter, TopicName, UnsubAck,
    Unsubscribe, UnsubscribeReason, Will,
};

/// A version and a packet that it can express.
pub(crate) fn version_and_packet() -> impl Strategy<Value = (ProtocolVersion, Packet<'static>)> {
    version().prop_flat_map(|version| packet(version).prop_map(move |packet| (version, packet)))
}

fn version() -> impl Strategy<Value = ProtocolVersion> {
    prop_oneof![1 => Just(ProtocolVersion::V3_1), 1 => Just(ProtocolVersion::V3_1_1), 3 => Just(ProtocolVersion::V5)]
}

fn packet(version: ProtocolVersion) -> BoxedStrategy<Packet<'static>> {
    let both = prop_oneof![
        connect(version).prop_map(Packet::Connect),
        connack(version).prop_map(Packet::ConnAck),
        publish(version).prop_map(Packet::Publish),
        acknowledgement(version),
        subscribe(version).prop_map(Packet::Subscribe),
        suback(version).prop_map(Packet::SubAck),
        unsubscribe(version).prop_map(Packet::Unsubscribe),
        unsuback(version).prop_map(Packet::UnsubAck),
        prop_oneof![Just(Packet::PingReq), Just(Packet::PingResp)],
        disconnect(version).prop_map(Packet::Disconnect),
    ];
    if version.is_v5() { prop_oneof![10 => both, 1 => auth().prop_map(Packet::Auth)].boxed() } else { both.boxed() }
}

/// A string of ASCII characters more often than others, without those of `except`.
fn string(max_chars: usize, except: &'static [char]) -> impl Strategy<Value = String> {
    let character = prop_oneof![
        8 => (b' '..=b'~').prop_map(char::from),
        1 => any::<char>(),
        1 => select(vec!['\u{1}', '\u{7f}', '\u{80}', '\u{feff}', '\u{fffe}', '\u{10ffff}', '/', '$']),
    ];
    vec(character, 0..=max_chars).prop_map(move |characters| {
        characters.into_iter().filter(|character| *character != '\0' && !except.contains(character)).collect()
    })
}

fn text() -> impl Strategy<Value = &'static str> {
    string(24, &[]).prop_map(|text| &*text.leak())
}

fn bytes(max_len: usize) -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), 0..=max_len).prop_map(|bytes| &*bytes.leak())
}

fn topic_name() -> impl Strategy<Value = TopicName<'static>> {
    string(20, &['+', '#']).prop_map(|topic| {
        let topic = if topic.is_empty() { "/".to_owned() } else { topic };
        TopicName::new(topic.leak()).unwrap()
    })
}

fn topic_filter() -> impl Strategy<Value = TopicFilter<'static>> {
    let level = prop_oneof![4 => string(6, &['+', '#', '/']), 1 => Just("+".to_owned())];
    let group = option::weighted(0.2, string(4, &['+', '#', '/']));
    (group, vec(level, 1..5), any::<bool>()).prop_map(|(group, mut levels, multi)| {
        if multi {
            levels.push("#".to_owned());
        }
        let levels = if levels.iter().all(String::is_empty) { "/".to_owned() } else { levels.join("/") };
        let filter = match group {
            Some(group) => format!("$share/g{group}/{levels}"),
            None => levels,
        };
        TopicFilter::new(filter.leak()).unwrap()
    })
}

fn packet_id() -> impl Strategy<Value = PacketId> {
    (1..=u16::MAX).prop_map(|id| PacketId::new(id).unwrap())
}

fn qos() -> impl Strategy<Value = QoS> {
    select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce])
}

fn property(id: PropertyId) -> BoxedStrategy<Property<'static>> {
    let flag = any::<bool>();
    match id {
        PropertyId::PayloadFormatIndicator => select(vec![PayloadFormat::Unspecified, PayloadFormat::Utf8])
            .prop_map(Property::PayloadFormatIndicator)
            .boxed(),
        PropertyId::MessageExpiryInterval => any::<u32>().prop_map(Property::MessageExpiryInterval).boxed(),
        PropertyId::ContentType => text().prop_map(Property::ContentType).boxed(),
        PropertyId::ResponseTopic => topic_name().prop_map(Property::ResponseTopic).boxed(),
        PropertyId::CorrelationData => bytes(20).prop_map(Property::CorrelationData).boxed(),
        PropertyId::SubscriptionIdentifier => (1..=SubscriptionId::MAX)
            .prop_map(|id| Property::SubscriptionIdentifier(SubscriptionId::new(id).unwrap()))
            .boxed(),
        PropertyId::SessionExpiryInterval => any::<u32>().prop_map(Property::SessionExpiryInterval).boxed(),
        PropertyId::AssignedClientIdentifier => text().prop_map(Property::AssignedClientIdentifier).boxed(),
        PropertyId::ServerKeepAlive => any::<u16>().prop_map(Property::ServerKeepAlive).boxed(),
        PropertyId::AuthenticationMethod => text().prop_map(Property::AuthenticationMethod).boxed(),
        PropertyId::AuthenticationData => bytes(20).prop_map(Property::AuthenticationData).boxed(),
        PropertyId::RequestProblemInformation => flag.prop_map(Property::RequestProblemInformation).boxed(),
        PropertyId::WillDelayInterval => any::<u32>().prop_map(Property::WillDelayInterval).boxed(),
        PropertyId::RequestResponseInformation => flag.prop_map(Property::RequestResponseInformation).boxed(),
        PropertyId::ResponseInformation => text().prop_map(Property::ResponseInformation).boxed(),
        PropertyId::ServerReference => text().prop_map(Property::ServerReference).boxed(),
        PropertyId::ReasonString => text().prop_map(Property::ReasonString).boxed(),
        PropertyId::ReceiveMaximum => any::<NonZeroU16>().prop_map(Property::ReceiveMaximum).boxed(),
        PropertyId::TopicAliasMaximum => any::<u16>().prop_map(Property::TopicAliasMaximum).boxed(),
        PropertyId::TopicAlias => any::<NonZeroU16>().prop_map(Property::TopicAlias).boxed(),
        PropertyId::MaximumQoS => {
            select(vec![QoS::AtMostOnce, QoS::AtLeastOnce]).prop_map(Property::MaximumQoS).boxed()
        }
        PropertyId::RetainAvailable => flag.prop_map(Property::RetainAvailable).boxed(),
        PropertyId::UserProperty => {
            (text(), text()).prop_map(|(name, value)| Property::UserProperty(name, value)).boxed()
        }
        PropertyId::MaximumPacketSize => any::<NonZeroU32>().prop_map(Property::MaximumPacketSize).boxed(),
        PropertyId::WildcardSubscriptionAvailable => flag.prop_map(Property::WildcardSubscriptionAvailable).boxed(),
        PropertyId::SubscriptionIdentifierAvailable => flag.prop_map(Property::SubscriptionIdentifierAvailable).boxed(),
        PropertyId::SharedSubscriptionAvailable => flag.prop_map(Property::SharedSubscriptionAvailable).boxed(),
    }
}

/// Properties that are allowed in `context`, in any order, and none before MQTT 5.0.
fn properties(version: ProtocolVersion, context: PropertyContext) -> BoxedStrategy<Properties<'static>> {
    if !version.is_v5() {
        return Just(Properties::EMPTY).boxed();
    }
    let allowed: Vec<PropertyId> = PropertyId::ALL.iter().copied().filter(|id| id.is_allowed_in(context)).collect();
    vec(select(allowed).prop_flat_map(property), 0..8)
        .prop_map(move |list| {
            let mut kept: Vec<Property<'static>> = Vec::new();
            for property in list {
                let id = property.id();
                if id.is_repeatable_in(context) || kept.iter().all(|other| other.id() != id) {
                    kept.push(property);
                }
            }
            let has = |id| kept.iter().any(|property| property.id() == id);
            if has(PropertyId::AuthenticationData) && !has(PropertyId::AuthenticationMethod) {
                kept.push(Property::AuthenticationMethod("method"));
            }
            Properties::from_list(kept.leak())
        })
        .boxed()
}

fn connect(version: ProtocolVersion) -> impl Strategy<Value = Connect<'static>> {
    let will = (topic_name(), bytes(40), qos(), any::<bool>(), properties(version, PropertyContext::Will))
        .prop_map(|(topic, payload, qos, retain, properties)| Will { topic, payload, qos, retain, properties });
    let fields = (
        any::<bool>(),
        any::<u16>(),
        text(),
        option::of(will),
        option::of(text()),
        option::of(bytes(20)),
        properties(version, PropertyContext::Connect),
    );
    fields.prop_map(move |(clean_start, keep_alive_s, client_id, will, user_name, password, properties)| Connect {
        version,
        // [MQTT-3.1.3-7] of 3.1.1.
        clean_start: clean_start || client_id.is_empty() && !version.is_v5(),
        keep_alive_s,
        client_id,
        will,
        user_name,
        password: password.filter(|_| version.is_v5() || user_name.is_some()),
        properties,
    })
}

fn connack(version: ProtocolVersion) -> impl Strategy<Value = ConnAck<'static>> {
    let reasons: Vec<ConnectReason> = ConnectReason::ALL
        .iter()
        .copied()
        .filter(|reason| version.is_v5() || reason.v3_return_code().is_some())
        .collect();
    (any::<bool>(), select(reasons), properties(version, PropertyContext::ConnAck)).prop_map(
        |(session_present, reason, properties)| ConnAck {
            session_present: session_present && !reason.is_error(),
            reason,
            properties,
        },
    )
}

fn publish(version: ProtocolVersion) -> impl Strategy<Value = Publish<'static>> {
    let delivery = prop_oneof![
        Just(Delivery::AtMostOnce),
        (packet_id(), any::<bool>()).prop_map(|(packet_id, dup)| Delivery::AtLeastOnce { packet_id, dup }),
        (packet_id(), any::<bool>()).prop_map(|(packet_id, dup)| Delivery::ExactlyOnce { packet_id, dup }),
    ];
    let topic = option::weighted(0.8, topic_name());
    let payload = prop_oneof![15 => bytes(200), 1 => bytes(20_000)];
    (delivery, any::<bool>(), topic, properties(version, PropertyContext::Publish), payload).prop_map(
        |(delivery, retain, topic, properties, payload)| Publish {
            delivery,
            retain,
            topic: if properties.contains(PropertyId::TopicAlias) {
                topic
            } else {
                Some(topic.unwrap_or(TopicName::new("t").unwrap()))
            },
            properties,
            payload,
        },
    )
}

fn acknowledgement(version: ProtocolVersion) -> impl Strategy<Value = Packet<'static>> {
    fn reasons<T: Copy + std::fmt::Debug + 'static>(
        version: ProtocolVersion,
        all: &[T],
    ) -> impl Strategy<Value = T> + use<T> {
        select(if version.is_v5() { all.to_vec() } else { vec![all[0]] })
    }
    prop_oneof![
        (packet_id(), reasons(version, PubAckReason::ALL), properties(version, PropertyContext::PubAck))
            .prop_map(|(packet_id, reason, properties)| Packet::PubAck(PubAck { packet_id, reason, properties })),
        (packet_id(), reasons(version, PubRecReason::ALL), properties(version, PropertyContext::PubRec))
            .prop_map(|(packet_id, reason, properties)| Packet::PubRec(PubRec { packet_id, reason, properties })),
        (packet_id(), reasons(version, PubRelReason::ALL), properties(version, PropertyContext::PubRel))
            .prop_map(|(packet_id, reason, properties)| Packet::PubRel(PubRel { packet_id, reason, properties })),
        (packet_id(), reasons(version, PubCompReason::ALL), properties(version, PropertyContext::PubComp))
            .prop_map(|(packet_id, reason, properties)| Packet::PubComp(PubComp { packet_id, reason, properties })),
    ]
}

fn subscribe(version: ProtocolVersion) -> impl Strategy<Value = Subscribe<'static>> {
    let handling = select(vec![RetainHandling::SendAtSubscribe, RetainHandling::SendIfNew, RetainHandling::DoNotSend]);
    let options = (qos(), any::<bool>(), any::<bool>(), handling).prop_map(
        |(qos, no_local, retain_as_published, retain_handling)| SubscriptionOptions {
            qos,
            no_local,
            retain_as_published,
            retain_handling,
        },
    );
    let request = (topic_filter(), options).prop_map(move |(filter, mut options)| {
        if !version.is_v5() {
            options = SubscriptionOptions::with_qos(options.qos);
        }
        options.no_local &= filter.share().is_none();
        SubscriptionRequest { filter, options }
    });
    (packet_id(), properties(version, PropertyContext::Subscribe), vec(request, 1..6)).prop_map(
        |(packet_id, properties, requests)| Subscribe {
            packet_id,
            properties,
            requests: List::from_slice(requests.leak()),
        },
    )
}

fn suback(version: ProtocolVersion) -> impl Strategy<Value = SubAck<'static>> {
    let reasons: Vec<SubscribeReason> =
        SubscribeReason::ALL.iter().copied().filter(|reason| version.is_v5() || reason.is_v3()).collect();
    (packet_id(), properties(version, PropertyContext::SubAck), vec(select(reasons), 1..6)).prop_map(
        |(packet_id, properties, reasons)| SubAck { packet_id, properties, reasons: List::from_slice(reasons.leak()) },
    )
}

fn unsubscribe(version: ProtocolVersion) -> impl Strategy<Value = Unsubscribe<'static>> {
    (packet_id(), properties(version, PropertyContext::Unsubscribe), vec(topic_filter(), 1..6)).prop_map(
        |(packet_id, properties, filters)| Unsubscribe {
            packet_id,
            properties,
            filters: List::from_slice(filters.leak()),
        },
    )
}

fn unsuback(version: ProtocolVersion) -> impl Strategy<Value = UnsubAck<'static>> {
    let reasons = if version.is_v5() { 1..6 } else { 0..1 };
    let reasons = vec(select(UnsubscribeReason::ALL.to_vec()), reasons);
    (packet_id(), properties(version, PropertyContext::UnsubAck), reasons).prop_map(
        |(packet_id, properties, reasons)| UnsubAck {
            packet_id,
            properties,
            reasons: List::from_slice(reasons.leak()),
        },
    )
}

fn disconnect(version: ProtocolVersion) -> impl Strategy<Value = Disconnect<'static>> {
    let reasons =
        if version.is_v5() { DisconnectReason::ALL.to_vec() } else { vec![DisconnectReason::NormalDisconnection] };
    (select(reasons), properties(version, PropertyContext::Disconnect))
        .prop_map(|(reason, properties)| Disconnect { reason, properties })
}

fn auth() -> impl Strategy<Value = Auth<'static>> {
    (select(AuthReason::ALL.to_vec()), properties(ProtocolVersion::V5, PropertyContext::Auth)).prop_map(
        |(reason, properties)| {
            let is_bare_success = reason == AuthReason::Success && properties.is_empty();
            if is_bare_success || properties.contains(PropertyId::AuthenticationMethod) {
                return Auth { reason, properties };
            }
            let list: Vec<Property<'static>> =
                properties.iter().chain([Property::AuthenticationMethod("method")]).collect();
            Auth { reason, properties: Properties::from_list(list.leak()) }
        },
    )
}
