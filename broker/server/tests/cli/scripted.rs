//! `tautwire pub` and `tautwire sub` against a broker that refuses, resends, stops responding or violates the protocol.

use std::num::NonZeroU16;

use tautwire_protocol::{
    ConnectReason, Delivery, Disconnect, DisconnectReason, List, Packet, PacketId, Properties, Property,
    ProtocolVersion, PubAck, PubAckReason, PubComp, PubCompReason, PubRec, PubRecReason, PubRel, PubRelReason, Publish,
    QoS, SubAck, SubscribeReason, TopicName,
};

use crate::process::Process;
use crate::scripted_broker::{Peer, ScriptedBroker};

fn start(command: &str, broker: &ScriptedBroker, arguments: &[&str]) -> Process {
    Process::start(&[&[command, "-h", "127.0.0.1", "-p", &broker.port()], arguments].concat())
}

fn id(value: u16) -> PacketId {
    PacketId::new(value).expect("not zero")
}

/// A QoS 1 message without properties.
fn message(packet_id: u16, topic: &'static str, payload: &'static str) -> Packet<'static> {
    Packet::Publish(Publish {
        delivery: Delivery::AtLeastOnce { packet_id: id(packet_id), dup: false },
        retain: false,
        topic: Some(TopicName::new(topic).expect("a topic")),
        properties: Properties::EMPTY,
        payload: payload.as_bytes(),
    })
}

/// Grants the next SUBSCRIBE.
fn grant(peer: &mut Peer) {
    let packet = peer.packet();
    let Packet::Subscribe(subscribe) = packet.as_packet() else { panic!("{packet:?}") };
    let reasons = vec![SubscribeReason::GrantedQoS2; subscribe.requests.len()];
    peer.send(&Packet::SubAck(SubAck {
        packet_id: subscribe.packet_id,
        properties: Properties::EMPTY,
        reasons: List::from(reasons.as_slice()),
    }));
}

#[track_caller]
fn expect_disconnect(peer: &mut Peer) {
    assert!(matches!(peer.packet().as_packet(), Packet::Disconnect(_)));
}

#[test]
fn a_refused_connection_exits_with_3_and_the_reason() {
    let broker = ScriptedBroker::start();
    let publisher = start("pub", &broker, &["a", "m"]);
    let mut peer = broker.accept(ProtocolVersion::V5);
    peer.connack(ConnectReason::NotAuthorized, &[Property::ReasonString("not on Sundays")]);
    let ended = publisher.end().expect(3);
    assert_eq!(
        ended.stderr,
        "tautwire: the server refused the connection: the reason code says why (Not authorized (0x87): not on Sundays) \
         [connection_refused]\n"
    );

    let subscriber = start("sub", &broker, &["-V", "3.1.1", "a"]);
    broker.accept(ProtocolVersion::V3_1_1).connack(ConnectReason::BadUserNameOrPassword, &[]);
    assert!(subscriber.end().expect(3).stderr.contains("Bad User Name or Password (0x86)"));
}

#[test]
fn control_characters_of_a_broker_do_not_reach_the_terminal() {
    let broker = ScriptedBroker::start();
    let publisher = start("pub", &broker, &["a", "m"]);
    let mut peer = broker.accept(ProtocolVersion::V5);
    peer.connack(ConnectReason::Banned, &[Property::ReasonString("\u{1b}[2Jgone\u{7}")]);
    let stderr = publisher.end().expect(3).stderr;
    assert!(stderr.contains("[2Jgone") && !stderr.contains('\u{1b}') && !stderr.contains('\u{7}'), "{stderr:?}");
}

#[test]
fn a_refused_message_exits_with_3_after_the_others_are_sent() {
    let broker = ScriptedBroker::start();
    let publisher = start("pub", &broker, &["-q", "1", "a", "m", "--repeat", "2"]);
    let mut peer = broker.accept_with_connack(&[Property::ReceiveMaximum(NonZeroU16::MIN)]);
    for (number, reason) in [(1, PubAckReason::QuotaExceeded), (2, PubAckReason::NoMatchingSubscribers)] {
        let packet = peer.packet();
        let Packet::Publish(publish) = packet.as_packet() else { panic!("{packet:?}") };
        let packet_id = publish.delivery.packet_id().expect("QoS 1");
        assert_eq!(packet_id, id(number), "the second waits for the first: Receive Maximum is 1");
        let text = [Property::ReasonString("full")];
        peer.send(&Packet::PubAck(PubAck { packet_id, reason, properties: Properties::from_list(&text) }));
    }
    expect_disconnect(&mut peer);
    drop(peer);
    assert_eq!(publisher.end().expect(3).stderr, "tautwire: message 1 is refused: Quota exceeded (0x97): full\n");
}

#[test]
fn messages_in_flight_are_limited_to_the_brokers_receive_maximum() {
    let broker = ScriptedBroker::start();
    let publisher = start("pub", &broker, &["-q", "1", "a", "m", "--repeat", "2"]);
    let mut peer =
        broker.accept_with_connack(&[Property::ReceiveMaximum(NonZeroU16::MIN), Property::ServerKeepAlive(3)]);
    assert!(matches!(peer.packet().as_packet(), Packet::Publish(_)));
    // The client sends nothing else until the keep alive is due.
    assert!(matches!(peer.packet().as_packet(), Packet::PingReq));
    peer.send(&Packet::PingResp);
    let puback = |packet_id| PubAck { packet_id, reason: PubAckReason::Success, properties: Properties::EMPTY };
    peer.send(&Packet::PubAck(puback(id(1))));
    assert!(matches!(peer.packet().as_packet(), Packet::Publish(_)));
    peer.send(&Packet::PubAck(puback(id(2))));
    expect_disconnect(&mut peer);
    drop(peer);
    publisher.end().expect(0);
}

#[test]
fn after_the_first_message_the_alias_replaces_the_topic() {
    let broker = ScriptedBroker::start();
    let publisher = start("pub", &broker, &["a", "m", "--repeat", "2", "--topic-alias", "4"]);
    let mut peer = broker.accept_with_connack(&[Property::TopicAliasMaximum(4)]);
    for topic in [Some("a"), None] {
        let packet = peer.packet();
        let Packet::Publish(publish) = packet.as_packet() else { panic!("{packet:?}") };
        assert_eq!(publish.topic.map(TopicName::as_str), topic);
        assert_eq!(publish.properties.topic_alias(), NonZeroU16::new(4));
    }
    expect_disconnect(&mut peer);
    drop(peer);
    publisher.end().expect(0);
}

#[test]
fn only_an_accepted_qos_2_message_is_released() {
    let broker = ScriptedBroker::start();
    let publisher = start("pub", &broker, &["-q", "2", "a", "m", "--repeat", "2"]);
    let mut peer = broker.accept_with_connack(&[Property::ReceiveMaximum(NonZeroU16::MIN)]);
    let pubrec = |packet_id, reason| Packet::PubRec(PubRec { packet_id, reason, properties: Properties::EMPTY });
    let refused = peer.packet();
    assert!(matches!(refused.as_packet(), Packet::Publish(_)));
    peer.send(&pubrec(id(1), PubRecReason::NotAuthorized));
    assert!(matches!(peer.packet().as_packet(), Packet::Publish(_)));
    peer.send(&pubrec(id(2), PubRecReason::Success));
    let released = peer.packet();
    assert!(
        matches!(released.as_packet(), Packet::PubRel(PubRel { packet_id, .. }) if packet_id == id(2)),
        "{released:?}"
    );
    let pubcomp = PubComp { packet_id: id(2), reason: PubCompReason::Success, properties: Properties::EMPTY };
    peer.send(&Packet::PubComp(pubcomp));
    expect_disconnect(&mut peer);
    drop(peer);
    assert!(publisher.end().expect(3).stderr.contains("message 1 is refused: Not authorized (0x87)"));
}

#[test]
fn a_message_refused_by_disconnect_exits_with_2_and_the_reason() {
    let broker = ScriptedBroker::start();
    let publisher = start("pub", &broker, &["a", "m"]);
    let mut peer = broker.accept_with_connack(&[]);
    assert!(matches!(peer.packet().as_packet(), Packet::Publish(_)));
    peer.send(&Packet::Disconnect(Disconnect {
        reason: DisconnectReason::TopicNameInvalid,
        properties: Properties::from_list(&[Property::ReasonString("no such place")]),
    }));
    // Our DISCONNECT may or may not have been sent before that.
    drop(peer);
    let stderr = publisher.end().expect(2).stderr;
    assert!(stderr.contains("(Topic Name invalid (0x90): no such place) [server_disconnected]"), "{stderr}");
}

#[test]
fn a_message_larger_than_the_broker_accepts_is_not_sent() {
    let broker = ScriptedBroker::start();
    let publisher = start("pub", &broker, &["a", "0123456789"]);
    let size = std::num::NonZeroU32::new(15).expect("not zero");
    let mut peer = broker.accept_with_connack(&[Property::MaximumPacketSize(size)]);
    expect_disconnect(&mut peer);
    drop(peer);
    assert!(publisher.end().expect(1).stderr.contains("the packet has 16 bytes, the server accepts at most 15"));
}

#[test]
fn a_refused_subscription_exits_with_3_and_names_the_filter() {
    let broker = ScriptedBroker::start();
    let subscriber = start("sub", &broker, &["good", "bad"]);
    let mut peer = broker.accept_with_connack(&[]);
    let packet = peer.packet();
    let Packet::Subscribe(subscribe) = packet.as_packet() else { panic!("{packet:?}") };
    peer.send(&Packet::SubAck(SubAck {
        packet_id: subscribe.packet_id,
        properties: Properties::EMPTY,
        reasons: List::from(&[SubscribeReason::GrantedQoS0, SubscribeReason::NotAuthorized][..]),
    }));
    let packet = peer.packet();
    let Packet::Unsubscribe(unsubscribe) = packet.as_packet() else { panic!("{packet:?}") };
    assert_eq!(unsubscribe.filters.iter().map(|filter| filter.as_str()).collect::<Vec<_>>(), ["good"]);
    expect_disconnect(&mut peer);
    drop(peer);
    assert_eq!(
        subscriber.end().expect(3).stderr,
        "tautwire: the server refused the subscription: the reason code says why (bad: Not authorized (0x87)) \
         [subscribe_refused]; the access rules must allow this client to subscribe to every topic that bad matches\n"
    );
}

#[test]
fn a_message_is_acknowledged_only_after_it_is_printed() {
    let broker = ScriptedBroker::start();
    let subscriber = start("sub", &broker, &["-q", "1", "-C", "2", "#"]);
    let mut peer = broker.accept_with_connack(&[]);
    grant(&mut peer);
    peer.send(&message(7, "a", "one"));
    assert!(matches!(peer.packet().as_packet(), Packet::PubAck(PubAck { packet_id, .. }) if packet_id == id(7)));
    peer.send(&message(8, "a", "two"));
    peer.send(&message(9, "a", "beyond the count"));
    assert!(matches!(peer.packet().as_packet(), Packet::PubAck(PubAck { packet_id, .. }) if packet_id == id(8)));
    expect_disconnect(&mut peer);
    peer.expect_close();
    drop(peer);
    assert_eq!(subscriber.end().expect(0).text(), "one\ntwo\n");
}

#[test]
fn a_resent_qos_2_message_is_printed_once_and_completed() {
    let broker = ScriptedBroker::start();
    let subscriber = start("sub", &broker, &["-q", "2", "-C", "2", "#"]);
    let mut peer = broker.accept_with_connack(&[]);
    grant(&mut peer);
    let publish = |packet_id, dup, payload: &'static str| {
        Packet::Publish(Publish {
            delivery: Delivery::ExactlyOnce { packet_id: id(packet_id), dup },
            retain: false,
            topic: Some(TopicName::new("a").expect("a topic")),
            properties: Properties::EMPTY,
            payload: payload.as_bytes(),
        })
    };
    let expect_pubrec = |peer: &mut Peer, expected| {
        let packet = peer.packet();
        assert!(
            matches!(packet.as_packet(), Packet::PubRec(PubRec { packet_id, .. }) if packet_id == id(expected)),
            "{packet:?}"
        );
    };
    peer.send(&publish(3, false, "one"));
    expect_pubrec(&mut peer, 3);
    peer.send(&publish(3, true, "one"));
    expect_pubrec(&mut peer, 3);
    peer.send(&publish(4, false, "two"));
    expect_pubrec(&mut peer, 4);
    for packet_id in [3, 4] {
        let pubrel = PubRel { packet_id: id(packet_id), reason: PubRelReason::Success, properties: Properties::EMPTY };
        peer.send(&Packet::PubRel(pubrel));
        let packet = peer.packet();
        assert!(
            matches!(packet.as_packet(), Packet::PubComp(PubComp { packet_id: found, .. }) if found == id(packet_id)),
            "{packet:?}"
        );
    }
    expect_disconnect(&mut peer);
    drop(peer);
    assert_eq!(subscriber.end().expect(0).text(), "one\ntwo\n");
}

#[test]
fn messages_after_the_requested_count_stay_in_the_session() {
    let broker = ScriptedBroker::start();
    let subscriber = start("sub", &broker, &["-q", "2", "-C", "1", "#"]);
    let mut peer = broker.accept_with_connack(&[]);
    grant(&mut peer);
    peer.send(&Packet::Publish(Publish {
        delivery: Delivery::ExactlyOnce { packet_id: id(3), dup: false },
        retain: false,
        topic: Some(TopicName::new("a").expect("a topic")),
        properties: Properties::EMPTY,
        payload: b"one",
    }));
    assert!(matches!(peer.packet().as_packet(), Packet::PubRec(_)));
    // The client ends, but still has to send the PUBCOMP of the printed message.
    peer.send(&message(4, "a", "two"));
    peer.send(&Packet::PubRel(PubRel {
        packet_id: id(3),
        reason: PubRelReason::Success,
        properties: Properties::EMPTY,
    }));
    assert!(matches!(peer.packet().as_packet(), Packet::PubComp(PubComp { packet_id, .. }) if packet_id == id(3)));
    expect_disconnect(&mut peer);
    drop(peer);
    assert_eq!(subscriber.end().expect(0).text(), "one\n");
}

#[test]
fn a_topic_alias_is_resolved_and_an_unknown_one_exits_with_2() {
    let broker = ScriptedBroker::start();
    let options = ["-D", "connect", "topic-alias-maximum", "5", "-v", "#"];
    let subscriber = start("sub", &broker, &options);
    let mut peer = broker.accept_with_connack(&[]);
    grant(&mut peer);
    let mut send = |topic: Option<&'static str>, alias| {
        let alias = [Property::TopicAlias(NonZeroU16::new(alias).expect("not zero"))];
        peer.send(&Packet::Publish(Publish {
            delivery: Delivery::AtMostOnce,
            retain: false,
            topic: topic.map(|topic| TopicName::new(topic).expect("a topic")),
            properties: Properties::from_list(&alias),
            payload: b"x",
        }));
    };
    send(Some("first"), 1);
    send(Some("second"), 2);
    send(None, 1);
    send(None, 3);
    let ended = subscriber.end().expect(2);
    assert_eq!(ended.text(), "first x\nsecond x\nfirst x\n");
    assert!(ended.stderr.contains("unknown topic alias"), "{}", ended.stderr);
}

#[test]
fn a_silent_connection_uses_the_keep_alive_of_the_broker() {
    let broker = ScriptedBroker::start();
    let subscriber = start("sub", &broker, &["-k", "600", "a"]);
    let mut peer = broker.accept_with_connack(&[Property::ServerKeepAlive(3)]);
    grant(&mut peer);
    for _ in 0..2 {
        assert!(matches!(peer.packet().as_packet(), Packet::PingReq));
        peer.send(&Packet::PingResp);
    }
    subscriber.interrupt();
    expect_disconnect(&mut peer);
    drop(peer);
    subscriber.end().expect(0);
}

#[test]
fn a_broker_that_does_not_answer_the_keep_alive_times_out() {
    let broker = ScriptedBroker::start();
    let subscriber = start("sub", &broker, &["-k", "1", "a"]);
    let mut peer = broker.accept_with_connack(&[]);
    grant(&mut peer);
    assert!(matches!(peer.packet().as_packet(), Packet::PingReq));
    let ended = subscriber.end().expect(2);
    assert!(ended.stderr.contains("did not answer a PINGREQ in time [keep_alive_timeout]"), "{}", ended.stderr);
}

#[test]
fn a_broker_that_does_not_respond_times_out() {
    let broker = ScriptedBroker::start();
    let publisher = start("pub", &broker, &["--connect-timeout", "0.1", "a", "m"]);
    let _peer = broker.accept(ProtocolVersion::V5);
    assert!(publisher.end().expect(2).stderr.contains("timed out waiting for CONNACK) [connect_timeout]"));
}

#[test]
fn the_timeout_of_a_subscriber_includes_connecting() {
    let broker = ScriptedBroker::start();
    let subscriber = start("sub", &broker, &["-W", "0.1", "a"]);
    let _peer = broker.accept(ProtocolVersion::V5);
    assert_eq!(subscriber.end().expect(27).stderr, "");
}

#[test]
fn bytes_that_are_not_mqtt_exit_with_2_and_their_position() {
    let broker = ScriptedBroker::start();
    let subscriber = start("sub", &broker, &["a"]);
    let mut peer = broker.accept_with_connack(&[]);
    grant(&mut peer);
    // A PUBLISH of QoS 3.
    peer.send_bytes(&[0x36, 0x05, 0x00, 0x01, b'a', 0x00, 0x01]);
    let ended = subscriber.end().expect(2);
    assert!(ended.stderr.contains("[protocol_error]"), "{}", ended.stderr);
}

#[test]
fn an_unexpected_acknowledgement_exits_with_2() {
    let broker = ScriptedBroker::start();
    let subscriber = start("sub", &broker, &["a"]);
    let mut peer = broker.accept_with_connack(&[]);
    grant(&mut peer);
    peer.send(&Packet::SubAck(SubAck {
        packet_id: id(9),
        properties: Properties::EMPTY,
        reasons: List::from(&[SubscribeReason::GrantedQoS0][..]),
    }));
    assert!(subscriber.end().expect(2).stderr.contains("(SUBACK without a SUBSCRIBE) [protocol_error]"));
}

#[test]
fn an_interrupted_publisher_sends_disconnect_and_fails() {
    let broker = ScriptedBroker::start();
    let publisher = start("pub", &broker, &["-q", "1", "a", "m"]);
    let mut peer = broker.accept_with_connack(&[]);
    let packet = peer.packet();
    assert!(matches!(packet.as_packet(), Packet::Publish(publish) if publish.delivery.qos() == QoS::AtLeastOnce));
    publisher.interrupt();
    expect_disconnect(&mut peer);
    drop(peer);
    assert!(publisher.end().expect(2).stderr.contains("interrupted after 1 messages, 1 of them unacknowledged"));
}
