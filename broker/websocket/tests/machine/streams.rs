//! Valid and invalid streams of frames.

use proptest::collection::vec;
use proptest::prelude::*;
use tautwire_websocket::{CloseCode, EndReason, FRAME_OUT_MAX_BYTES, Violation};

use crate::support::{BINARY, CLOSE, CONTINUATION, FIN, PING, PONG, TEXT, frame, frames, open, receive, take};

/// A fragment of a message with control frames before it, as a client may send them.
#[derive(Debug, Clone)]
struct Piece {
    pings: Vec<Vec<u8>>,
    payload: Vec<u8>,
    key: [u8; 4],
    last: bool,
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    // Around the lengths where the encoding changes.
    prop_oneof![vec(any::<u8>(), 0..40), vec(any::<u8>(), 120..300), Just(vec![0x5A; 65_536])]
}

fn piece() -> impl Strategy<Value = Piece> {
    (vec(vec(any::<u8>(), 0..=125), 0..3), payload(), any::<[u8; 4]>(), any::<bool>()).prop_map(
        |(pings, payload, key, last)| {
            // A message of one large fragment is within the limits; several might not be.
            let last = last || payload.len() > 1000;
            Piece { pings, payload, key, last }
        },
    )
}

fn wire_of(pieces: &[Piece]) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut in_message = false;
    for Piece { pings, payload, key, last } in pieces {
        for ping in pings {
            wire.extend(frame(FIN | PING, *key, ping));
        }
        let opcode = if in_message { CONTINUATION } else { BINARY };
        wire.extend(frame(if *last { FIN } else { 0 } | opcode, *key, payload));
        in_message = !last;
    }
    wire
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_frames_in_any_pieces_give_the_sent_bytes(
        pieces in vec(piece(), 0..6),
        cuts in vec(1_usize..400, 0..60),
    ) {
        let seen = receive(&mut open(), &wire_of(&pieces), &cuts);
        let sent: Vec<u8> = pieces.iter().flat_map(|piece| piece.payload.iter().copied()).collect();
        prop_assert!(seen.mqtt == sent);
        prop_assert_eq!(seen.end_reason, None);
        let pings = pieces.iter().flat_map(|piece| &piece.pings);
        prop_assert!(frames(&seen.said).into_iter().eq(pings.map(|ping| (PONG, ping.clone()))));
    }

    #[test]
    fn any_bytes_are_handled_the_same_in_any_pieces(
        start in vec(piece(), 0..3),
        noise in vec(any::<u8>(), 0..300),
        cuts in vec(1_usize..20, 0..200),
    ) {
        let wire = [wire_of(&start), noise].concat();
        let whole = receive(&mut open(), &wire, &[]);
        prop_assert!(receive(&mut open(), &wire, &cuts) == whole);
        let bytes: Vec<usize> = vec![1; wire.len().min(2000)];
        prop_assert!(receive(&mut open(), &wire, &bytes) == whole);
    }

    #[test]
    fn output_written_in_any_steps_is_valid_frames(
        batches in vec((payload(), any::<bool>()), 1..6),
        step in 1_usize..5000,
    ) {
        let mut websocket = open();
        let mut wire = Vec::new();
        let mut sent = Vec::new();
        let mut pongs = 0;
        for (mqtt, pinged) in &batches {
            if *pinged {
                receive_ping(&mut websocket);
                pongs += 1;
            }
            wire.extend(take(&mut websocket, mqtt, step));
            sent.extend_from_slice(mqtt);
        }
        websocket.close(CloseCode::NORMAL);
        wire.extend(take(&mut websocket, &[], step));
        let mut frames = frames(&wire);
        prop_assert_eq!(frames.pop(), Some((CLOSE, vec![0x03, 0xE8])));
        prop_assert_eq!(frames.iter().filter(|(opcode, _)| *opcode == PONG).count(), pongs);
        let binary = frames.iter().filter(|(opcode, _)| *opcode == BINARY);
        let received: Vec<u8> = binary.flat_map(|(_, payload)| payload.iter().copied()).collect();
        prop_assert!(received == sent);
    }
}

fn receive_ping(websocket: &mut tautwire_websocket::WebSocket) {
    assert_eq!(websocket.receive(&mut frame(FIN | PING, [1, 2, 3, 4], b"ping")), 0);
}

#[test]
fn output_that_grows_while_it_is_written_stays_in_frames() {
    let mut websocket = open();
    let (header, mqtt_bytes) = websocket.next(10);
    assert_eq!((header, mqtt_bytes), (&[0x82, 10][..], 10));
    assert_eq!(websocket.written(7), 5);
    // 300 KB more have arrived meanwhile: first the rest of the frame, then the next one.
    assert_eq!(websocket.next(300_005), (&[][..], 5));
    assert_eq!(websocket.written(5), 5);
    let (header, mqtt_bytes) = websocket.next(300_000);
    assert_eq!((header[..2].to_vec(), mqtt_bytes), (vec![0x82, 127], FRAME_OUT_MAX_BYTES));
}

#[test]
fn limits_are_exact() {
    let key = [9, 8, 7, 6];
    for (wire, expected) in [
        (frame(FIN | BINARY, key, &[0; 70_000]), None),
        (frame(FIN | BINARY, key, &[0; 70_001]), Some(Violation::FrameTooLarge)),
        ([frame(BINARY, key, &[0; 60_000]), frame(FIN | CONTINUATION, key, &[0; 40_000])].concat(), None),
        (
            [frame(BINARY, key, &[0; 60_000]), frame(FIN | CONTINUATION, key, &[0; 40_001])].concat(),
            Some(Violation::MessageTooLarge),
        ),
        // The next message is counted from zero.
        ([frame(FIN | BINARY, key, &[0; 60_000]), frame(FIN | BINARY, key, &[0; 60_000])].concat(), None),
    ] {
        let seen = receive(&mut open(), &wire, &[]);
        assert_eq!(seen.end_reason, expected.map(EndReason::Violation));
        let code = expected.map(|_| vec![(CLOSE, 1009_u16.to_be_bytes().to_vec())]);
        assert_eq!(frames(&seen.said), code.unwrap_or_default());
    }
}

#[test]
fn nothing_is_accepted_after_the_end() {
    let key = [0; 4];
    for (end, end_reason) in [
        (
            frame(FIN | CLOSE, key, &CloseCode::GOING_AWAY.as_u16().to_be_bytes()),
            EndReason::Closed(Some(CloseCode::GOING_AWAY)),
        ),
        // [MQTT-6.0.0-1]
        (frame(FIN | TEXT, key, b"text"), EndReason::Violation(Violation::Text)),
    ] {
        let mut websocket = open();
        let wire = [frame(FIN | BINARY, key, b"before"), end, frame(FIN | BINARY, key, b"behind")].concat();
        let seen = receive(&mut websocket, &wire, &[]);
        assert_eq!((seen.mqtt, seen.end_reason), (b"before".to_vec(), Some(end_reason)));
        let later = receive(&mut websocket, &frame(FIN | BINARY, key, b"later"), &[]);
        assert_eq!((later.mqtt, later.end_reason), (Vec::new(), None));
        // Nothing follows the server's Close frame either.
        assert!(take(&mut websocket, b"", 100).is_empty());
    }
}

#[test]
fn pending_output_precedes_the_close_frame() {
    let mut websocket = open();
    websocket.receive(&mut frame(FIN | CLOSE, [1; 4], &[]));
    // The end is not reported before all earlier input has been processed.
    assert_eq!(frames(&take(&mut websocket, b"answer", 3)), [(BINARY, b"answer".to_vec())]);
    assert_eq!(websocket.take_end_reason(), Some(EndReason::Closed(None)));
    assert_eq!(frames(&take(&mut websocket, b"pending", 3)), [(BINARY, b"pending".to_vec()), (CLOSE, Vec::new())]);
}
