//! TLS versions and ciphers, and slow, wrong or many handshakes.

use std::io::{Read as _, Write as _};
use std::time::Instant;

use super::support::{Broker, CONNECT, Certificates, Client, Connection, socket};
use crate::support::client::EXPECT_TIMEOUT;

#[test]
fn both_versions_are_supported_and_sessions_resumed() {
    let ours = Certificates::made(&[]);
    let broker = Broker::start(&ours.settings());
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let config = Client { versions, ..Client::of(&ours) }.config();
        for is_resumed in [false, true, true] {
            let mut connection = Connection::dial(config.clone(), "localhost", broker.mqtts);
            connection.greet().expect("the client is accepted");
            // TLS 1.3 tickets arrive after the handshake, before this answer.
            connection.ping();
            assert_eq!(connection.is_resumed(), is_resumed, "{versions:?}");
        }
    }
}

#[test]
fn old_versions_and_other_cipher_suites_are_refused_if_configured() {
    let ours = Certificates::made(&[]);
    let [certificate, key] = ours.settings();
    let old = [&rustls::version::TLS12];
    let broker = Broker::start(&[certificate.clone(), key.clone(), "tls.minimum_version=1.3".to_owned()]);
    Client::of(&ours).connect(broker.mqtts).ping();
    let refused = Client { versions: &old, ..Client::of(&ours) }.refused(broker.mqtts);
    assert!(refused.contains("ProtocolVersion"), "{refused}");
    broker.wait_for("tls_no_shared_parameters");

    let suite = "tls.cipher_suites=TLS13_CHACHA20_POLY1305_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    let broker = Broker::start(&[certificate, key, suite.to_owned()]);
    for (versions, expected) in [
        (&[&rustls::version::TLS13][..], "TLS13_CHACHA20_POLY1305_SHA256"),
        (&old, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ] {
        let connection = Client { versions, ..Client::of(&ours) }.connect(broker.mqtts);
        let spoken = connection.0.conn.negotiated_cipher_suite().expect("a cipher suite is negotiated").suite();
        assert_eq!(spoken.as_str(), Some(expected));
    }
}

#[test]
fn alpn_selects_a_protocol_on_request() {
    let ours = Certificates::made(&[]);
    let broker = Broker::start(&ours.settings());
    let connection = Client { alpn: &["h2", "mqtt"], ..Client::of(&ours) }.connect(broker.mqtts);
    assert_eq!(connection.0.conn.alpn_protocol(), Some(&b"mqtt"[..]));
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let refused = Client { alpn: &["http/1.1"], versions, ..Client::of(&ours) }.refused(broker.mqtts);
        assert!(refused.contains("NoApplicationProtocol"), "{refused}");
        broker.wait_for("by ALPN");
    }
}

#[test]
fn mqtt_runs_over_websocket_over_tls() {
    const MASKED: u8 = 0x80;
    let ours = Certificates::made(&[]);
    let broker = Broker::start(&ours.settings());
    let mut connection = Client { alpn: &["http/1.1"], ..Client::of(&ours) }.dial(broker.wss);
    let request = "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";
    connection.0.write_all(request.as_bytes()).expect("the request is sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(connection.read(1).expect("an answer"));
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    // A mask of zeros leaves the bytes unchanged.
    let frame = [&[0x82, MASKED | CONNECT.len() as u8, 0, 0, 0, 0], CONNECT].concat();
    connection.0.write_all(&frame).expect("the frame is sent");
    assert_eq!(connection.read(6).expect("CONNACK"), b"\x82\x04\x20\x02\x00\x00");
}

#[test]
fn a_protocol_mismatch_is_refused_without_affecting_others() {
    let ours = Certificates::made(&[]);
    let broker = Broker::start(&ours.settings());
    let mut other = Client::of(&ours).connect(broker.mqtts);
    // Plain MQTT on a TLS port is answered with a TLS alert.
    for address in [broker.mqtts, broker.wss] {
        let mut plain = socket(address);
        plain.write_all(CONNECT).expect("the data is sent");
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer);
        assert_eq!(answer.first(), Some(&21), "{answer:?}");
        broker.wait_for("tls_not_supported");
    }
    // TLS on a plain MQTT port is closed without an answer that could be taken for TLS.
    let refused = Client::of(&ours).refused(broker.mqtt);
    assert!(!refused.is_empty());
    other.ping();
    Client::of(&ours).connect(broker.mqtts).ping();
}

#[test]
fn a_handshake_can_arrive_byte_by_byte_while_others_are_served() {
    let ours = Certificates::made(&[]);
    let broker = Broker::start(&ours.settings());
    let mut slow = Client::of(&ours).dial(broker.mqtts);
    slow.0.sock.set_nodelay(true).expect("an option");
    let mut hello = Vec::new();
    slow.0.conn.write_tls(&mut hello).expect("memory takes all");
    let (first, rest) = hello.split_at(hello.len() - 3);
    for byte in first {
        slow.0.sock.write_all(&[*byte]).expect("the byte is sent");
    }
    // Other clients do not wait for it.
    Client::of(&ours).connect(broker.mqtts).ping();
    for byte in rest {
        slow.0.sock.write_all(&[*byte]).expect("the byte is sent");
    }
    slow.greet().expect("the client is accepted");
}

#[test]
fn a_stalled_handshake_times_out() {
    let ours = Certificates::made(&[]);
    let [certificate, key] = ours.settings();
    let broker = Broker::start(&[certificate, key, "mqtt.connect_timeout_s=1".to_owned()]);
    let mut hello = Vec::new();
    let mut quiet = Client::of(&ours).dial(broker.mqtts);
    quiet.0.conn.write_tls(&mut hello).expect("memory takes all");
    let mut halfway = socket(broker.mqtts);
    halfway.write_all(&hello[..hello.len() / 2]).expect("the data is sent");
    let mut answered = socket(broker.mqtts);
    answered.write_all(&hello).expect("the data is sent");
    for mut socket in [halfway, answered] {
        let mut received = Vec::new();
        // The connection ends, cleanly or by a reset, before the timeout of this test.
        let ended = socket.read_to_end(&mut received);
        assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
}

#[test]
fn handshakes_beyond_the_limit_are_closed_on_arrival() {
    let ours = Certificates::made(&[]);
    let [certificate, key] = ours.settings();
    let broker = Broker::with("1", &[certificate, key, "limits.tls_handshakes=2".to_owned()]);
    let idle = [socket(broker.mqtts), socket(broker.mqtts)];
    let mut refused = socket(broker.mqtts);
    let mut received = Vec::new();
    let _ = refused.read_to_end(&mut received);
    assert!(received.is_empty());
    broker.wait_for("limits.tls_handshakes is reached");
    // After they end there is room again, as soon as the broker has noticed.
    drop(idle);
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while let Err(error) = Client::of(&ours).dial(broker.mqtts).greet() {
        assert!(Instant::now() < deadline, "{error}");
    }
}
