//! Sessions, limits and messages behave as with TCP.

use tautwire_protocol::ReasonCode;

use crate::support::{
    AtLeastOnce, AtMostOnce, Client, ExactlyOnce, OutgoingPublish, every_case, every_version, expect_nothing_from,
};

/// The same client over WebSocket and over TCP: each takes over the other's connection, and the session persists.
#[test]
fn a_session_moves_between_websocket_and_tcp() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect_websocket(case.version, "publisher");
        for client_id in ["a", "b", "c"] {
            let by_tcp = || broker.connecting(case.version, client_id).persistent().open();
            let by_websocket = || broker.websocket_builder(case.version, client_id).persistent().open();
            let mut client = by_tcp();
            client.subscribe("t", ExactlyOnce);
            for round in 0..4 {
                let newer = if round % 2 == 0 { by_websocket() } else { by_tcp() };
                client.expect_server_disconnect(ReasonCode::SessionTakenOver);
                client = newer;
                assert!(client.session_present());
                publisher.publish("t", ExactlyOnce, client_id.as_bytes());
                assert_eq!(client.receive().text(), client_id);
            }
            client.disconnect();
        }
    });
}

/// Payloads larger than any buffer on the path, at every QoS, in both directions and between transports.
#[test]
fn large_payloads_arrive_whole_between_websocket_and_tcp() {
    every_case(|case| {
        // Room for both payloads of QoS 0: they are sent before they are read.
        let broker = case.broker_set(&["limits.connection_output_bytes=16777216"]);
        let payload: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(31) >> 7) as u8).collect();
        let mut by_websocket = broker.connect_websocket(case.version, "by-websocket");
        let mut by_tcp = broker.connect(case.version, "by-tcp");
        by_websocket.subscribe("t", ExactlyOnce);
        by_tcp.subscribe("t", ExactlyOnce);
        let check = |client: &mut Client| assert!(client.receive().payload() == payload, "{case:?}");
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            by_websocket.send_publish(&OutgoingPublish::new("t", AtMostOnce, b"before"));
            by_websocket.publish("t", qos, &payload);
            by_tcp.publish("t", qos, &payload);
            for client in [&mut by_websocket, &mut by_tcp] {
                assert_eq!(client.receive().text(), "before");
                check(client);
                check(client);
            }
        }
    });
}

/// The rest of a burst is not lost if its publisher disconnects right after it.
#[test]
fn a_burst_to_many_arrives_whole() {
    every_version(|case| {
        let broker = case.broker();
        let subscriber = |n: usize| {
            let mut subscriber = broker.connect(case.version, &format!("subscriber-{n}"));
            subscriber.subscribe("t", AtMostOnce);
            subscriber
        };
        let mut subscribers: Vec<Client> = (0..100).map(subscriber).collect();
        let mut publisher = broker.connect_websocket(case.version, "publisher");
        let payload = |n: usize| format!("{n:0>500}");
        for n in 0..200 {
            publisher.send_publish(&OutgoingPublish::new("t", AtMostOnce, payload(n).as_bytes()));
        }
        publisher.disconnect();
        for subscriber in &mut subscribers {
            for n in 0..200 {
                assert_eq!(subscriber.receive().text(), payload(n));
            }
        }
    });
}

/// The limits apply to a slow reader over WebSocket, which receives everything in order and complete.
#[test]
fn a_slow_reader_receives_everything_eventually() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.connection_output_bytes=65536"]);
        let mut subscriber = broker.connect_websocket(case.version, "subscriber");
        subscriber.subscribe("t", AtLeastOnce);
        let mut publisher = broker.connect(case.version, "publisher");
        let payload = |n: usize| [&(n as u32).to_be_bytes()[..], &vec![n as u8; 60_000]].concat();
        for n in 0..200 {
            publisher.publish("t", AtLeastOnce, &payload(n));
        }
        for n in 0..200 {
            assert!(subscriber.receive().payload() == payload(n), "message {n}");
        }
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}
