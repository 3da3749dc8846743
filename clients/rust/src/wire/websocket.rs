//! The client side of WebSocket (RFC 6455) as far as MQTT needs it (MQTT 5.0 section 6): binary frames that carry
//! packets independent of packet boundaries [MQTT-6.0.0-2].

use std::hash::{BuildHasher as _, RandomState};

use crate::options::Headers;
use crate::{Error, Options};

/// The maximum size of the server's handshake response.
const RESPONSE_MAX_BYTES: usize = 16 << 10;
/// The maximum payload of a control frame (section 5.5 of the RFC).
const CONTROL_MAX_BYTES: usize = 125;
/// Appended to the key before it is hashed (section 1.3 of the RFC).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
const CONTINUATION: u8 = 0x0;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

pub(super) struct WebSocketLayer {
    host: String,
    path: String,
    headers: Headers,
    key: String,
    is_ready: bool,
    is_closed: bool,
    /// Received bytes that are not yet handled: a partial handshake response or frame header.
    pending: Vec<u8>,
    frame: Option<Frame>,
    /// A fragmented message has begun and is not complete.
    in_message: bool,
    max_frame_bytes: u64,
    masks: Masks,
}

/// The frame whose payload is being received.
struct Frame {
    opcode: u8,
    left: u64,
    /// The payload of a control frame so far.
    control: Vec<u8>,
}

/// Masking keys. They must be unpredictable for the author of the payload (section 10.3 of the RFC), so each is the
/// output of a keyed hash with a random key for each connection.
struct Masks {
    hasher: RandomState,
    count: u64,
}

impl Masks {
    fn next(&mut self) -> [u8; 4] {
        self.count += 1;
        let [a, b, c, d, ..] = self.hasher.hash_one(self.count).to_be_bytes();
        [a, b, c, d]
    }
}

impl WebSocketLayer {
    pub(super) fn new(options: &Options) -> WebSocketLayer {
        let server = &options.server;
        let (high, low) = (RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        let key = [high.to_be_bytes(), low.to_be_bytes()].concat();
        WebSocketLayer {
            host: server.authority(),
            path: server.path.clone(),
            headers: options.headers.clone(),
            key: base64(&key),
            is_ready: false,
            is_closed: false,
            pending: Vec::new(),
            frame: None,
            in_message: false,
            // A frame may carry several packets, but a larger one than this is never needed.
            max_frame_bytes: u64::from(options.maximum_packet_size_bytes).max(1 << 30),
            masks: Masks { hasher: RandomState::new(), count: 0 },
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// The upgrade request, with the subprotocol that MQTT requires [MQTT-6.0.0-3].
    pub(super) fn request(&self) -> Vec<u8> {
        format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {}\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n{}\r\n",
            self.path,
            self.host,
            self.key,
            self.headers.lines()
        )
        .into_bytes()
    }

    /// Appends one masked binary frame with `packets`.
    pub(super) fn frame(&mut self, packets: &[u8], out: &mut Vec<u8>) {
        if !packets.is_empty() && !self.is_closed {
            self.write(BINARY, packets, out);
        }
    }

    /// Appends a Close frame: normal closure.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        if self.is_ready && !std::mem::replace(&mut self.is_closed, true) {
            self.write(CLOSE, &1000u16.to_be_bytes(), out);
        }
    }

    /// Reads packets from received bytes. Replies of WebSocket itself are written to `out`.
    pub(super) fn read(&mut self, bytes: &[u8], packets: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.is_ready && self.pending.is_empty() {
            let rest = self.read_frames(bytes, packets, out)?;
            self.pending = bytes[bytes.len() - rest..].to_vec();
            return Ok(());
        }
        let mut all = std::mem::take(&mut self.pending);
        all.extend_from_slice(bytes);
        if !self.is_ready {
            let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") else {
                if all.len() > RESPONSE_MAX_BYTES {
                    return Err(failed("the handshake response is too long"));
                }
                self.pending = all;
                return Ok(());
            };
            self.check_response(&all[..end])?;
            self.is_ready = true;
            all.drain(..end + 4);
        }
        let rest = self.read_frames(&all, packets, out)?;
        self.pending = all.split_off(all.len() - rest);
        Ok(())
    }

    fn check_response(&self, response: &[u8]) -> Result<(), Error> {
        let text = std::str::from_utf8(response).map_err(|_| failed("the handshake response is not text"))?;
        let mut lines = text.split("\r\n");
        let status = lines.next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("101") || !status.starts_with("HTTP/1.1") {
            let shown: String = status.chars().filter(|c| !c.is_control()).take(80).collect();
            return Err(failed(format!("the server answered {shown}")));
        }
        let fields: Vec<(String, &str)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim()))
            .collect();
        let field = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        let is_upgraded = field("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
            && field("connection")
                .is_some_and(|value| value.split(',').any(|word| word.trim().eq_ignore_ascii_case("upgrade")));
        if !is_upgraded {
            return Err(failed("the server did not upgrade the connection"));
        }
        if field("sec-websocket-accept") != Some(accept_key(&self.key).as_str()) {
            return Err(failed("the server's response does not match this request (Sec-WebSocket-Accept)"));
        }
        if field("sec-websocket-protocol") != Some("mqtt") {
            // [MQTT-6.0.0-4]
            return Err(failed("the server did not choose the subprotocol mqtt"));
        }
        if field("sec-websocket-extensions").is_some_and(|value| !value.is_empty()) {
            return Err(failed("the server chose an extension that was not offered"));
        }
        Ok(())
    }

    /// Reads frames; returns how many bytes at the end are a partial header.
    fn read_frames(&mut self, mut bytes: &[u8], packets: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<usize, Error> {
        loop {
            let mut frame = match self.frame.take() {
                Some(frame) => frame,
                None => match self.read_header(bytes)? {
                    Some((frame, header_len)) => {
                        bytes = &bytes[header_len..];
                        frame
                    }
                    None => return Ok(bytes.len()),
                },
            };
            let take = usize::try_from(frame.left).unwrap_or(usize::MAX).min(bytes.len());
            let (payload, rest) = bytes.split_at(take);
            bytes = rest;
            frame.left -= take as u64;
            if frame.opcode < CLOSE {
                packets.extend_from_slice(payload)
            } else {
                frame.control.extend_from_slice(payload)
            }
            if frame.left > 0 {
                self.frame = Some(frame);
                return Ok(0);
            }
            match frame.opcode {
                PING if !self.is_closed => self.write(PONG, &frame.control, out),
                CLOSE => {
                    self.close(out);
                    let code = frame.control.first_chunk::<2>().map_or(1005, |code| u16::from_be_bytes(*code));
                    // Deliver earlier packets first; the end of the connection follows.
                    if packets.is_empty() {
                        return Err(Error::lost(format_args!("the server closed the WebSocket with code {code}")));
                    }
                    return Ok(0);
                }
                _ => {}
            }
        }
    }

    fn read_header(&mut self, bytes: &[u8]) -> Result<Option<(Frame, usize)>, Error> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        let (opcode, is_final) = (first & 0x0F, first & FINAL != 0);
        if first & RESERVED != 0 {
            return Err(Error::Protocol("WebSocket frame with reserved bits set"));
        }
        if second & MASKED != 0 {
            return Err(Error::Protocol("masked WebSocket frame"));
        }
        let (left, header_len) = match second & 0x7F {
            126 => match rest.first_chunk::<2>() {
                Some(len) => (u64::from(u16::from_be_bytes(*len)), 4),
                None => return Ok(None),
            },
            127 => match rest.first_chunk::<8>() {
                Some(len) => (u64::from_be_bytes(*len), 10),
                None => return Ok(None),
            },
            len => (u64::from(len), 2),
        };
        match opcode {
            BINARY if !self.in_message => self.in_message = !is_final,
            CONTINUATION if self.in_message => self.in_message = !is_final,
            CLOSE | PING | PONG if is_final && left <= CONTROL_MAX_BYTES as u64 => {}
            // [MQTT-6.0.0-1]
            _ => return Err(Error::Protocol("unexpected WebSocket frame")),
        }
        if left > self.max_frame_bytes {
            return Err(Error::Protocol("WebSocket frame too large"));
        }
        Ok(Some((Frame { opcode, left, control: Vec::new() }, header_len)))
    }

    fn write(&mut self, opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
        out.push(FINAL | opcode);
        match payload.len() {
            len @ 0..=125 => out.push(MASKED | len as u8),
            len @ 126..=0xFFFF => {
                out.push(MASKED | 126);
                out.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                out.push(MASKED | 127);
                out.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        let mask = self.masks.next();
        out.extend_from_slice(&mask);
        let start = out.len();
        out.extend_from_slice(payload);
        let word = u32::from_ne_bytes(mask);
        let mut words = out[start..].chunks_exact_mut(4);
        for chunk in &mut words {
            if let Some(four) = chunk.first_chunk_mut::<4>() {
                *four = (u32::from_ne_bytes(*four) ^ word).to_ne_bytes();
            }
        }
        for (byte, key) in words.into_remainder().iter_mut().zip(mask) {
            *byte ^= key;
        }
    }
}

fn failed(what: impl Into<Box<str>>) -> Error {
    Error::WebSocketRefused(what.into())
}

/// The server's response to `key` (section 4.2.2 of the RFC). The hash protects nothing: it shows that the server
/// speaks WebSocket.
fn accept_key(key: &str) -> String {
    base64(&sha1_smol::Sha1::from(format!("{key}{GUID}")).digest().bytes())
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| three.get(at).copied().map_or(0, u32::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let shown = DIGITS[(bits >> (18 - 6 * digit) & 63) as usize];
            text.push(if digit <= three.len() { char::from(shown) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer() -> WebSocketLayer {
        let options = Options::new("ws://h").expect("an address");
        WebSocketLayer { key: "dGhlIHNhbXBsZSBub25jZQ==".into(), ..WebSocketLayer::new(&options) }
    }

    #[test]
    fn the_request_has_the_headers_of_the_application() {
        let options = Options::new("ws://h/p").expect("an address");
        let options = options.websocket_header("Authorization", "Bearer t").expect("a header");
        let request = String::from_utf8(WebSocketLayer::new(&options).request()).expect("text");
        assert!(request.starts_with("GET /p HTTP/1.1\r\nHost: h:80\r\n"), "{request}");
        assert!(request.ends_with("Sec-WebSocket-Protocol: mqtt\r\nAuthorization: Bearer t\r\n\r\n"), "{request}");
    }

    fn response(layer: &WebSocketLayer) -> Vec<u8> {
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
            accept_key(&layer.key)
        )
        .into_bytes()
    }

    #[test]
    fn the_accept_key_matches_the_rfc() {
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(base64(b"a"), "YQ==");
        assert_eq!(base64(b"ab"), "YWI=");
    }

    #[test]
    fn frames_arrive_whole_however_they_are_split() {
        let mut all = response(&layer());
        all.extend_from_slice(&[0x02, 3, 1, 2, 3, 0x89, 1, b'p', 0x80, 2, 4, 5, 0x82, 126, 0, 130]);
        all.extend_from_slice(&[7; 130]);
        for cut in 1..all.len() {
            let (mut layer, mut packets, mut answers) = (layer(), Vec::new(), Vec::new());
            for part in [&all[..cut], &all[cut..]] {
                layer.read(part, &mut packets, &mut answers).expect("valid");
            }
            assert_eq!(packets[..5], [1, 2, 3, 4, 5], "cut at {cut}");
            assert_eq!(packets[5..], [7; 130]);
            assert_eq!(answers[..2], [0x8A, 0x81], "a masked Pong");
            assert_eq!(answers[6] ^ answers[2], b'p');
        }
    }

    #[test]
    fn sent_frames_are_masked_and_have_their_length() {
        for len in [1, 125, 126, 65_535, 65_536] {
            let mut layer = layer();
            let mut out = Vec::new();
            layer.frame(&vec![9; len], &mut out);
            let header = match len {
                0..=125 => 2,
                126..=65_535 => 4,
                _ => 10,
            };
            assert_eq!(out.len(), header + 4 + len);
            let mask = &out[header..header + 4].to_vec();
            assert!(out[header + 4..].iter().zip(mask.iter().cycle()).all(|(byte, key)| byte ^ key == 9));
        }
    }

    #[test]
    fn invalid_frames_of_a_server_are_refused() {
        let good = response(&layer());
        for wrong in [
            String::from_utf8_lossy(&good).replace("101", "200"),
            String::from_utf8_lossy(&good).replace("mqtt", "chat"),
            String::from_utf8_lossy(&good).replace("s3pP", "s3pQ"),
        ] {
            assert!(layer().read(wrong.as_bytes(), &mut Vec::new(), &mut Vec::new()).is_err(), "{wrong}");
        }
        for frame in
            [&[0x81, 1, b'x'][..], &[0x82, 0x81, 0, 0, 0, 0, 1], &[0xC2, 0], &[0x80, 0], &[0x09, 0], &[0x88, 0]]
        {
            let mut layer = layer();
            layer.read(&good, &mut Vec::new(), &mut Vec::new()).expect("valid");
            assert!(layer.read(frame, &mut Vec::new(), &mut Vec::new()).is_err(), "{frame:?}");
        }
        assert!(layer().read(&vec![b'x'; RESPONSE_MAX_BYTES + 1], &mut Vec::new(), &mut Vec::new()).is_err());
    }
}
