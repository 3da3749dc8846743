//! Single rules, one at a time.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use tautwire_client::machine::{Acceptance, Answer, Event, Handler, Incoming, Machine};
use tautwire_client::{AckToken, Error, Options, ProtocolVersion, PubAckReason, Publication, QoS, Subscribe, Will};
use tautwire_protocol::{
    Auth, AuthReason, ConnAck, ConnectReason, DecodeOptions, Delivery, Disconnect, DisconnectReason, OwnedPacket,
    Packet, PacketId, Properties, Property, PubAck, PubRec, Publish, SubAck, SubscribeReason, TopicName, decode,
};

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) messages: Vec<(String, Vec<u8>)>,
    pub(crate) tokens: Vec<AckToken>,
    published: Vec<(u32, Result<(), Error>)>,
    subscribed: Vec<Result<usize, Error>>,
    pub(crate) connected: usize,
    pub(crate) reauthenticated: Vec<u32>,
    lost: Vec<String>,
}

impl Handler<u32> for Seen {
    fn message(&mut self, message: &Incoming<'_>) -> Answer {
        let topic = message.publish.topic.expect("always there").as_str().to_owned();
        self.messages.push((topic, message.publish.payload.to_vec()));
        self.tokens.extend(message.token);
        if message.token.is_some() { Answer::Later } else { Answer::Acknowledge }
    }

    fn event(&mut self, event: Event<'_, u32>) {
        match event {
            Event::Published(tag, outcome) => self.published.push((tag, outcome.map(|_| ()))),
            Event::Subscribed(_, outcome) => self.subscribed.push(outcome.map(|(reasons, _)| reasons.len())),
            Event::Unsubscribed(..) => {}
            Event::Connected { .. } => self.connected += 1,
            Event::Reauthenticated(tag) => self.reauthenticated.push(tag),
            Event::SubscriptionLost(filter, _) => self.lost.push(filter.into()),
        }
    }
}

pub(crate) struct Script {
    pub(crate) machine: Machine<u32>,
    pub(crate) seen: Seen,
    version: ProtocolVersion,
    now_ms: u64,
}

impl Script {
    pub(crate) fn new(options: Options, version: ProtocolVersion) -> Script {
        let machine = Machine::new(options.version(version));
        Script { machine, seen: Seen::default(), version, now_ms: 0 }
    }

    /// Connected to a server with `properties` in its CONNACK.
    fn open(options: Options, properties: &[Property<'_>]) -> Script {
        let mut script = Script::new(options, ProtocolVersion::V5);
        script.connect(false, properties);
        script
    }

    pub(crate) fn connect(&mut self, session_present: bool, properties: &[Property<'_>]) {
        self.machine.opened(self.now_ms).expect("CONNECT can be written");
        assert!(matches!(self.sent()[..], [ref connect] if matches!(connect.as_packet(), Packet::Connect(_))));
        let properties = Properties::from_list(properties);
        let connack = ConnAck { session_present, reason: ConnectReason::Success, properties };
        self.says(&Packet::ConnAck(connack)).expect("accepted");
    }

    pub(crate) fn says(&mut self, packet: &Packet<'_>) -> Result<(), Error> {
        let mut bytes = Vec::new();
        packet.append_to(self.version, &mut bytes).expect("valid");
        self.machine.receive(&bytes, self.now_ms, &mut self.seen)
    }

    pub(crate) fn sent(&mut self) -> Vec<OwnedPacket> {
        let bytes = self.machine.take_output(Vec::new(), self.now_ms, &mut self.seen);
        let (mut at, mut packets) = (0, Vec::new());
        while at < bytes.len() {
            let (packet, len) = decode(&bytes[at..], &DecodeOptions::new(self.version)).expect("valid");
            packets.push(packet.to_owned_packet().expect("decoded"));
            at += len;
        }
        packets
    }

    pub(crate) fn publish(&mut self, publication: &Publication<'_>, tag: u32) -> Result<Acceptance, Error> {
        self.machine.publish(publication, self.now_ms, || tag)
    }

    fn only_publish(&mut self) -> (Option<String>, bool, Option<u16>, Option<u32>) {
        let sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        let Packet::Publish(publish) = sent[0].as_packet() else { panic!("{sent:?}") };
        (
            publish.topic.map(|topic| topic.as_str().to_owned()),
            publish.dup(),
            publish.properties.topic_alias().map(NonZeroU16::get),
            publish.properties.message_expiry_interval(),
        )
    }

    pub(crate) fn disconnect_reason(&mut self) -> DisconnectReason {
        let sent = self.sent();
        match sent.last().map(OwnedPacket::as_packet) {
            Some(Packet::Disconnect(disconnect)) => disconnect.reason,
            other => panic!("no DISCONNECT: {other:?}"),
        }
    }
}

pub(crate) fn options() -> Options {
    Options::new("mqtt://server").expect("an address").client_id("c")
}

pub(crate) fn id(number: u16) -> PacketId {
    PacketId::new(number).expect("not zero")
}

fn message<'a>(topic: &'a str, delivery: Delivery, properties: &'a [Property<'a>]) -> Packet<'a> {
    let topic = TopicName::new(topic).ok();
    Packet::Publish(Publish {
        delivery,
        retain: false,
        topic,
        properties: Properties::from_list(properties),
        payload: b"x",
    })
}

#[test]
fn connect_contains_the_options() {
    let will = Will::new("w", "bye").expect("a topic").qos(QoS::AtLeastOnce).retain(true);
    let will = will.property(Property::WillDelayInterval(5)).expect("allowed");
    let options = options()
        .persistent(Duration::from_secs(60))
        .keep_alive(Duration::from_secs(7))
        .user_name("u")
        .password("p")
        .will(will)
        .receive_maximum(NonZeroU16::new(9).expect("not zero"))
        .maximum_packet_size(NonZeroU32::new(999).expect("not zero"))
        .topic_alias_maximum(3)
        .connect_property(Property::UserProperty("a", "b"))
        .expect("allowed");
    let mut script = Script::new(options, ProtocolVersion::V5);
    script.machine.opened(0).expect("CONNECT can be written");
    let sent = script.sent();
    let Packet::Connect(connect) = sent[0].as_packet() else { panic!("{sent:?}") };
    assert_eq!((connect.client_id, connect.clean_start, connect.keep_alive_s), ("c", false, 7));
    assert_eq!((connect.user_name, connect.password), (Some("u"), Some(&b"p"[..])));
    let said: Vec<_> = connect.properties.iter().collect();
    assert_eq!(
        said,
        [
            Property::SessionExpiryInterval(60),
            Property::ReceiveMaximum(NonZeroU16::new(9).expect("not zero")),
            Property::MaximumPacketSize(NonZeroU32::new(999).expect("not zero")),
            Property::TopicAliasMaximum(3),
            Property::UserProperty("a", "b"),
        ]
    );
    let will = connect.will.expect("a will");
    assert_eq!((will.topic.as_str(), will.payload, will.qos, will.retain), ("w", &b"bye"[..], QoS::AtLeastOnce, true));
    assert_eq!(will.properties.will_delay_interval(), Some(5));
}

/// [MQTT-3.1.3-7].
#[test]
fn before_5_0_a_persistent_session_needs_an_identifier() {
    let kept = options().client_id("").clean_start(false);
    let mut script = Script::new(kept, ProtocolVersion::V3_1_1);
    let error = script.machine.opened(0).expect_err("the session could not be resumed");
    assert!(error.is_permanent(), "{error}");
    assert!(script.sent().is_empty());
}

#[test]
fn a_session_expires_after_300_s_by_default() {
    let expiry = |options: Options| {
        let mut script = Script::new(options, ProtocolVersion::V5);
        script.machine.opened(0).expect("CONNECT can be written");
        let sent = script.sent();
        let Packet::Connect(connect) = sent[0].as_packet() else { panic!("{sent:?}") };
        (connect.clean_start, connect.properties.session_expiry_interval())
    };
    assert_eq!(expiry(options()), (true, Some(300)));
    assert_eq!(expiry(options().session_expiry(Duration::ZERO)), (true, None));
    assert_eq!(expiry(options().persistent(tautwire_client::NEVER_EXPIRES)), (false, Some(u32::MAX)));
}

#[test]
fn only_the_first_connection_starts_clean() {
    let mut script = Script::open(options().clean_start(true), &[]);
    script.machine.lost();
    script.machine.opened(1).expect("CONNECT can be written");
    let sent = script.sent();
    assert!(matches!(sent[0].as_packet(), Packet::Connect(connect) if !connect.clean_start));
}

#[test]
fn a_refusal_has_reason_text_and_server_reference() {
    let mut script = Script::new(options(), ProtocolVersion::V5);
    script.machine.opened(0).expect("CONNECT can be written");
    let properties = [Property::ReasonString("no"), Property::ServerReference("elsewhere")];
    let refusal = ConnAck {
        session_present: false,
        reason: ConnectReason::ServerMoved,
        properties: Properties::from_list(&properties),
    };
    let error = script.says(&Packet::ConnAck(refusal)).expect_err("refused");
    assert!(error.is_permanent());
    assert_eq!(
        error.to_string(),
        "the server redirects to another server: connect there (Server moved (0x9D): no, use elsewhere) [redirected]"
    );
}

#[test]
fn a_server_limited_to_3_1_1_is_understood() {
    for (code, says) in [(1, "unsupported_protocol_version"), (2, "connection_refused"), (4, "connection_refused")] {
        let mut script = Script::new(options(), ProtocolVersion::V5);
        script.machine.opened(0).expect("CONNECT can be written");
        // In two pieces, as it may arrive.
        script.machine.receive(&[0x20, 2, 0], 0, &mut script.seen).expect("incomplete");
        let error = script.machine.receive(&[code], 0, &mut script.seen).expect_err("refused");
        assert_eq!((error.code(), error.is_permanent()), (says, true), "{error}");
    }
    let mut script = Script::new(options(), ProtocolVersion::V5);
    script.machine.opened(0).expect("CONNECT can be written");
    let error = script.machine.receive(&[0x20, 2, 0, 0], 0, &mut script.seen).expect_err("no CONNACK of 5.0");
    assert!(!error.is_permanent(), "{error}");
    let mut script = Script::open(options(), &[]);
    let error = script.machine.receive(&[0x20, 2, 0, 1], 0, &mut script.seen).expect_err("it is connected");
    assert_eq!(error.code(), "protocol_error");
}

#[test]
fn features_that_the_server_does_not_offer_are_refused() {
    let limited = [
        Property::MaximumQoS(QoS::AtLeastOnce),
        Property::RetainAvailable(false),
        Property::MaximumPacketSize(NonZeroU32::new(40).expect("not zero")),
        Property::WildcardSubscriptionAvailable(false),
        Property::SharedSubscriptionAvailable(false),
        Property::SubscriptionIdentifierAvailable(false),
    ];
    let mut script = Script::open(options(), &limited);
    let refused =
        |script: &mut Script, publication: &Publication<'_>| script.publish(publication, 0).expect_err("refused");
    let plain = Publication::new("t", "x");
    assert_eq!(refused(&mut script, &plain.clone().qos(QoS::ExactlyOnce)).code(), "qos_not_supported");
    assert_eq!(refused(&mut script, &plain.clone().retain(true)).code(), "retain_not_supported");
    let large = vec![0; 60];
    assert!(matches!(
        refused(&mut script, &Publication::new("t", &large)),
        Error::TooLarge { bytes: 66, limit_bytes: 40 }
    ));
    assert_eq!(
        refused(&mut script, &plain.clone().property(Property::TopicAlias(NonZeroU16::MIN))).code(),
        "not_supported"
    );
    for subscribe in [
        Subscribe::to("a/#"),
        Subscribe::to("$share/g/a"),
        Subscribe::to("a").identifier(tautwire_client::SubscriptionId::new(1).expect("not zero")),
    ] {
        assert!(script.machine.subscribe(&subscribe, 0, &mut script.seen).is_err(), "{subscribe:?}");
    }
    assert!(script.sent().is_empty(), "nothing of it was sent");
}

#[test]
fn the_window_is_the_smaller_of_both_limits() {
    let mut script = Script::open(options(), &[Property::ReceiveMaximum(NonZeroU16::new(2).expect("not zero"))]);
    for tag in 0..5 {
        script.publish(&Publication::new("t", "x").qos(QoS::AtLeastOnce), tag).expect("taken");
    }
    assert_eq!(script.sent().len(), 2);
    script.says(&Packet::PubAck(PubAck::success(id(1)))).expect("due");
    assert_eq!(script.sent().len(), 1);
    assert!(matches!(script.seen.published[..], [(0, Ok(()))]));
}

#[test]
fn a_full_queue_is_reported_and_accepts_messages_again_later() {
    let limits = {
        let mut limits = tautwire_client::Limits::default();
        limits.queue_messages = 2;
        limits
    };
    let mut script = Script::new(options().limits(limits), ProtocolVersion::V5);
    let publication = Publication::new("t", "x").qos(QoS::AtLeastOnce);
    for tag in 0..2 {
        assert_eq!(script.publish(&publication, tag).expect("waits"), Acceptance::Tracked);
    }
    assert!(matches!(script.publish(&publication, 2), Err(Error::QueueFull)));
    script.connect(false, &[]);
    assert_eq!(script.sent().len(), 2);
    script.publish(&publication, 3).expect("there is room");
    assert_eq!(script.machine.counters().refused_full, 1);
}

#[test]
fn a_queued_message_loses_lifetime_and_expires() {
    let mut script = Script::new(options(), ProtocolVersion::V5);
    script.publish(&Publication::new("t", "x").qos(QoS::AtLeastOnce).expiry(Duration::from_secs(2)), 1).expect("waits");
    script
        .publish(&Publication::new("t", "x").qos(QoS::AtLeastOnce).expiry(Duration::from_secs(10)), 2)
        .expect("waits");
    script.now_ms = 4000;
    script.connect(false, &[]);
    assert_eq!(script.only_publish().3, Some(6));
    assert!(matches!(script.seen.published[..], [(1, Err(Error::Expired))]));
}

#[test]
fn offline_qos_0_messages_stay_in_order() {
    let mut script = Script::new(options(), ProtocolVersion::V5);
    script.publish(&Publication::new("a", "x"), 1).expect("waits");
    script.connect(false, &[]);
    script.publish(&Publication::new("b", "x"), 2).expect("sent");
    let topics: Vec<_> = script
        .sent()
        .iter()
        .map(|packet| match packet.as_packet() {
            Packet::Publish(publish) => publish.topic.map(|topic| topic.as_str().to_owned()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(topics, [Some("a".to_owned()), Some("b".to_owned())]);
}

#[test]
fn aliases_replace_topics_once_the_server_knows_them() {
    let mut script = Script::open(options().topic_aliases(1), &[Property::TopicAliasMaximum(5)]);
    let publication = Publication::new("long/topic", "x");
    script.publish(&publication, 0).expect("sent");
    assert_eq!(script.only_publish(), (Some("long/topic".into()), false, Some(1), None));
    script.publish(&publication, 0).expect("sent");
    assert_eq!(script.only_publish(), (None, false, Some(1), None));
    script.publish(&Publication::new("other", "x"), 0).expect("sent");
    assert_eq!(script.only_publish(), (Some("other".into()), false, None, None));
    // An alias of the application takes over the number.
    let own = Publication::new("mine", "x").property(Property::TopicAlias(NonZeroU16::MIN));
    script.publish(&own, 0).expect("sent");
    assert_eq!(script.only_publish(), (Some("mine".into()), false, Some(1), None));
    script.publish(&own, 0).expect("sent");
    assert_eq!(script.only_publish(), (None, false, Some(1), None));
    script.machine.lost();
    script.connect(true, &[Property::TopicAliasMaximum(5)]);
    script.publish(&own, 0).expect("sent");
    assert_eq!(script.only_publish().0, Some("mine".into()), "a new connection knows no aliases");
}

#[test]
fn aliases_of_the_server_are_resolved_and_checked() {
    let mut script = Script::open(options().topic_alias_maximum(1), &[]);
    let alias = [Property::TopicAlias(NonZeroU16::MIN)];
    script.says(&message("a", Delivery::AtMostOnce, &alias)).expect("set");
    script.says(&message("", Delivery::AtMostOnce, &alias)).expect("used");
    script.says(&message("", Delivery::AtMostOnce, &alias)).expect("used again");
    assert!(script.seen.messages.iter().all(|(topic, _)| topic == "a"));
    assert_eq!(script.seen.messages.len(), 3);
    let high = [Property::TopicAlias(NonZeroU16::new(2).expect("not zero"))];
    script.says(&message("a", Delivery::AtMostOnce, &high)).expect_err("above the maximum");
    assert_eq!(script.disconnect_reason(), DisconnectReason::TopicAliasInvalid);
}

#[test]
fn acknowledgements_wait_for_earlier_ones() {
    let mut script = Script::open(options(), &[]);
    for number in 1..=3 {
        script.says(&message("a", Delivery::AtLeastOnce { packet_id: id(number), dup: false }, &[])).expect("taken");
    }
    let tokens = std::mem::take(&mut script.seen.tokens);
    script.machine.acknowledge(tokens[2], PubAckReason::Success);
    script.machine.acknowledge(tokens[1], PubAckReason::QuotaExceeded);
    assert!(script.sent().is_empty());
    script.machine.acknowledge(tokens[0], PubAckReason::Success);
    let acks: Vec<_> = script
        .sent()
        .iter()
        .map(|packet| match packet.as_packet() {
            Packet::PubAck(ack) => (ack.packet_id.get(), ack.reason),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(acks, [(1, PubAckReason::Success), (2, PubAckReason::QuotaExceeded), (3, PubAckReason::Success)]);
    script.machine.acknowledge(tokens[0], PubAckReason::Success);
    assert!(script.sent().is_empty(), "a second time does nothing");
}

#[test]
fn a_message_being_handled_is_not_delivered_again_on_reconnect() {
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let delivery = |dup| match qos {
            QoS::AtLeastOnce => Delivery::AtLeastOnce { packet_id: id(1), dup },
            _ => Delivery::ExactlyOnce { packet_id: id(1), dup },
        };
        let mut script = Script::open(options().persistent(Duration::from_secs(9)), &[]);
        script.says(&message("a", delivery(false), &[])).expect("taken");
        script.machine.lost();
        script.connect(true, &[]);
        script.says(&message("a", delivery(true), &[])).expect("taken");
        assert_eq!(script.seen.messages.len(), 1);
        assert!(script.sent().is_empty(), "not before the application has dealt with it");
        script.machine.acknowledge(script.seen.tokens[0], PubAckReason::Success);
        assert_eq!(script.sent().len(), 1);
    }
}

#[test]
fn a_message_resent_on_the_same_connection_is_delivered_once() {
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let delivery = |dup| match qos {
            QoS::AtLeastOnce => Delivery::AtLeastOnce { packet_id: id(1), dup },
            _ => Delivery::ExactlyOnce { packet_id: id(1), dup },
        };
        let mut script = Script::open(options(), &[]);
        script.says(&message("a", delivery(false), &[])).expect("taken");
        script.says(&message("a", delivery(true), &[])).expect("impatient");
        assert_eq!(script.seen.messages.len(), 1);
        script.machine.acknowledge(script.seen.tokens[0], PubAckReason::Success);
        assert_eq!(script.sent().len(), 1);
    }
}

#[test]
fn acknowledgements_of_a_lost_session_are_dropped() {
    let mut script = Script::open(options().persistent(Duration::from_secs(9)), &[]);
    script.says(&message("a", Delivery::AtLeastOnce { packet_id: id(1), dup: false }, &[])).expect("taken");
    script.machine.lost();
    script.connect(false, &[]);
    script.says(&message("b", Delivery::AtLeastOnce { packet_id: id(1), dup: false }, &[])).expect("another one");
    script.machine.acknowledge(script.seen.tokens[0], PubAckReason::Success);
    assert!(script.sent().is_empty(), "the token of the old session must not acknowledge the new message");
}

#[test]
fn more_messages_than_receive_maximum_end_the_connection() {
    let mut script = Script::open(options().receive_maximum(NonZeroU16::MIN), &[]);
    script.says(&message("a", Delivery::AtLeastOnce { packet_id: id(1), dup: false }, &[])).expect("taken");
    script.says(&message("a", Delivery::AtLeastOnce { packet_id: id(2), dup: false }, &[])).expect_err("too many");
    assert_eq!(script.disconnect_reason(), DisconnectReason::ReceiveMaximumExceeded);
}

#[test]
fn a_lost_session_is_resubscribed_and_refusals_are_reported() {
    let mut script = Script::open(options(), &[]);
    let granted = [SubscribeReason::GrantedQoS0];
    let suback = |packet_id, reasons| {
        Packet::SubAck(SubAck {
            packet_id,
            properties: Properties::EMPTY,
            reasons: tautwire_protocol::List::from_slice(reasons),
        })
    };
    script.machine.subscribe(&Subscribe::to("a/b"), 0, &mut script.seen).expect("sent");
    let packet_id = subscribe_id(&script.sent());
    script.says(&suback(packet_id, &granted)).expect("due");
    script.machine.lost();
    script.connect(false, &[]);
    let packet_id = subscribe_id(&script.sent());
    script.says(&suback(packet_id, &[SubscribeReason::NotAuthorized])).expect("due");
    assert_eq!(script.seen.lost, ["a/b"]);
    assert_eq!(script.seen.subscribed.len(), 1);
}

fn subscribe_id(sent: &[OwnedPacket]) -> PacketId {
    match sent.first().map(OwnedPacket::as_packet) {
        Some(Packet::Subscribe(subscribe)) => subscribe.packet_id,
        other => panic!("no SUBSCRIBE: {other:?}"),
    }
}

#[test]
fn an_idle_connection_sends_a_ping_and_times_out() {
    let mut script = Script::open(options().keep_alive(Duration::from_secs(10)), &[]);
    assert_eq!(script.machine.deadline_ms(), Some(9000));
    script.machine.on_time(9000, true).expect("no harm yet");
    assert!(matches!(script.sent()[..], [ref ping] if matches!(ping.as_packet(), Packet::PingReq)));
    assert_eq!(script.machine.deadline_ms(), Some(19_000));
    script.machine.on_time(18_999, true).expect("not yet");
    script.machine.on_time(19_000, false).expect("nothing is read, so silence says nothing");
    assert!(matches!(script.machine.on_time(29_000, true), Err(Error::KeepAliveTimeout)));
}

#[test]
fn the_servers_keep_alive_applies_and_zero_disables_it() {
    let script = Script::open(options(), &[Property::ServerKeepAlive(100)]);
    assert_eq!(script.machine.deadline_ms(), Some(90_000));
    let script = Script::open(options().keep_alive(Duration::from_secs(0)), &[]);
    assert_eq!(script.machine.deadline_ms(), None);
}

#[test]
fn a_missing_connack_times_out() {
    let mut script = Script::new(options(), ProtocolVersion::V5);
    script.machine.opened(5).expect("CONNECT can be written");
    assert_eq!(script.machine.deadline_ms(), Some(20_005));
    let error = script.machine.on_time(20_005, true).expect_err("it is late");
    assert_eq!(error.code(), "connect_timeout");
    assert!(error.to_string().contains("(server:1883: timed out waiting for CONNACK)"), "{error}");
}

#[test]
fn invalid_packets_of_a_server_end_the_connection_with_a_reason() {
    let publish = Publication::new("t", "x").qos(QoS::ExactlyOnce);
    let wrong: [(&str, Packet<'_>); 5] = [
        ("PINGREQ", Packet::PingReq),
        ("a second CONNACK", Packet::ConnAck(ConnAck::refusal(ConnectReason::ServerBusy))),
        ("PUBACK for QoS 2", Packet::PubAck(PubAck::success(id(1)))),
        ("AUTH", Packet::Auth(Auth { reason: AuthReason::Success, properties: Properties::EMPTY })),
        (
            "SUBACK for nothing",
            Packet::SubAck(SubAck {
                packet_id: id(7),
                properties: Properties::EMPTY,
                reasons: tautwire_protocol::List::from_slice(&[SubscribeReason::GrantedQoS0]),
            }),
        ),
    ];
    for (what, packet) in wrong {
        let mut script = Script::open(options(), &[]);
        script.publish(&publish, 1).expect("sent");
        assert!(script.says(&packet).is_err(), "{what}");
        assert_eq!(script.disconnect_reason(), DisconnectReason::ProtocolError, "{what}");
    }
    let mut script = Script::open(options(), &[]);
    script.machine.receive(&[0x36, 0], 0, &mut script.seen).expect_err("QoS 3");
    assert_eq!(script.disconnect_reason(), DisconnectReason::MalformedPacket);
}

#[test]
fn a_refused_qos_2_message_is_reported_and_frees_its_identifier() {
    let mut script = Script::open(options(), &[]);
    script.publish(&Publication::new("t", "x").qos(QoS::ExactlyOnce), 1).expect("sent");
    script.sent();
    let properties = [Property::ReasonString("full")];
    script
        .says(&Packet::PubRec(PubRec {
            packet_id: id(1),
            reason: tautwire_protocol::PubRecReason::QuotaExceeded,
            properties: Properties::from_list(&properties),
        }))
        .expect("due");
    let [(1, Err(error))] = &script.seen.published[..] else { panic!("{:?}", script.seen.published) };
    assert_eq!(
        error.to_string(),
        "the server refused the message: the reason code says why (Quota exceeded (0x97): full) [publish_refused]"
    );
    assert!(script.machine.is_settled());
}

#[test]
fn the_servers_disconnect_determines_whether_to_reconnect() {
    for (reason, permanent) in
        // A banned client gets the reason in the next CONNACK.
        [
            (DisconnectReason::SessionTakenOver, true),
            (DisconnectReason::ServerShuttingDown, false),
            (DisconnectReason::AdministrativeAction, false),
        ]
    {
        let mut script = Script::open(options(), &[]);
        let error = script.says(&Packet::Disconnect(Disconnect::new(reason))).expect_err("over");
        assert_eq!(error.is_permanent(), permanent, "{error}");
    }
}

#[test]
fn no_packet_follows_our_disconnect() {
    let mut script = Script::open(options(), &[]);
    script.machine.disconnect(DisconnectReason::NormalDisconnection, Properties::EMPTY).expect("valid");
    script.publish(&Publication::new("t", "x"), 1).expect("waits");
    script.says(&Packet::PubAck(PubAck::success(id(1)))).expect("too late to matter");
    let sent = script.sent();
    assert!(matches!(sent[..], [ref last] if matches!(last.as_packet(), Packet::Disconnect(_))), "{sent:?}");
}

#[test]
fn before_5_0_its_features_are_refused() {
    let mut script = Script::new(options(), ProtocolVersion::V3_1_1);
    assert!(script.publish(&Publication::new("t", "x").content_type("y"), 1).is_err());
    assert!(script.publish(&Publication::new("t", "x").expiry(Duration::from_secs(1)), 1).is_err());
    let no_local = Subscribe::to("a").no_local();
    assert!(script.machine.subscribe(&no_local, 0, &mut script.seen).is_err());
}

#[test]
fn properties_are_encoded_unchanged() {
    let mut script = Script::open(options(), &[]);
    let given = [Property::UserProperty("a", "1"), Property::UserProperty("a", "2"), Property::ContentType("c")];
    let publication =
        given.iter().fold(Publication::new("t", "x"), |publication, property| publication.property(*property));
    script.publish(&publication, 0).expect("sent");
    let sent = script.sent();
    let Packet::Publish(publish) = sent[0].as_packet() else { panic!("{sent:?}") };
    assert_eq!(publish.properties.iter().collect::<Vec<_>>(), given);
    let twice = publication.content_type("d");
    assert_eq!(script.publish(&twice, 0).expect_err("twice").code(), "invalid_argument");
    let misplaced = Publication::new("t", "x").property(Property::ServerKeepAlive(1));
    assert_eq!(script.publish(&misplaced, 0).expect_err("misplaced").code(), "invalid_argument");
}
