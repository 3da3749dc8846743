//! A WebSocket with arbitrary bytes: no panic, the same result however they are split, and the output consists of frames.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tautwire_websocket::{CloseCode, EndReason, FrameLimits, Origins, Path, WebSocket, WebSocketConfig};

const REQUEST: &str = "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

/// The result of a client's bytes.
#[derive(Debug, PartialEq, Eq)]
struct Observed {
    mqtt: Vec<u8>,
    open: bool,
    ending: Option<EndReason>,
    said: Vec<u8>,
}

fuzz_target!(|input: &[u8]| {
    let [how, input @ ..] = input else { return };
    // Half of the inputs are a handshake, the others follow one.
    let wire = if how & 1 == 0 { input.to_vec() } else { [REQUEST.as_bytes(), input].concat() };
    let whole = play(&wire, usize::MAX);
    let step = usize::from(how >> 1) + 1;
    assert_eq!(play(&wire, step), whole, "in pieces of {step} bytes");
    assert!(whole.mqtt.len() <= wire.len());
    assert!(whole.mqtt.is_empty() || whole.open, "no MQTT before the handshake");
    check_output(&whole);
});

fn play(wire: &[u8], step: usize) -> Observed {
    let limits = FrameLimits { frame_bytes: 1000, message_bytes: 1500 };
    let rules = WebSocketConfig { path: Path::default(), origins: Origins::default(), limits };
    let mut websocket = WebSocket::new(Arc::new(rules));
    let mut mqtt = Vec::new();
    for piece in wire.chunks(step) {
        let mut piece = piece.to_vec();
        let len = websocket.receive(&mut piece);
        mqtt.extend_from_slice(&piece[..len]);
    }
    let (open, ending) = (websocket.is_open(), websocket.take_end_reason());
    websocket.close(CloseCode::NORMAL);
    // Everything received is echoed, a few bytes at a time.
    let echo: &[u8] = if open { &mqtt } else { &[] };
    let mut said = Vec::new();
    let mut taken = 0;
    loop {
        let (ahead, count) = websocket.next(echo.len() - taken);
        let all = [ahead, &echo[taken..taken + count]].concat();
        if all.is_empty() {
            break;
        }
        let written = all.len().min(7);
        said.extend_from_slice(&all[..written]);
        taken += websocket.written(written);
    }
    assert_eq!(taken, echo.len());
    assert!(!websocket.has_output(0));
    Observed { mqtt, open, ending, said }
}

/// One HTTP response; then, if it accepts, frames with the echoed bytes, and a Close frame at the end.
fn check_output(seen: &Observed) {
    let end = seen.said.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer") + 4;
    let (answer, mut frames) = seen.said.split_at(end);
    assert_eq!(answer.starts_with(b"HTTP/1.1 101 "), seen.open);
    if !seen.open {
        return;
    }
    let mut echoed = Vec::new();
    let mut closed = false;
    while !frames.is_empty() {
        assert!(!closed, "nothing follows a Close frame");
        let (header, length) = match frames[1] {
            126 => (4, usize::from(u16::from_be_bytes([frames[2], frames[3]]))),
            127 => panic!("no input is this long"),
            length => (2, usize::from(length)),
        };
        let payload = &frames[header..header + length];
        match frames[0] {
            0x82 => echoed.extend_from_slice(payload),
            0x88 => closed = true,
            0x8A => assert!(length <= 125),
            other => panic!("a frame that begins with {other:#x}"),
        }
        frames = &frames[header + length..];
    }
    assert!(closed && echoed == seen.mqtt);
}
