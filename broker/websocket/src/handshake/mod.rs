//! The opening handshake (RFC 6455 section 4.2): one HTTP request, one answer.

mod accept_key;
mod origin;
mod path;
mod refusal;
mod request;

pub use origin::{AllowedOrigin, Origins};
pub use path::Path;
pub use refusal::HandshakeRefusal;

use crate::websocket::WebSocketConfig;
use accept_key::accept_key;
use request::Request;

/// The name under which MQTT is spoken over WebSocket [MQTT-6.0.0-3], [MQTT-6.0.0-4].
pub const SUBPROTOCOL: &str = "mqtt";
/// Longest request head that is taken.
pub const REQUEST_HEAD_MAX_BYTES: usize = 8 << 10;

const HEAD_END: &[u8] = b"\r\n\r\n";
/// The only version there is (section 4.1).
const WEBSOCKET_VERSION: &str = "13";

/// A request that is not whole.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    head: Vec<u8>,
}

/// What has become of a handshake.
pub(crate) enum HandshakeProgress {
    /// More of the request is to come.
    Incomplete,
    /// The client may go on: frames begin behind the first `consumed` bytes of what came last.
    Accepted {
        consumed: usize,
        answer: String,
    },
    Refused(HandshakeRefusal),
}

impl Handshake {
    /// Takes in what has come.
    pub(crate) fn advance(&mut self, bytes: &[u8], config: &WebSocketConfig) -> HandshakeProgress {
        let before = self.head.len();
        let room = REQUEST_HEAD_MAX_BYTES - before;
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        // Something else than HTTP is told so at once: it might wait for an answer for ever.
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
        // The line end of the last field stays, so that all lines have one.
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
    let host = request.single("host")?.ok_or(HandshakeRefusal::Malformed("the field Host is missing"))?;
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
        .ok_or(HandshakeRefusal::Malformed("the field Sec-WebSocket-Key is not 16 bytes in base64"))?;
    // [MQTT-6.0.0-3], [MQTT-6.0.0-4]; names of subprotocols are compared as they are.
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
