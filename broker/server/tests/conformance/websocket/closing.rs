//! The end of WebSocket connections.

use std::net::Shutdown;
use std::process::Command;

use super::{PINGREQ, PINGRESP, connected, ping, publish};
use crate::support::websocket::{BINARY, CLOSE, FIN, Frame, WebSocket, frame, request};
use crate::support::{AtMostOnce, WillMessage, every_case, every_version};

/// RFC 6455 section 5.5.1: the code is echoed. A Close frame is not a DISCONNECT: the will is published [MQTT-3.1.2-8].
#[test]
fn a_close_frame_is_answered_and_ends_the_connection() {
    every_case(|case| {
        let broker = case.broker();
        let mut watcher = broker.connect(case.version, "watcher");
        watcher.subscribe("will", AtMostOnce);
        for (payload, code) in [(&[0x03, 0xE8, b'b', b'y', b'e'][..], 1000_u16), (&[0x0B, 0xB8], 3000), (&[], 0)] {
            let mut websocket = WebSocket::open(broker.websocket_address());
            let will = WillMessage::new("will", b"gone");
            let connect = broker.connecting(case.version, "client").will(will).bytes();
            websocket.send_frame(FIN | BINARY, &connect);
            assert_eq!(websocket.expect_binary()[0], 0x20);
            // Data after a Close frame is ignored.
            let mut bytes = frame(FIN | CLOSE, payload);
            bytes.extend(frame(FIN | BINARY, &publish(&watcher, "will", b"too late")));
            websocket.send(&bytes);
            if code == 0 {
                assert_eq!(websocket.frame(), Some(Frame { opcode: CLOSE, payload: Vec::new() }));
                assert_eq!(websocket.frame(), None);
            } else {
                websocket.expect_closed(code);
            }
            assert_eq!(watcher.receive().text(), "gone");
        }
        watcher.expect_nothing();
    });
}

/// A client may send everything in one piece: earlier packets are processed first, on whichever thread, and also if reading pauses because
/// the client does not read its answers.
#[test]
fn a_close_frame_applies_after_everything_before_it() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.connection_output_bytes=1024"]);
        for client_id in ["a", "b", "c", "d"] {
            let mut bytes = request("/mqtt", &[]).into_bytes();
            bytes.extend(frame(FIN | BINARY, &broker.connecting(case.version, client_id).bytes()));
            bytes.extend(frame(FIN | BINARY, &PINGREQ.repeat(20_000)));
            bytes.extend(frame(FIN | CLOSE, &1000_u16.to_be_bytes()));
            let mut websocket = WebSocket::dial(broker.websocket_address());
            websocket.send(&bytes);
            websocket.expect_open();
            let answers = websocket.expect_closed(1000);
            assert_eq!(answers[0], 0x20);
            assert!(answers.ends_with(&PINGRESP.repeat(20_000)), "{} bytes", answers.len());
        }
    });
}

/// DISCONNECT is answered with a Close frame, so that a browser sees a clean end; a Close frame may accompany it.
#[test]
fn a_disconnect_is_followed_by_a_close_frame() {
    every_case(|case| {
        let broker = case.broker();
        let mut websocket = connected(&broker, case, "client");
        websocket.send_frame(FIN | BINARY, &[0xE0, 0]);
        websocket.expect_closed(1000);
        let mut websocket = connected(&broker, case, "client");
        let mut both = frame(FIN | BINARY, &[0xE0, 0]);
        both.extend(frame(FIN | CLOSE, &1000_u16.to_be_bytes()));
        websocket.send(&both);
        websocket.expect_closed(1000);
    });
}

/// The end of the stream without a Close frame is the end of the connection.
#[test]
fn a_stream_that_ends_within_a_frame_is_a_lost_connection() {
    every_version(|case| {
        let broker = case.broker();
        let mut watcher = broker.connect(case.version, "watcher");
        watcher.subscribe("will", AtMostOnce);
        let mut websocket = WebSocket::open(broker.websocket_address());
        let connect = broker.connecting(case.version, "client").will(WillMessage::new("will", b"gone")).bytes();
        websocket.send_frame(FIN | BINARY, &connect);
        assert_eq!(websocket.expect_binary()[0], 0x20);
        websocket.send(&frame(FIN | BINARY, &PINGREQ)[..5]);
        websocket.stream.shutdown(Shutdown::Write).expect("the connection is open");
        assert_eq!(watcher.receive().text(), "gone");
        assert_eq!(websocket.frame(), None);
    });
}

/// 3.14.2.1 of 5.0 and RFC 6455 section 7.4.1: at shutdown, clients are notified in MQTT and in WebSocket.
#[test]
fn a_stopping_broker_sends_close_code_1001() {
    every_case(|case| {
        let mut broker = case.broker();
        let mut websockets: Vec<_> = ["a", "b", "c"].map(|client_id| connected(&broker, case, client_id)).into();
        let mut nameless = WebSocket::open(broker.websocket_address());
        let mut waiting = WebSocket::dial(broker.websocket_address());
        waiting.send(b"GET");
        // The newest connection has been accepted when the one after it is served.
        ping(&mut connected(&broker, case, "fence"));
        let sent = Command::new("kill").args(["-INT", &broker.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        for websocket in &mut websockets {
            let before = websocket.expect_closed(1001);
            let goodbye = if case.version.is_v5() { vec![0xE0, 1, 0x8B] } else { Vec::new() };
            assert_eq!(before, goodbye);
        }
        assert!(nameless.expect_closed(1001).is_empty());
        assert_eq!(waiting.expect_refused().0, 503);
        drop((websockets, nameless, waiting));
        assert_eq!(broker.exit_code(), Some(0));
    });
}
