//! The client side of WebSocket, one frame at a time, valid or not.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::client::EXPECT_TIMEOUT;

/// A valid Sec-WebSocket-Key, and the value that the server derives from it.
pub(crate) const KEY: &str = "AQIDBAUGBwgJCgsMDQ4PEA==";
const ACCEPTED: &str = "C/0nmHhBztSRGR1CwL6Tf4ZjwpY=";

pub(crate) const CONTINUATION: u8 = 0x0;
pub(crate) const TEXT: u8 = 0x1;
pub(crate) const BINARY: u8 = 0x2;
pub(crate) const CLOSE: u8 = 0x8;
pub(crate) const PING: u8 = 0x9;
pub(crate) const PONG: u8 = 0xA;
/// The FIN flag.
pub(crate) const FIN: u8 = 0x80;

const MASK: [u8; 4] = [0xA5, 0x00, 0x3C, 0xFF];

/// A frame from the broker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) opcode: u8,
    pub(crate) payload: Vec<u8>,
}

/// One connection.
pub(crate) struct WebSocket {
    pub(crate) stream: TcpStream,
}

impl WebSocket {
    /// A TCP connection on which nothing has been sent.
    pub(crate) fn dial(address: SocketAddr) -> WebSocket {
        let stream = TcpStream::connect(address).expect("the broker accepts connections");
        stream.set_nodelay(true).expect("a TCP socket takes TCP_NODELAY");
        stream.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("a positive time is a valid timeout");
        WebSocket { stream }
    }

    /// A connection after the handshake.
    pub(crate) fn open(address: SocketAddr) -> WebSocket {
        let mut websocket = WebSocket::dial(address);
        websocket.try_open().expect("the broker does not close the connection");
        websocket
    }

    /// Completes the handshake, unless the broker closes the connection.
    pub(crate) fn try_open(&mut self) -> Option<()> {
        self.stream.write_all(request("/mqtt", &[]).as_bytes()).ok()?;
        let answer = self.read_answer().ok()?;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        Some(())
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the broker accepts the data");
    }

    /// Sends a frame; `first` is its first byte, with flags and opcode.
    pub(crate) fn send_frame(&mut self, first: u8, payload: &[u8]) {
        self.send(&frame(first, payload));
    }

    /// The response to the handshake.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> String {
        self.read_answer().expect("the broker answers the handshake")
    }

    /// Reads byte by byte to leave the following data unread.
    fn read_answer(&mut self) -> std::io::Result<String> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        Ok(String::from_utf8(head).expect("the answer is ASCII"))
    }

    /// [MQTT-6.0.0-4]
    #[track_caller]
    pub(crate) fn expect_open(&mut self) {
        let answer = self.answer();
        let mut lines = answer.trim_end().split("\r\n");
        assert_eq!(lines.next(), Some("HTTP/1.1 101 Switching Protocols"), "{answer}");
        let mut fields: Vec<&str> = lines.collect();
        fields.sort_unstable();
        let accept = format!("Sec-WebSocket-Accept: {ACCEPTED}");
        // No extensions are offered.
        assert_eq!(
            fields,
            ["Connection: Upgrade", &accept, "Sec-WebSocket-Protocol: mqtt", "Upgrade: websocket"],
            "{answer}"
        );
    }

    /// Expects a complete error response and the end of the connection. Returns its status and the additional header fields.
    #[track_caller]
    pub(crate) fn expect_refused(&mut self) -> (u16, String) {
        let head = self.answer();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let mut body = String::new();
        self.stream.read_to_string(&mut body).expect("the broker closes");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}{body}");
        assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
        (status, head)
    }

    /// The next frame; `None` at the end of the connection.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        let mut first = [0];
        match self.stream.read_exact(&mut first) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => return None,
            Err(error) => panic!("no frame arrived: {error}"),
        }
        let length = self.bytes::<1>()[0];
        let length = match length {
            126 => u64::from(u16::from_be_bytes(self.bytes())),
            127 => u64::from_be_bytes(self.bytes()),
            // RFC 6455 section 5.1: servers do not mask frames.
            length => u64::from(length),
        };
        assert_eq!(first[0] & 0x70, 0, "no extension was agreed on");
        assert_eq!(first[0] & FIN, FIN, "the broker sends whole messages");
        let mut payload = vec![0; usize::try_from(length).expect("a length that fits memory")];
        self.stream.read_exact(&mut payload).expect("a whole frame");
        Some(Frame { opcode: first[0] & 0x0F, payload })
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).expect("a whole frame");
        bytes
    }

    /// Expects a frame of MQTT and returns its payload [MQTT-6.0.0-1].
    #[track_caller]
    pub(crate) fn expect_binary(&mut self) -> Vec<u8> {
        let frame = self.frame().expect("the broker sends a frame");
        assert_eq!(frame.opcode, BINARY, "{frame:?}");
        frame.payload
    }

    /// Expects a Close frame with this code, possibly after MQTT data, and then the end of the connection. Returns the data before it.
    #[track_caller]
    pub(crate) fn expect_closed(&mut self, code: u16) -> Vec<u8> {
        let mut before = Vec::new();
        loop {
            let frame = self.frame().expect("a Close frame comes before the end of the connection");
            match frame.opcode {
                BINARY => before.extend(frame.payload),
                CLOSE => {
                    assert_eq!(frame.payload, code.to_be_bytes(), "expected code {code}");
                    break;
                }
                _ => {}
            }
        }
        assert_eq!(self.frame(), None, "nothing follows a Close frame");
        before
    }
}

/// A valid request, with some fields replaced; an empty value removes the field.
pub(crate) fn request(target: &str, changed: &[(&str, &str)]) -> String {
    let usual = [
        ("Host", "127.0.0.1"),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", KEY),
        ("Sec-WebSocket-Protocol", "mqtt"),
    ];
    let mut text = format!("GET {target} HTTP/1.1\r\n");
    let kept = usual.iter().filter(|(name, _)| !changed.iter().any(|(other, _)| other == name));
    for (name, value) in kept.chain(changed).filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n"
}

/// A masked frame; `first` is its first byte, with flags and opcode.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
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
    bytes.extend_from_slice(&MASK);
    bytes.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ MASK[at % 4]));
    bytes
}
