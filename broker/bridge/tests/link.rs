//! A link between two peers that the test plays: what each of them receives.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::sync::Arc;

use tautwire_bridge::{
    Direction, HOPS_PROPERTY, Link, LinkError, LinkSettings, LinkState, Rule, Rules, Side, StatusTopics,
};
use tautwire_protocol::{
    ConnAck, ConnectReason, DecodeOptions, Delivery, Disconnect, DisconnectReason, Packet, PacketId, Properties,
    Property, ProtocolVersion, PubAck, PubAckReason, PubComp, PubRec, PubRel, Publish, QoS, ReasonCode, RetainHandling,
    SubAck, SubscribeReason, TopicName, decode,
};

const NOW_MS: u64 = 1_000;

fn rule(filter: &str, direction: Direction, remote_prefix: &str) -> Rule {
    Rule {
        filter: filter.into(),
        direction,
        qos: QoS::ExactlyOnce,
        local_prefix: String::new(),
        remote_prefix: remote_prefix.into(),
        keeps_retain: true,
        rate_per_s: None,
    }
}

fn settings() -> LinkSettings {
    LinkSettings {
        rules: Rules::new(vec![rule("a/#", Direction::Both, "site/")]).unwrap(),
        ..LinkSettings::new("hq", "me")
    }
}

fn id(value: u16) -> PacketId {
    PacketId::new(value).unwrap()
}

/// The packets of a buffer, as text and bytes.
fn packets(bytes: &[u8], version: ProtocolVersion) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (_, length) = decode(rest, &DecodeOptions::new(version)).expect("a valid packet");
        found.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    found
}

struct Scene {
    link: Link,
    remote_version: ProtocolVersion,
    now_ms: u64,
}

impl Scene {
    fn new(settings: LinkSettings) -> Scene {
        let remote_version = settings.version;
        Scene { link: Link::new(Arc::new(settings), false, NOW_MS), remote_version, now_ms: NOW_MS }
    }

    /// A scene in which both brokers have accepted the connection.
    fn connected(settings: LinkSettings) -> Scene {
        Scene::connected_with(settings, (false, &[]), false)
    }

    fn connected_with(settings: LinkSettings, remote: (bool, &[Property<'_>]), local_session: bool) -> Scene {
        let mut scene = Scene::new(settings);
        scene.sent(Side::Remote);
        scene.accept(Side::Remote, remote.0, remote.1).expect("accepted");
        assert_eq!(scene.link.state(), LinkState::NeedsLocal);
        scene.link.begin_local(scene.now_ms);
        scene.sent(Side::Local);
        scene.accept(Side::Local, local_session, &[]).expect("accepted");
        assert_eq!(scene.link.state(), LinkState::Connected);
        scene
    }

    fn version(&self, side: Side) -> ProtocolVersion {
        if side == Side::Remote { self.remote_version } else { ProtocolVersion::V5 }
    }

    fn accept(&mut self, side: Side, session_present: bool, properties: &[Property<'_>]) -> Result<(), LinkError> {
        self.receive(
            side,
            ConnAck { session_present, reason: ConnectReason::Success, properties: Properties::from_list(properties) }
                .into(),
        )
    }

    /// The link receives a packet.
    fn receive(&mut self, side: Side, packet: Packet<'_>) -> Result<(), LinkError> {
        let mut bytes = Vec::new();
        packet.append_to(self.version(side), &mut bytes).expect("a valid packet");
        self.link.handle_input(side, &bytes, self.now_ms)
    }

    /// What the link has sent to a side since the last call.
    fn sent(&mut self, side: Side) -> Vec<Vec<u8>> {
        let bytes = self.link.take_output(side, Vec::new(), self.now_ms);
        packets(&bytes, self.version(side))
    }

    /// The only packet that the link has sent to a side.
    fn sent_one(&mut self, side: Side) -> Vec<u8> {
        let mut sent = self.sent(side);
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    /// Ignores what the link has sent so far.
    fn drain(&mut self) {
        self.sent(Side::Local);
        self.sent(Side::Remote);
    }

    fn nothing_sent(&mut self) {
        for side in [Side::Local, Side::Remote] {
            assert_eq!(self.sent(side), Vec::<Vec<u8>>::new(), "to {side}");
        }
    }
}

fn encoded(packet: impl Into<Packet<'static>>, version: ProtocolVersion) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.into().append_to(version, &mut bytes).expect("a valid packet");
    bytes
}

fn message<'a>(topic: &'a str, delivery: Delivery, properties: &'a [Property<'a>]) -> Publish<'a> {
    Publish {
        delivery,
        retain: true,
        topic: Some(TopicName::new(topic).unwrap()),
        properties: Properties::from_list(properties),
        payload: b"21",
    }
}

fn decoded(bytes: &[u8], version: ProtocolVersion) -> Packet<'_> {
    decode(bytes, &DecodeOptions::new(version)).expect("a packet").0
}

fn at_least_once(packet_id: u16) -> Delivery {
    Delivery::AtLeastOnce { packet_id: id(packet_id), dup: false }
}

fn exactly_once(packet_id: u16) -> Delivery {
    Delivery::ExactlyOnce { packet_id: id(packet_id), dup: false }
}

#[test]
fn the_local_session_gets_the_limits_of_the_remote_broker() {
    let mut scene = Scene::new(settings());
    let connect = scene.sent_one(Side::Remote);
    let Packet::Connect(connect) = decoded(&connect, ProtocolVersion::V5) else { panic!("CONNECT") };
    assert_eq!((connect.client_id, connect.clean_start, connect.keep_alive_s), ("tautwire-me-hq", false, 60));
    assert_eq!(connect.properties.session_expiry_interval(), Some(u32::MAX));
    assert!(!scene.link.wants_input(Side::Local));

    let limits =
        [Property::ReceiveMaximum(NonZeroU16::new(7).unwrap()), Property::MaximumPacketSize(5000.try_into().unwrap())];
    scene.accept(Side::Remote, false, &limits).expect("accepted");
    assert!(!scene.link.wants_input(Side::Remote), "messages wait for the local session");
    scene.link.begin_local(NOW_MS);
    let connect = scene.sent_one(Side::Local);
    let Packet::Connect(connect) = decoded(&connect, ProtocolVersion::V5) else { panic!("CONNECT") };
    assert_eq!((connect.client_id, connect.clean_start, connect.keep_alive_s), ("bridge/hq", false, 0));
    assert_eq!(connect.properties.receive_maximum().map(NonZeroU16::get), Some(7));
    assert!(connect.properties.maximum_packet_size().unwrap().get() < 5000);
}

#[test]
fn a_rule_subscribes_at_both_brokers() {
    let mut scene = Scene::connected(settings());
    for (side, filter) in [(Side::Remote, "site/a/#"), (Side::Local, "a/#")] {
        let subscribe = scene.sent_one(side);
        let Packet::Subscribe(subscribe) = decoded(&subscribe, ProtocolVersion::V5) else { panic!("SUBSCRIBE") };
        let request = subscribe.requests.iter().next().unwrap();
        assert_eq!(request.filter.as_str(), filter);
        let options = request.options;
        assert!(
            options.no_local && options.retain_as_published && options.retain_handling == RetainHandling::SendIfNew
        );
        assert_eq!(subscribe.properties.subscription_identifier().is_some(), side == Side::Local);
        assert!(!scene.link.is_subscribed());
        let reasons = [SubscribeReason::NotAuthorized];
        let ack =
            SubAck { packet_id: subscribe.packet_id, properties: Properties::EMPTY, reasons: (&reasons[..]).into() };
        scene.receive(side, ack.into()).expect("allowed");
        assert_eq!(scene.link.refused_rules(), [Some((side, ReasonCode::NotAuthorized))]);
    }
    assert!(scene.link.is_subscribed(), "both brokers have answered");
}

#[test]
fn an_outbound_exchange_of_qos_2_keeps_its_packet_identifier() {
    let mut scene = Scene::connected(settings());
    scene.drain();
    let properties = [
        Property::MessageExpiryInterval(9),
        Property::UserProperty("k", "v"),
        Property::SubscriptionIdentifier(tautwire_protocol::SubscriptionId::new(3).unwrap()),
    ];
    scene.receive(Side::Local, message("a/b", exactly_once(9), &properties).into()).expect("forwarded");
    let sent = scene.sent_one(Side::Remote);
    let Packet::Publish(publish) = decoded(&sent, ProtocolVersion::V5) else { panic!("PUBLISH") };
    assert_eq!(
        (publish.topic.unwrap().as_str(), publish.delivery, publish.retain, publish.payload),
        ("site/a/b", exactly_once(9), true, &b"21"[..])
    );
    assert_eq!(publish.properties.message_expiry_interval(), Some(9));
    assert_eq!(publish.properties.subscription_identifier(), None);
    assert_eq!(publish.properties.user_properties().collect::<Vec<_>>(), [("k", "v"), (HOPS_PROPERTY, "me")]);

    let steps: [(Side, Packet<'static>); 3] = [
        (Side::Remote, PubRec::success(id(9)).into()),
        (Side::Local, PubRel::success(id(9)).into()),
        (Side::Remote, PubComp::success(id(9)).into()),
    ];
    for (from, packet) in steps {
        scene.receive(from, packet).expect("forwarded");
        let to = if from == Side::Remote { Side::Local } else { Side::Remote };
        assert_eq!(scene.sent_one(to), encoded(packet, ProtocolVersion::V5));
    }
    scene.nothing_sent();
}

#[test]
fn an_inbound_message_reaches_this_broker_and_its_refusal_the_remote_one() {
    let mut scene = Scene::connected(settings());
    scene.drain();
    scene.receive(Side::Remote, message("site/a/b", at_least_once(4), &[]).into()).expect("forwarded");
    let sent = scene.sent_one(Side::Local);
    let Packet::Publish(publish) = decoded(&sent, ProtocolVersion::V5) else { panic!("PUBLISH") };
    assert_eq!((publish.topic.unwrap().as_str(), publish.delivery), ("a/b", at_least_once(4)));
    let refusal = PubAck::new(id(4), PubAckReason::PayloadFormatInvalid);
    scene.receive(Side::Local, refusal.into()).expect("forwarded");
    assert_eq!(scene.sent_one(Side::Remote), encoded(refusal, ProtocolVersion::V5));
    assert_eq!(scene.link.counters().refused_in, 1);
}

#[test]
fn packets_in_pieces_are_the_same_packets() {
    let mut whole = Vec::new();
    for number in 1..=20 {
        Packet::from(message("a/b", at_least_once(number), &[]))
            .append_to(ProtocolVersion::V5, &mut whole)
            .expect("a packet");
    }
    let received_by = |pieces: usize| {
        let mut scene = Scene::connected(settings());
        scene.drain();
        whole.chunks(pieces).for_each(|piece| scene.link.handle_input(Side::Local, piece, NOW_MS).expect("forwarded"));
        scene.sent(Side::Remote)
    };
    let expected = received_by(whole.len());
    assert_eq!(expected.len(), 20);
    assert!((1..40).all(|pieces| received_by(pieces) == expected));
}

#[test]
fn a_message_that_has_passed_this_broker_is_acknowledged_and_dropped() {
    let mut scene = Scene::connected(settings());
    scene.drain();
    let hops = [Property::UserProperty(HOPS_PROPERTY, "x,me,y")];
    scene.receive(Side::Remote, message("site/a/b", at_least_once(4), &hops).into()).expect("dropped");
    assert_eq!(scene.sent_one(Side::Remote), encoded(PubAck::success(id(4)), ProtocolVersion::V5));
    scene.nothing_sent();
    assert_eq!(scene.link.counters().looped, 1);
    // A message that has left this broker does not leave again.
    scene
        .receive(Side::Local, message("a/b", at_least_once(3), &[Property::UserProperty(HOPS_PROPERTY, "me,x")]).into())
        .expect("dropped");
    assert_eq!(scene.sent_one(Side::Local), encoded(PubAck::success(id(3)), ProtocolVersion::V5));
    assert_eq!(scene.link.counters().looped, 2);
    // The hops of a message that comes from elsewhere grow when it leaves, and when it enters.
    scene
        .receive(Side::Local, message("a/b", at_least_once(1), &[Property::UserProperty(HOPS_PROPERTY, "x,y")]).into())
        .expect("forwarded");
    let sent = scene.sent_one(Side::Remote);
    let Packet::Publish(publish) = decoded(&sent, ProtocolVersion::V5) else { panic!("PUBLISH") };
    assert_eq!(publish.properties.user_properties().collect::<Vec<_>>(), [(HOPS_PROPERTY, "x,y,me")]);
    scene.receive(Side::Remote, message("site/a/b", at_least_once(5), &[]).into()).expect("forwarded");
    let sent = scene.sent_one(Side::Local);
    let Packet::Publish(publish) = decoded(&sent, ProtocolVersion::V5) else { panic!("PUBLISH") };
    assert_eq!(publish.properties.user_properties().collect::<Vec<_>>(), [(HOPS_PROPERTY, "<me")]);
}

#[test]
fn a_message_without_a_rule_is_acknowledged_and_dropped() {
    let mut scene = Scene::connected(settings());
    scene.drain();
    scene.receive(Side::Local, message("other", at_least_once(1), &[]).into()).expect("dropped");
    assert_eq!(scene.sent_one(Side::Local), encoded(PubAck::success(id(1)), ProtocolVersion::V5));
    scene.receive(Side::Remote, message("other", exactly_once(2), &[]).into()).expect("dropped");
    assert_eq!(scene.sent_one(Side::Remote), encoded(PubRec::success(id(2)), ProtocolVersion::V5));
    scene.nothing_sent();
    assert_eq!(scene.link.counters().unmatched, 2);
}

#[test]
fn qos_2_is_lowered_for_a_broker_with_maximum_qos_1() {
    let mut scene = Scene::connected_with(settings(), (false, &[Property::MaximumQoS(QoS::AtLeastOnce)]), false);
    scene.drain();
    scene.receive(Side::Local, message("a/b", exactly_once(5), &[]).into()).expect("forwarded");
    let sent = scene.sent_one(Side::Remote);
    let Packet::Publish(publish) = decoded(&sent, ProtocolVersion::V5) else { panic!("PUBLISH") };
    assert_eq!(publish.delivery, at_least_once(5));
    scene.receive(Side::Remote, PubAck::success(id(5)).into()).expect("forwarded");
    assert_eq!(scene.sent_one(Side::Local), encoded(PubRec::success(id(5)), ProtocolVersion::V5));
    scene.receive(Side::Local, PubRel::success(id(5)).into()).expect("answered");
    assert_eq!(scene.sent_one(Side::Local), encoded(PubComp::success(id(5)), ProtocolVersion::V5));
    scene.nothing_sent();
}

#[test]
fn a_3_1_1_broker_gets_no_properties_and_no_reason_codes() {
    let mut scene =
        Scene::connected(LinkSettings { version: ProtocolVersion::V3_1_1, bridge_bit: false, ..settings() });
    let subscribe = scene.sent_one(Side::Remote);
    let Packet::Subscribe(subscribe) = decoded(&subscribe, ProtocolVersion::V3_1_1) else { panic!("SUBSCRIBE") };
    assert!(!subscribe.requests.iter().next().unwrap().options.no_local);
    scene.sent(Side::Local);
    scene
        .receive(Side::Local, message("a/b", at_least_once(1), &[Property::ContentType("text")]).into())
        .expect("forwarded");
    let sent = scene.sent_one(Side::Remote);
    let Packet::Publish(publish) = decoded(&sent, ProtocolVersion::V3_1_1) else { panic!("PUBLISH") };
    assert_eq!((publish.topic.unwrap().as_str(), publish.payload), ("site/a/b", &b"21"[..]));
    scene.receive(Side::Remote, message("site/a/b", at_least_once(3), &[]).into()).expect("forwarded");
    scene.sent(Side::Local);
    scene.receive(Side::Local, PubAck::new(id(3), PubAckReason::NotAuthorized).into()).expect("forwarded");
    assert_eq!(scene.sent_one(Side::Remote), [0x40, 2, 0, 3]);
}

#[test]
fn a_session_that_only_the_remote_broker_has_must_be_discarded() {
    let mut scene = Scene::new(settings());
    scene.accept(Side::Remote, true, &[]).expect("accepted");
    scene.link.begin_local(NOW_MS);
    assert_eq!(scene.accept(Side::Local, false, &[]), Err(LinkError::SessionLost));
    let mut next = Link::new(Arc::new(settings()), true, NOW_MS);
    let bytes = next.take_output(Side::Remote, Vec::new(), NOW_MS);
    let Packet::Connect(connect) = decoded(&bytes, ProtocolVersion::V5) else { panic!("CONNECT") };
    assert!(connect.clean_start);
}

#[test]
fn received_identifiers_are_released_if_the_remote_broker_has_lost_its_session() {
    let mut scene = Scene::connected_with(settings(), (false, &[]), true);
    let sent = scene.sent(Side::Local);
    let releases: Vec<_> = sent
        .iter()
        .filter_map(|packet| match decoded(packet, ProtocolVersion::V5) {
            Packet::PubRel(release) => Some(release.packet_id.get()),
            _ => None,
        })
        .collect();
    assert_eq!(releases, (1..=u16::MAX).collect::<Vec<_>>());
    scene.sent(Side::Remote);
    for value in 1..=u16::MAX {
        let unknown = PubComp::new(id(value), tautwire_protocol::PubCompReason::PacketIdentifierNotFound);
        scene.receive(Side::Local, unknown.into()).expect("consumed");
    }
    scene.nothing_sent();
    // From then on a PUBCOMP is of an exchange with the remote broker.
    scene.receive(Side::Local, PubComp::success(id(1)).into()).expect("forwarded");
    assert_eq!(scene.sent_one(Side::Remote), encoded(PubComp::success(id(1)), ProtocolVersion::V5));
}

#[test]
fn a_broker_that_refuses_or_disconnects_ends_the_link() {
    let mut scene = Scene::new(settings());
    let refusal = ConnAck {
        session_present: false,
        reason: ConnectReason::NotAuthorized,
        properties: Properties::from_list(&[Property::ReasonString("no")]),
    };
    let error = scene.receive(Side::Remote, refusal.into()).expect_err("refused");
    assert_eq!(error.to_string(), "the remote broker refused the connection: Not authorized (0x87): no");
    let mut scene = Scene::connected(settings());
    let error =
        scene.receive(Side::Local, Disconnect::new(DisconnectReason::QuotaExceeded).into()).expect_err("disconnected");
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("disconnected", "this broker disconnected the bridge: Quota exceeded (0x97)")
    );
    let mut scene = Scene::connected(settings());
    let error = scene.receive(Side::Remote, Packet::PingReq).expect_err("a server does not send PINGREQ");
    assert_eq!(error, LinkError::Unexpected(Side::Remote, "PINGREQ"));
    let mut scene = Scene::connected(settings());
    assert_eq!(
        scene.link.handle_input(Side::Remote, &[0xF0, 0xFF, 0xFF, 0xFF, 0xFF], NOW_MS).map_err(|error| error.code()),
        Err("invalid_packet")
    );
}

#[test]
fn a_remote_broker_that_is_silent_is_tested_and_given_up() {
    let mut scene = Scene::connected(settings());
    scene.drain();
    // What is sent keeps the connection alive for the remote broker only.
    scene.now_ms += 40_000;
    scene.receive(Side::Local, message("a/b", Delivery::AtMostOnce, &[]).into()).expect("forwarded");
    scene.sent(Side::Remote);
    assert_eq!(scene.link.next_timeout_ms(), Some(NOW_MS + 45_000));
    scene.now_ms = NOW_MS + 45_000;
    scene.link.handle_timeout(scene.now_ms).expect("a test");
    assert_eq!(scene.sent_one(Side::Remote), [0xC0, 0]);
    assert_eq!(scene.link.next_timeout_ms(), Some(NOW_MS + 55_000));
    scene.receive(Side::Remote, Packet::PingResp).expect("an answer");
    assert_eq!(scene.link.next_timeout_ms(), Some(NOW_MS + 90_000));
    scene.link.handle_timeout(NOW_MS + 90_000).expect("a test");
    assert_eq!(scene.link.handle_timeout(NOW_MS + 100_000), Err(LinkError::Timeout(Side::Remote, "PINGRESP")));
}

#[test]
fn an_answer_that_is_late_on_a_slow_connection_or_cannot_be_read_ends_nothing() {
    let rules = Rules::new(vec![Rule { rate_per_s: Some(1), ..rule("a/#", Direction::Both, "") }]).unwrap();
    let mut scene = Scene::connected(LinkSettings { rules, ..settings() });
    scene.drain();
    let ping_ms = NOW_MS + 45_000;
    scene.link.handle_timeout(ping_ms).expect("a test");
    assert_eq!(scene.sent_one(Side::Remote), [0xC0, 0]);
    // Bytes arrive before the answer.
    scene.now_ms = ping_ms + 9_000;
    scene.receive(Side::Remote, message("a/b", Delivery::AtMostOnce, &[]).into()).expect("forwarded");
    scene.link.handle_timeout(ping_ms + 10_000).expect("there is more time");
    // The rate does not allow more now, so the link does not read.
    scene.now_ms = ping_ms + 18_900;
    scene.receive(Side::Remote, message("a/b", Delivery::AtMostOnce, &[]).into()).expect("forwarded");
    scene.receive(Side::Remote, message("a/b", Delivery::AtMostOnce, &[]).into()).expect("paused");
    assert!(!scene.link.wants_input(Side::Remote));
    scene.link.handle_timeout(ping_ms + 19_000).expect("paused");
    // The broker must hear from the link all the same.
    let due_ms = ping_ms + 45_000 + 9_000;
    scene.link.handle_timeout(ping_ms + 19_901).expect("forwarded");
    assert!(scene.link.next_timeout_ms().unwrap() <= due_ms);
    assert_eq!(scene.link.handle_timeout(ping_ms + 29_901), Err(LinkError::Timeout(Side::Remote, "PINGRESP")));
}

#[test]
fn two_brokers_that_wait_for_their_output_to_be_read_do_not_wait_for_each_other() {
    let mut scene = Scene::connected(settings());
    scene.drain();
    let payload = vec![0; 100_000];
    for number in 1..=3 {
        for (side, topic) in [(Side::Local, "a/b"), (Side::Remote, "site/a/b")] {
            let message = Publish { payload: &payload, ..message(topic, at_least_once(number), &[]) };
            scene.receive(side, message.into()).expect("processed");
        }
    }
    assert!(!scene.link.wants_input(Side::Remote) && scene.link.wants_input(Side::Local));
    // The local broker reads its input again, because its output has been read.
    assert_eq!(scene.sent(Side::Local).len(), 3);
    assert!(scene.link.wants_input(Side::Remote) && !scene.link.wants_input(Side::Local));
}

#[test]
fn a_message_that_is_too_large_for_this_broker_is_acknowledged_and_dropped() {
    for version in [ProtocolVersion::V5, ProtocolVersion::V3_1_1] {
        let mut limited = settings();
        (limited.version, limited.bridge_bit) = (version, false);
        limited.local.packet_max_bytes = 1_000;
        let mut scene = Scene::connected(limited);
        scene.drain();
        // The hops make it too large. A broker that speaks 3.1.1 does not know the limit at all.
        let payload = vec![0; if version.is_v5() { 980 } else { 2_000 }];
        let large = Publish { payload: &payload, ..message("site/a/b", at_least_once(1), &[]) };
        scene.receive(Side::Remote, large.into()).expect("dropped");
        assert_eq!(scene.sent_one(Side::Remote), encoded(PubAck::success(id(1)), version));
        scene.nothing_sent();
        assert_eq!(scene.link.counters().unmappable, 1);
    }
}

#[test]
fn a_rate_pauses_its_direction_and_loses_nothing() {
    let rules = Rules::new(vec![Rule { rate_per_s: Some(2), ..rule("a/#", Direction::Out, "") }]).unwrap();
    let mut scene = Scene::connected(LinkSettings { rules, ..settings() });
    scene.drain();
    for number in 1..=3 {
        scene.receive(Side::Local, message("a/b", at_least_once(number), &[]).into()).expect("processed");
    }
    assert_eq!(scene.sent(Side::Remote).len(), 2);
    assert!(!scene.link.wants_input(Side::Local) && scene.link.wants_input(Side::Remote));
    let until_ms = scene.link.next_timeout_ms().unwrap();
    assert_eq!(until_ms, NOW_MS + 500);
    scene.link.handle_timeout(until_ms).expect("processed");
    let sent = scene.sent_one(Side::Remote);
    let Packet::Publish(publish) = decoded(&sent, ProtocolVersion::V5) else { panic!("PUBLISH") };
    assert_eq!(publish.delivery, at_least_once(3));
    assert!(scene.link.wants_input(Side::Local));
}

#[test]
fn a_slow_side_stops_the_other_one() {
    let mut scene = Scene::connected(settings());
    scene.drain();
    let payload = vec![0; 100_000];
    for number in 1..=4 {
        let message = Publish { payload: &payload, ..message("a/b", at_least_once(number), &[]) };
        scene.receive(Side::Local, message.into()).expect("processed");
    }
    assert!(!scene.link.wants_input(Side::Local), "the output is full");
    assert_eq!(scene.sent(Side::Remote).len(), 3);
    scene.link.resume(NOW_MS).expect("processed");
    assert_eq!(scene.sent(Side::Remote).len(), 1);
    assert!(scene.link.wants_input(Side::Local));
}

#[test]
fn the_status_is_published_at_both_brokers_and_is_their_will() {
    let status = StatusTopics { local: Some("bridges/hq".into()), remote: Some("bridges/me".into()) };
    let mut scene = Scene::new(LinkSettings { status, ..settings() });
    let connect = scene.sent_one(Side::Remote);
    let Packet::Connect(connect) = decoded(&connect, ProtocolVersion::V5) else { panic!("CONNECT") };
    let will = connect.will.unwrap();
    assert_eq!((will.topic.as_str(), will.payload, will.retain), ("bridges/me", &b"0"[..], true));
    scene.accept(Side::Remote, false, &[]).expect("accepted");
    scene.link.begin_local(NOW_MS);
    scene.accept(Side::Local, false, &[]).expect("accepted");
    let published = |scene: &mut Scene, side| {
        scene
            .sent(side)
            .iter()
            .filter_map(|packet| match decoded(packet, ProtocolVersion::V5) {
                Packet::Publish(publish) => {
                    Some((publish.topic.unwrap().as_str().to_owned(), publish.payload.to_vec(), publish.retain))
                }
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(published(&mut scene, Side::Remote), [("bridges/me".to_owned(), b"1".to_vec(), true)]);
    assert_eq!(published(&mut scene, Side::Local), [("bridges/hq".to_owned(), b"1".to_vec(), true)]);
    scene.link.close(NOW_MS);
    assert_eq!(published(&mut scene, Side::Local), [("bridges/hq".to_owned(), b"0".to_vec(), true)]);
    assert!(scene.sent(Side::Remote).last().unwrap().starts_with(&[0xE0]), "DISCONNECT");
}
