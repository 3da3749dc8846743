//! The opening handshake (RFC 6455 section 4.2): one HTTP request and its response.

mod accept_key;
mod origin;
mod path;
mod refusal;
mod request;

pub use origin::{AllowedOrigin, Origins};
pub use path::Path;
pub use refusal::HandshakeRefusal;

use crate::config::WebSocketConfig;
use accept_key::accept_key;
use request::Request;

/// The subprotocol of MQTT over WebSocket [MQTT-6.0.0-3], [MQTT-6.0.0-4].
pub const SUBPROTOCOL: &str = "mqtt";
/// Maximum length of a request head.
pub const REQUEST_HEAD_MAX_BYTES: usize = 8 << 10;

const HEAD_END: &[u8] = b"\r\n\r\n";
/// The only version (section 4.1).
const WEBSOCKET_VERSION: &str = "13";

/// An incomplete handshake request.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    head: Vec<u8>,
}

/// The result of feeding bytes to a handshake.
pub(crate) enum HandshakeProgress {
    /// The request is incomplete.
    Incomplete,
    /// The handshake is complete: frames begin after the first `consumed` bytes of the last input.
    Accepted {
        consumed: usize,
        answer: String,
    },
    Refused(HandshakeRefusal),
}

impl Handshake {
    /// Processes received bytes.
    pub(crate) fn advance(&mut self, bytes: &[u8], config: &WebSocketConfig) -> HandshakeProgress {
        let before = self.head.len();
        let room = REQUEST_HEAD_MAX_BYTES - before;
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        // Reject anything but HTTP at once: its sender might wait for an answer forever.
        if self.head.first().is_some_and(|first| !first.is_ascii_uppercase()) {
            return HandshakeProgress::Refused(HandshakeRefusal::Malformed("the request line is not HTTP"));
        }
        let searched = before.saturating_sub(HEAD_END.len() - 1);
        let Some(found) = self.head[searched..].windows(HEAD_END.len()).position(|window| window == HEAD_END) else {
            if self.head.len() == REQUEST_HEAD_MAX_BYTES {
                return HandshakeProgress::Refused(HandshakeRefusal::HeadTooLarge);
            }
            return HandshakeProgress::Incomplete;
        };
        let end = searched + found + HEAD_END.len();
        // Keep the line end of the last field, so that all lines have one.
        match answer(&self.head[..end - 2], config) {
            Ok(answer) => HandshakeProgress::Accepted { consumed: end - before, answer },
            Err(refusal) => HandshakeProgress::Refused(refusal),
        }
    }
}

fn answer(head: &[u8], config: &WebSocketConfig) -> Result<String, HandshakeRefusal> {
    let request = Request::parse(head)?;
    if request.method != "GET" {
        return Err(HandshakeRefusal::Method);
    }
    if !config.path.matches_target(request.target) {
        return Err(HandshakeRefusal::NotFound);
    }
    if !request.has_token("upgrade", "websocket") || !request.has_token("connection", "upgrade") {
        return Err(HandshakeRefusal::NotWebSocket);
    }
    let host = request.single("host")?.ok_or(HandshakeRefusal::Malformed("the Host header is missing"))?;
    if let Some(origin) = request.single("origin")?
        && !config.origins.allow(origin, host)
    {
        return Err(HandshakeRefusal::Origin(origin.to_owned()));
    }
    if request.single("sec-websocket-version")? != Some(WEBSOCKET_VERSION) {
        return Err(HandshakeRefusal::WebSocketVersion);
    }
    let key = request
        .single("sec-websocket-key")?
        .and_then(accept_key)
        .ok_or(HandshakeRefusal::Malformed("the Sec-WebSocket-Key header is not 16 bytes in base64"))?;
    // [MQTT-6.0.0-3], [MQTT-6.0.0-4]; names of subprotocols are case-sensitive.
    if !request.items("sec-websocket-protocol").any(|name| name == SUBPROTOCOL) {
        return Err(HandshakeRefusal::Subprotocol);
    }
    Ok(format!(
        "HTTP/1.1 101 Switching Protocols\r\n\
         Upgrade: websocket\r\n\
         Connection: Upgrade\r\n\
         Sec-WebSocket-Accept: {key}\r\n\
         Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\
         \r\n"
    ))
}
