//! The opening handshake.

use super::{PINGREQ, PINGRESP};
use crate::support::websocket::{BINARY, FIN, Frame, KEY, PING, PONG, WebSocket, frame, request};
use crate::support::{Broker, V5, every_thread_count};

/// [MQTT-6.0.0-4]; 3.1.1: [MQTT-6.0.0-4]. The response has what RFC 6455 requires, and no extensions.
#[test]
fn a_handshake_selects_the_subprotocol_mqtt() {
    let broker = Broker::start();
    let listed = "chat, mqttv3.1,mqtt , x";
    for changed in [
        &[][..],
        &[("Sec-WebSocket-Protocol", listed)],
        &[("Sec-WebSocket-Protocol", "a"), ("Sec-WebSocket-Protocol", "mqtt")],
        &[("Connection", "keep-alive, UPGRADE"), ("Upgrade", "WebSocket")],
        &[("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits")],
        &[("Cookie", "a=b; c=d"), ("User-Agent", "né"), ("Content-Length", "0")],
        &[("Host", "broker.example.org:8083")],
    ] {
        let mut websocket = WebSocket::dial(broker.websocket_address());
        websocket.send(request("/mqtt", changed).as_bytes());
        websocket.expect_open();
        websocket.send_frame(FIN | BINARY, &broker.connecting(V5, "client").bytes());
        assert_eq!(websocket.expect_binary()[0], 0x20);
    }
}

/// RFC 6455 section 4.2.1: an invalid handshake is answered in HTTP, and the connection is closed; so is one that does not offer the
/// subprotocol `mqtt` [MQTT-6.0.0-3]; 3.1.1: [MQTT-6.0.0-3].
#[test]
fn invalid_websocket_handshakes_are_refused() {
    let broker = Broker::start();
    let long = "x".repeat(9000);
    let repeated = format!("{KEY}\r\nSec-WebSocket-Key: {KEY}");
    for (text, status) in [
        (request("/mqtt", &[("Host", "")]), 400),
        (request("/mqtt", &[("Sec-WebSocket-Key", "")]), 400),
        (request("/mqtt", &[("Sec-WebSocket-Key", "c2hvcnQ=")]), 400),
        (request("/mqtt", &[("Sec-WebSocket-Key", &repeated)]), 400),
        (request("/mqtt", &[("Sec-WebSocket-Protocol", "")]), 400),
        (request("/mqtt", &[("Sec-WebSocket-Protocol", "mqttv3.1, MQTT")]), 400),
        (request("/mqtt", &[("Content-Length", "1")]), 400),
        (request("/mqtt", &[("Transfer-Encoding", "chunked")]), 400),
        (request("/mqtt", &[("Bad Name", "x")]), 400),
        (request("/mqtt", &[("X", "a\r\n folded")]), 400),
        (request("/mqtt", &[("X", "a\rb")]), 400),
        ("GET /mqtt\r\n\r\n".to_owned(), 400),
        ("G@T /mqtt HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("\r\n\r\n".to_owned(), 400),
        (request("/", &[]), 404),
        (request("/mqtt/", &[]), 404),
        (request("http://127.0.0.1/mqtt", &[]), 404),
        (request("/mqtt", &[]).replacen("GET", "POST", 1), 405),
        (request("/mqtt", &[("Upgrade", "")]), 426),
        (request("/mqtt", &[("Connection", "")]), 426),
        ("GET /mqtt HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 426),
        (request("/mqtt", &[("Sec-WebSocket-Version", "")]), 426),
        (request("/mqtt", &[("Sec-WebSocket-Version", "8")]), 426),
        (request("/mqtt", &[("Cookie", &long)]), 431),
        (request(&format!("/{long}"), &[]), 431),
        (request("/mqtt", &[]).replacen("HTTP/1.1", "HTTP/1.0", 1), 505),
    ] {
        let mut websocket = WebSocket::dial(broker.websocket_address());
        // Data after the cause of the error may arrive too late.
        let _ = std::io::Write::write_all(&mut websocket.stream, text.as_bytes());
        let (found, head) = websocket.expect_refused();
        assert_eq!(found, status, "{text:?}: {head}");
        let field = match status {
            405 => "Allow: GET",
            426 if text.contains("Version: 8") => "Sec-WebSocket-Version: 13",
            426 => "Upgrade: websocket",
            _ => "Content-Type: text/plain",
        };
        assert!(head.contains(&format!("\r\n{field}\r\n")), "{head}");
    }
    broker.connect(V5, "bystander").ping();
}

/// Input that is not HTTP is refused at once, not after the handshake timeout.
#[test]
fn mqtt_without_websocket_is_refused_on_its_port() {
    let broker = Broker::start();
    let mut websocket = WebSocket::dial(broker.websocket_address());
    websocket.send(&broker.connecting(V5, "client").bytes());
    assert_eq!(websocket.expect_refused().0, 400);
}

/// `mqtt.connect_timeout_s` covers the handshake and CONNECT together.
#[test]
fn a_missing_handshake_or_connect_times_out() {
    let broker = Broker::set(&["mqtt.connect_timeout_s=1"]);
    let mut silent = WebSocket::dial(broker.websocket_address());
    let mut slow = WebSocket::dial(broker.websocket_address());
    slow.send(b"GET /mqtt HTTP/1.1\r\n");
    let mut open = WebSocket::open(broker.websocket_address());
    assert_eq!(silent.expect_refused().0, 408);
    assert_eq!(slow.expect_refused().0, 408);
    open.expect_closed(1000);
}

/// `websocket.allowed_origins`: pages of this machine may connect, others if they are listed.
#[test]
fn pages_of_other_origins_are_refused_unless_listed() {
    let answer = |broker: &Broker, origin: &str, host: &str| {
        let mut websocket = WebSocket::dial(broker.websocket_address());
        websocket.send(request("/mqtt", &[("Origin", origin), ("Host", host)]).as_bytes());
        let head = websocket.answer();
        head.split(' ').nth(1).map(str::to_owned)
    };
    let closed = Broker::start();
    let listing = Broker::set(&["websocket.allowed_origins=https://example.org"]);
    let open = Broker::set(&["websocket.allowed_origins=*"]);
    let (accepted, refused) = (Some("101".to_owned()), Some("403".to_owned()));
    for (origin, by_default, listed) in [
        ("http://localhost:3000", &accepted, &accepted),
        ("http://127.0.0.1", &accepted, &accepted),
        ("https://example.org", &refused, &accepted),
        ("http://example.org", &refused, &refused),
        ("null", &refused, &refused),
    ] {
        assert_eq!(answer(&closed, origin, "127.0.0.1:8083"), *by_default, "{origin}");
        assert_eq!(answer(&listing, origin, "127.0.0.1:8083"), *listed, "{origin}");
        assert_eq!(answer(&open, origin, "127.0.0.1:8083"), accepted, "{origin}");
    }
    // A host name that the page's owner can point here proves nothing (DNS rebinding).
    assert_eq!(answer(&closed, "http://rebound.example.org", "rebound.example.org"), refused);
    assert!(closed.end().contains("rebound.example.org"), "the log says which origin it was");
}

/// The handshake and the data after it may arrive in one piece or byte by byte.
#[test]
fn a_handshake_and_a_connect_can_be_split_anywhere() {
    every_thread_count(|case| {
        let broker = case.broker();
        // Some of these clients belong to another thread than the accepting one.
        for client_id in ["a", "b", "c", "d"] {
            let mut bytes = request("/mqtt", &[]).into_bytes();
            bytes.extend(frame(FIN | BINARY, &broker.connecting(V5, client_id).bytes()));
            bytes.extend(frame(FIN | PING, b"behind"));
            bytes.extend(frame(FIN | BINARY, &PINGREQ));
            for step in [bytes.len(), 1, 7, 64] {
                let mut websocket = WebSocket::dial(broker.websocket_address());
                for piece in bytes.chunks(step) {
                    websocket.send(piece);
                }
                websocket.expect_open();
                let mut mqtt = Vec::new();
                let mut pongs = 0;
                while !mqtt.ends_with(&PINGRESP) || pongs == 0 {
                    let frame = websocket.frame().expect("both pings are answered");
                    match frame.opcode {
                        BINARY => mqtt.extend(frame.payload),
                        _ => {
                            assert_eq!(frame, Frame { opcode: PONG, payload: b"behind".to_vec() });
                            pongs += 1;
                        }
                    }
                }
                assert_eq!(mqtt[0], 0x20);
            }
        }
    });
}
