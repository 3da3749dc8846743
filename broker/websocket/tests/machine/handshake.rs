//! Handshakes split at any byte.

use proptest::collection::vec;
use proptest::prelude::*;
use tautwire_websocket::{CloseCode, EndReason, HandshakeRefusal, REQUEST_HEAD_MAX_BYTES, WebSocket};

use crate::support::{BINARY, FIN, REQUEST, config, frame, receive, take};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_handshake_followed_by_frames_can_be_split_anywhere(
        mqtt in vec(any::<u8>(), 0..200),
        cuts in vec(1_usize..100, 0..40),
    ) {
        let wire = [REQUEST.as_bytes(), &frame(FIN | BINARY, [5, 6, 7, 8], &mqtt)].concat();
        let seen = receive(&mut WebSocket::new(config()), &wire, &cuts);
        prop_assert_eq!(seen.mqtt, mqtt);
        prop_assert_eq!(seen.end_reason, None);
        prop_assert!(seen.said.starts_with(b"HTTP/1.1 101 "));
    }

    #[test]
    fn a_changed_request_is_handled_the_same_in_any_pieces(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cuts in vec(1_usize..50, 0..40),
    ) {
        let mut wire = REQUEST.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        let whole = receive(&mut WebSocket::new(config()), &wire, &[]);
        prop_assert!(whole.mqtt.is_empty());
        if let Some(EndReason::Refused(refusal)) = &whole.end_reason {
            let status = format!("HTTP/1.1 {}\r\n", refusal.status());
            prop_assert!(whole.said.starts_with(status.as_bytes()));
        }
        prop_assert_eq!(receive(&mut WebSocket::new(config()), &wire, &cuts), whole);
    }
}

#[test]
fn the_size_limit_of_the_head_is_exact() {
    let filled = |bytes: usize| {
        let padding = "x".repeat(bytes - REQUEST.len() - "X: \r\n".len());
        REQUEST.replacen("\r\n", &format!("\r\nX: {padding}\r\n"), 1)
    };
    for (bytes, cuts) in [
        (REQUEST_HEAD_MAX_BYTES, &[][..]),
        (REQUEST_HEAD_MAX_BYTES, &[5000, 3189, 1, 1]),
        (REQUEST_HEAD_MAX_BYTES, &[1; 8192]),
    ] {
        let wire = filled(bytes);
        assert_eq!(wire.len(), bytes);
        let seen = receive(&mut WebSocket::new(config()), wire.as_bytes(), cuts);
        assert_eq!(seen.end_reason, None);
        assert!(seen.said.starts_with(b"HTTP/1.1 101 "));
        let longer = filled(bytes + 1);
        let seen = receive(&mut WebSocket::new(config()), longer.as_bytes(), cuts);
        assert_eq!(seen.end_reason, Some(EndReason::Refused(HandshakeRefusal::HeadTooLarge)));
    }
}

#[test]
fn an_unfinished_handshake_ends_in_http() {
    for (code, status) in [(CloseCode::GOING_AWAY, "503"), (CloseCode::NORMAL, "408")] {
        let mut websocket = WebSocket::new(config());
        websocket.receive(&mut b"GET /mqtt".to_vec());
        websocket.close(code);
        let said = take(&mut websocket, &[], 10);
        assert!(said.starts_with(format!("HTTP/1.1 {status} ").as_bytes()));
        // The rest of it arrives too late.
        assert_eq!(websocket.receive(&mut REQUEST.as_bytes()[9..].to_vec()), 0);
        assert!(!websocket.is_open() && websocket.take_end_reason().is_none());
        assert!(take(&mut websocket, &[], 10).is_empty());
    }
}
