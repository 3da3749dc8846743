//! Frames: validity, size limits, and hostile input.

use tautwire_protocol::ReasonCode;

use super::{PINGREQ, PINGRESP, connected, ping, publish};
use crate::support::websocket::{BINARY, CLOSE, CONTINUATION, FIN, Frame, PING, PONG, TEXT, WebSocket, frame, request};
use crate::support::{
    AtMostOnce, Broker, Case, EXPECT_TIMEOUT, Rng, V3_1_1, V5, WillMessage, every_case, every_thread_count,
    every_version,
};
use crate::sys::await_number;

/// [MQTT-6.0.0-2]; 3.1.1: [MQTT-6.0.0-2]. Packets over many frames, many packets in a frame, fragmented messages, control frames between
/// the fragments, and all of it in pieces of any size.
#[test]
fn packets_need_not_be_aligned_with_frames() {
    every_case(|case| {
        let broker = case.broker();
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("t/#", AtMostOnce);
        let mut scatter = Rng(7);
        for round in 0..20 {
            let mut publisher = connected(&broker, case, &format!("publisher-{round}"));
            let count = 40;
            let payloads: Vec<Vec<u8>> = (0..count).map(|n| vec![n as u8; scatter.below(400)]).collect();
            let mut mqtt = Vec::new();
            for payload in &payloads {
                mqtt.extend(publish(&subscriber, "t/x", payload));
            }
            let mut wire = Vec::new();
            let mut rest = &mqtt[..];
            let mut in_message = false;
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(scatter.below(rest.len().min(700)) + 1);
                let last = behind.is_empty() || scatter.below(2) == 0;
                let opcode = if in_message { CONTINUATION } else { BINARY };
                wire.extend(frame(if last { FIN } else { 0 } | opcode, piece));
                in_message = !last;
                rest = behind;
                if scatter.below(4) == 0 {
                    wire.extend(frame(FIN | PONG, b"unasked"));
                }
                if scatter.below(4) == 0 {
                    wire.extend(frame(if in_message { CONTINUATION } else { FIN | PONG }, b""));
                }
            }
            let step = [1 << 20, 1000, 33, 3][round % 4];
            for piece in wire.chunks(step) {
                publisher.send(piece);
            }
            for payload in &payloads {
                assert_eq!(subscriber.receive().payload(), payload);
            }
            ping(&mut publisher);
        }
    });
}

/// [MQTT-6.0.0-1]; 3.1.1: [MQTT-6.0.0-1]. Data before the text frame is processed.
#[test]
fn a_text_frame_closes_the_connection() {
    every_case(|case| {
        let broker = case.broker();
        let mut watcher = broker.connect(case.version, "watcher");
        watcher.subscribe("#", AtMostOnce);
        let mut websocket = WebSocket::open(broker.websocket_address());
        let will = WillMessage::new("will", b"gone");
        let mut bytes = frame(FIN | BINARY, &broker.connecting(case.version, "client").will(will).bytes());
        bytes.extend(frame(FIN | BINARY, &publish(&watcher, "before", b"counts")));
        bytes.extend(frame(FIN | TEXT, b"text"));
        bytes.extend(frame(FIN | BINARY, &PINGREQ));
        websocket.send(&bytes);
        let before = websocket.expect_closed(1003);
        assert_eq!(before[0], 0x20);
        if case.version.is_v5() {
            let disconnect = &before[2 + usize::from(before[1])..];
            assert_eq!((disconnect[0], disconnect[2]), (0xE0, ReasonCode::ProtocolError.as_u8()), "{disconnect:02x?}");
        }
        assert_eq!(watcher.receive().topic(), "before");
        assert_eq!(watcher.receive().topic(), "will");
    });
}

/// RFC 6455 sections 5.1, 5.2, 5.4, 5.5, 7.4: each is closed with the appropriate code.
#[test]
fn invalid_frames_close_the_connection() {
    let first_fragment = frame(BINARY, b"");
    let with = |first: &[u8], then: Vec<u8>| [first, &then].concat();
    let wrong = [
        // Not masked.
        (vec![0x82, 2, 0xC0, 0], 1002),
        // Reserved bits.
        (frame(FIN | 0x40 | BINARY, &PINGREQ), 1002),
        (frame(FIN | 0x20 | BINARY, &PINGREQ), 1002),
        (frame(FIN | 0x10 | PING, b""), 1002),
        // Unknown opcodes.
        (frame(FIN | 0x3, b""), 1002),
        (frame(FIN | 0xB, b""), 1002),
        // Fragmented or oversized control frames.
        (frame(PING, b""), 1002),
        (frame(CLOSE, b""), 1002),
        (frame(FIN | PING, &[0; 126]), 1002),
        // Lengths that are not minimal, or out of range.
        (vec![0x82, 0xFE, 0, 125, 0, 0, 0, 0], 1002),
        (vec![0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0], 1002),
        (vec![0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1002),
        // Messages out of order.
        (frame(FIN | CONTINUATION, b""), 1002),
        (with(&first_fragment, frame(FIN | BINARY, b"")), 1002),
        (with(&first_fragment, frame(FIN | TEXT, b"")), 1003),
        // Invalid Close frames.
        (frame(FIN | CLOSE, &[3]), 1002),
        (frame(FIN | CLOSE, &999_u16.to_be_bytes()), 1002),
        (frame(FIN | CLOSE, &1005_u16.to_be_bytes()), 1002),
        (frame(FIN | CLOSE, &5000_u16.to_be_bytes()), 1002),
        (frame(FIN | CLOSE, &[0x03, 0xE8, 0xFF]), 1007),
    ];
    every_version(|case| {
        let broker = case.broker_set(&["sys.interval_s=1"]);
        for (bytes, code) in &wrong {
            for step in [bytes.len(), 1] {
                let mut websocket = connected(&broker, case, "client");
                for piece in bytes.chunks(step) {
                    // The answer may come before the frame is complete.
                    let _ = std::io::Write::write_all(&mut websocket.stream, piece);
                }
                websocket.expect_closed(*code);
                // Before CONNECT too.
                let mut websocket = WebSocket::open(broker.websocket_address());
                let _ = std::io::Write::write_all(&mut websocket.stream, bytes);
                assert!(websocket.expect_closed(*code).is_empty());
            }
        }
        let mut observer = broker.connect(case.version, "observer");
        let errors = wrong.len() as f64 * 4.0;
        await_number(&mut observer, "tautwire/websocket_errors", |count| count == errors);
    });
}

/// RFC 6455 section 5.5.2: pings are answered with their payload, also in the middle of a message and of a packet.
#[test]
fn pings_are_answered() {
    every_version(|case| {
        let broker = case.broker();
        let mut websocket = connected(&broker, case, "client");
        for payload in [&b""[..], b"payload", &[0xFF; 125]] {
            websocket.send_frame(BINARY, &PINGREQ[..1]);
            websocket.send_frame(FIN | PING, payload);
            assert_eq!(websocket.frame(), Some(Frame { opcode: PONG, payload: payload.to_vec() }));
            websocket.send_frame(FIN | CONTINUATION, &PINGREQ[1..]);
            assert_eq!(websocket.expect_binary(), PINGRESP);
        }
        // An unsolicited Pong is ignored.
        websocket.send_frame(FIN | PONG, b"unasked");
        ping(&mut websocket);
        // Ten pings at once have ten answers, in order.
        let pings: Vec<u8> = (0..10).flat_map(|n| frame(FIN | PING, &[n])).collect();
        websocket.send(&pings);
        for n in 0..10 {
            assert_eq!(websocket.frame(), Some(Frame { opcode: PONG, payload: vec![n] }));
        }
    });
}

/// WebSocket pings are not MQTT: they do not count for keep alive [MQTT-3.1.2-22].
#[test]
fn pings_do_not_keep_a_silent_client_alive() {
    let broker = Broker::start();
    let mut websocket = WebSocket::open(broker.websocket_address());
    websocket.send_frame(FIN | BINARY, &broker.connecting(V5, "client").keep_alive_s(1).bytes());
    assert_eq!(websocket.expect_binary()[0], 0x20);
    let started_at = std::time::Instant::now();
    loop {
        assert!(started_at.elapsed() < EXPECT_TIMEOUT, "pings keep the client alive");
        let _ = std::io::Write::write_all(&mut websocket.stream, &frame(FIN | PING, b"alive"));
        match websocket.frame().expect("a Close frame comes first") {
            Frame { opcode: PONG, .. } => {}
            Frame { opcode: BINARY, payload } => {
                assert_eq!((payload[0], payload[2]), (0xE0, ReasonCode::KeepAliveTimeout.as_u8()));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// For a client that sends pings and does not read, the broker keeps only the newest answers, and counts the dropped ones.
#[test]
fn a_flood_of_unread_pongs_is_bounded() {
    let mut broker = Broker::set(&["sys.interval_s=1"]);
    let mut websocket = connected(&broker, Case { version: V5, threads: 1 }, "flooding");
    let pings: Vec<u8> = (0..1000).flat_map(|_| frame(FIN | PING, &[0; 125])).collect();
    let before = broker.resident_bytes();
    // More than both sockets hold.
    for _ in 0..200 {
        websocket.send(&pings);
    }
    let mut observer = broker.connect(V5, "observer");
    await_number(&mut observer, "tautwire/websocket_pings_skipped", |count| count > 0.0);
    assert!(broker.resident_bytes() < before + 8 * 1024 * 1024);
    assert!(broker.is_running());
}

/// `limits.websocket_frame_bytes`, `limits.websocket_message_bytes`
#[test]
fn frames_and_messages_over_their_limits_are_refused_and_counted() {
    every_version(|case| {
        let limits = ["limits.websocket_frame_bytes=1000", "limits.websocket_message_bytes=1500", "sys.interval_s=1"];
        let broker = case.broker_set(&limits);
        let pings = PINGREQ.repeat(500);
        let answers = |websocket: &mut WebSocket, count: usize| {
            let mut received = 0;
            while received < 2 * count {
                received += websocket.expect_binary().len();
            }
        };
        let mut websocket = connected(&broker, case, "client");
        // The maximum size, repeatedly.
        for _ in 0..3 {
            websocket.send_frame(BINARY, &pings);
            websocket.send_frame(FIN | CONTINUATION, &pings[..500]);
            answers(&mut websocket, 750);
        }
        // One byte more is refused as soon as the header has arrived.
        websocket.send(&frame(FIN | BINARY, &[0; 1001])[..8]);
        let before = websocket.expect_closed(1009);
        if case.version.is_v5() {
            assert_eq!((before[0], before[2]), (0xE0, ReasonCode::PacketTooLarge.as_u8()));
        }
        let mut websocket = connected(&broker, case, "client");
        websocket.send_frame(BINARY, &pings);
        answers(&mut websocket, 500);
        websocket.send_frame(FIN | CONTINUATION, &pings[..502]);
        websocket.expect_closed(1009);
        let mut observer = broker.connect(case.version, "observer");
        await_number(&mut observer, "tautwire/websocket_frames_too_large", |count| count == 2.0);
    });
}

/// The announced length of a frame allocates nothing.
#[test]
fn announced_lengths_reserve_no_memory() {
    let broker = Broker::start();
    let case = Case { version: V5, threads: 1 };
    let announce = |n: usize| {
        let mut websocket = connected(&broker, case, &format!("client-{n}"));
        websocket.send(&[0x82, 0xFF, 0, 0, 0, 0, 1, 0xFF, 0, 0, 1, 2, 3, 4]);
        websocket.send(&[0; 1000]);
        websocket
    };
    // The code that runs for the first time becomes resident.
    let first = announce(50);
    broker.connect(V5, "witness").ping();
    let before = broker.resident_bytes();
    let websockets: Vec<WebSocket> = (0..50).map(announce).collect();
    broker.connect(V5, "witness").ping();
    assert!(broker.resident_bytes() < before + 8 * 1024 * 1024);
    drop((first, websockets));
}

/// Whatever is sent, the broker continues, and connected clients are served.
#[test]
fn random_bytes_affect_no_other_client() {
    every_thread_count(|case| {
        let mut broker = case.broker();
        let mut bystander = broker.connect_websocket(V3_1_1, "bystander");
        let mut scatter = Rng(99);
        for round in 0..150 {
            let mut websocket = WebSocket::dial(broker.websocket_address());
            let mut bytes = Vec::new();
            if round % 3 > 0 {
                bytes.extend(request("/mqtt", &[]).into_bytes());
            }
            if round % 3 > 1 {
                bytes.extend(frame(FIN | BINARY, &broker.connecting(V5, &format!("noise-{round}")).bytes()));
            }
            let start = bytes.len();
            bytes.extend((0..scatter.below(2000)).map(|_| scatter.byte()));
            if round % 2 == 0 && start > 0 {
                // A valid start with a few bytes changed.
                let at = scatter.below(start);
                bytes[at] ^= scatter.byte();
            }
            let _ = std::io::Write::write_all(&mut websocket.stream, &bytes);
            if round % 10 == 0 {
                bystander.ping();
            }
        }
        bystander.ping();
        assert!(broker.is_running());
    });
}

/// One frame per byte: slow for the client, but no memory for the broker.
#[test]
fn a_frame_for_each_byte_is_accepted() {
    every_case(|case| {
        let broker = case.broker();
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("t", AtMostOnce);
        let mut websocket = WebSocket::open(broker.websocket_address());
        let mut mqtt = broker.connecting(case.version, "piecemeal").bytes();
        mqtt.extend(publish(&subscriber, "t", &[7; 3000]));
        let wire: Vec<u8> = mqtt.iter().flat_map(|byte| frame(FIN | BINARY, &[*byte])).collect();
        websocket.send(&wire);
        assert_eq!(subscriber.receive().payload(), [7; 3000]);
    });
}
