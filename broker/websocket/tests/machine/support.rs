//! A client's bytes, and the server side of the connection with a socket that accepts any number of bytes.

use std::sync::Arc;

use tautwire_websocket::{EndReason, FrameLimits, Origins, Path, WebSocket, WebSocketConfig};

pub(crate) const FIN: u8 = 0x80;
pub(crate) const CONTINUATION: u8 = 0x0;
pub(crate) const TEXT: u8 = 0x1;
pub(crate) const BINARY: u8 = 0x2;
pub(crate) const CLOSE: u8 = 0x8;
pub(crate) const PING: u8 = 0x9;
pub(crate) const PONG: u8 = 0xA;

pub(crate) const REQUEST: &str = "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

pub(crate) fn config() -> Arc<WebSocketConfig> {
    let limits = FrameLimits { frame_bytes: 70_000, message_bytes: 100_000 };
    Arc::new(WebSocketConfig { path: Path::default(), origins: Origins::default(), limits })
}

/// The result of receiving a client's bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// The MQTT bytes.
    pub(crate) mqtt: Vec<u8>,
    pub(crate) end_reason: Option<EndReason>,
    /// The server's own output.
    pub(crate) said: Vec<u8>,
}

/// The server side, after the handshake.
pub(crate) fn open() -> WebSocket {
    let mut websocket = WebSocket::new(config());
    assert_eq!(websocket.receive(&mut REQUEST.as_bytes().to_vec()), 0);
    assert!(websocket.is_open());
    let answer = take(&mut websocket, &[], usize::MAX);
    assert!(answer.starts_with(b"HTTP/1.1 101 "));
    websocket
}

/// Passes `wire` in pieces of these lengths; the last piece is the rest.
pub(crate) fn receive(websocket: &mut WebSocket, wire: &[u8], pieces: &[usize]) -> Observed {
    let mut seen = Observed::default();
    let mut rest = wire;
    let mut pieces = pieces.iter().copied().chain(std::iter::repeat(wire.len().max(1)));
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(pieces.next().unwrap_or(1).clamp(1, rest.len()));
        let mut piece = piece.to_vec();
        let mqtt_bytes = websocket.receive(&mut piece);
        seen.mqtt.extend_from_slice(&piece[..mqtt_bytes]);
        rest = behind;
    }
    seen.end_reason = websocket.take_end_reason();
    seen.said = take(websocket, &[], usize::MAX);
    seen
}

/// Writes all output, `mqtt` included, `step` bytes at a time.
pub(crate) fn take(websocket: &mut WebSocket, mqtt: &[u8], step: usize) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut taken = 0;
    loop {
        let pending_bytes = mqtt.len() - taken;
        let (ahead, mqtt_bytes) = websocket.next(pending_bytes);
        assert!(mqtt_bytes <= pending_bytes);
        let all = [ahead, &mqtt[taken..taken + mqtt_bytes]].concat();
        if all.is_empty() {
            assert!(!websocket.has_output(pending_bytes));
            return wire;
        }
        let count = all.len().min(step);
        wire.extend_from_slice(&all[..count]);
        taken += websocket.written(count);
    }
}

/// A client's frame; `first` is its first byte, flags and opcode.
pub(crate) fn frame(first: u8, key: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | length as u8),
        length @ 126..=0xFFFF => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&key);
    bytes.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]));
    bytes
}

/// The server's frames: opcode and payload of each.
pub(crate) fn frames(mut wire: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [first, length, rest @ ..] = wire {
        assert_eq!(first & 0xF0, FIN, "whole, and without reserved bits");
        let (length, rest) = match length {
            126 => (u64::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
            127 => (rest[..8].iter().fold(0, |length, byte| length << 8 | u64::from(*byte)), &rest[8..]),
            // Not masked.
            length => (u64::from(*length), rest),
        };
        let (payload, behind) = rest.split_at(length as usize);
        frames.push((first & 0x0F, payload.to_vec()));
        wire = behind;
    }
    assert!(wire.is_empty());
    frames
}
