//! Limits on payloads (`limits.payload_bytes`) and on bytes in flight (`limits.in_flight_bytes_per_client`).

use tautwire_protocol::ReasonCode;

use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, ExactlyOnce, Folder, OutgoingPublish, TOKEN, WillMessage, admin, every_case,
    every_version,
};
use crate::sys::await_number;

/// `limits.payload_bytes`: the message is dropped, its exchange is completed, and the connection stays open. Only 5.0 has a reason code for
/// it. It is not retained.
#[test]
fn a_payload_that_is_too_large_is_dropped_and_acknowledged() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.payload_bytes=10", "sys.interval_s=1"]);
        let mut publisher = broker.connect(case.version, "publisher");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("t/#", ExactlyOnce);
        let refused = if case.version.is_v5() { 0x83 } else { 0 };
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            let code = publisher.deliver(&OutgoingPublish::new("t/large", qos, &[b'x'; 11]).retained());
            assert_eq!(code, if qos == AtMostOnce { 0 } else { refused }, "{qos:?}");
            publisher.publish("t/small", qos, &[b'x'; 10]);
            assert_eq!(subscriber.receive().topic(), "t/small");
        }
        subscriber.expect_nothing();
        let mut late = broker.connect(case.version, "late");
        late.subscribe("t/#", AtLeastOnce);
        late.expect_nothing();
        await_number(&mut late, "tautwire/payloads_too_large", |count| count == 3.0);
    });
}

/// The limit applies to wills. 3.1.1 has no return code for it.
#[test]
fn a_will_that_is_too_large_is_refused() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.payload_bytes=10"]);
        broker.connecting(case.version, "right").will(WillMessage::new("t", &[0; 10])).open().ping();
        let mut client = broker.connecting(case.version, "large").will(WillMessage::new("t", &[0; 11])).send();
        if case.version.is_v5() {
            assert_eq!(client.expect_connack_code(), ReasonCode::PacketTooLarge.as_u8());
        }
        client.expect_closed();
    });
}

/// The limit applies to messages of operators.
#[test]
fn payload_limits_apply_to_operator_publishes() {
    let folder = Folder::new(&[("token", TOKEN)]);
    let token_file = format!("admin.token_file={}", folder.path().join("token").display());
    let broker = Broker::set(&["limits.payload_bytes=3", "admin.listen=127.0.0.1:0", &token_file]);
    let publish = |payload: &str| admin(broker.admin_address(), "POST", "/v1/messages/t", payload);
    publish("123").expect(200);
    let refused = publish("1234").expect(413).body;
    assert!(refused.contains("limits.payload_bytes"), "{refused}");
}

/// `limits.in_flight_bytes_per_client`: at the limit of unacknowledged bytes nothing more is sent; a larger message is sent alone.
#[test]
fn messages_wait_while_too_many_bytes_are_in_flight() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.in_flight_bytes_per_client=3000"]);
        let mut publisher = broker.connect(case.version, "publisher");
        let mut slow = broker.connect(case.version, "slow");
        let mut other = broker.connect(case.version, "other");
        slow.subscribe("t", AtLeastOnce);
        other.subscribe("t", AtLeastOnce);
        let sizes = [2_000, 2_000, 10, 5_000, 5_000];
        for (number, size) in sizes.into_iter().enumerate() {
            publisher.publish("t", AtLeastOnce, &vec![b'0' + number as u8; size]);
            // The other client acknowledges at once.
            assert_eq!(other.receive().payload().len(), size);
        }
        let first = slow.expect_publish();
        let second = slow.expect_publish();
        assert_eq!((first.payload()[0], second.payload()[0]), (b'0', b'1'), "3,000 bytes are reached with the second");
        slow.expect_nothing();
        slow.acknowledge(&first);
        // 2,000 are left, so one more can be sent, and then another.
        let third = slow.expect_publish();
        let fourth = slow.expect_publish();
        assert_eq!((third.payload()[0], fourth.payload()[0]), (b'2', b'3'));
        slow.acknowledge(&second);
        slow.acknowledge(&third);
        slow.expect_nothing();
        slow.acknowledge(&fourth);
        let fifth = slow.expect_publish();
        assert_eq!(fifth.payload()[0], b'4');
        slow.acknowledge(&fifth);
        slow.expect_nothing();
    });
}
