//! Responses to handshakes that are refused.

use std::fmt;

/// Why a handshake was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeRefusal {
    /// Not an HTTP/1.1 request, or a header is missing or wrong: 400.
    Malformed(&'static str),
    /// The subprotocol `mqtt` was not offered [MQTT-6.0.0-3]: 400.
    Subprotocol,
    /// Pages of this origin may not connect: 403.
    Origin(String),
    /// Another path than the listener's: 404.
    NotFound,
    /// Another method than GET: 405.
    Method,
    /// The request was not complete in time: 408.
    TooSlow,
    /// An HTTP request without an upgrade to WebSocket: 426.
    NotWebSocket,
    /// A WebSocket version other than 13: 426.
    WebSocketVersion,
    /// The request head exceeds [`REQUEST_HEAD_MAX_BYTES`](crate::REQUEST_HEAD_MAX_BYTES): 431.
    HeadTooLarge,
    /// The server is shutting down: 503.
    Stopping,
    /// An HTTP version other than 1.1: 505.
    HttpVersion,
}

impl HandshakeRefusal {
    /// The status code of the response, with its name.
    pub fn status(&self) -> &'static str {
        match self {
            HandshakeRefusal::Malformed(_) | HandshakeRefusal::Subprotocol => "400 Bad Request",
            HandshakeRefusal::Origin(_) => "403 Forbidden",
            HandshakeRefusal::NotFound => "404 Not Found",
            HandshakeRefusal::Method => "405 Method Not Allowed",
            HandshakeRefusal::TooSlow => "408 Request Timeout",
            HandshakeRefusal::NotWebSocket | HandshakeRefusal::WebSocketVersion => "426 Upgrade Required",
            HandshakeRefusal::HeadTooLarge => "431 Request Header Fields Too Large",
            HandshakeRefusal::Stopping => "503 Service Unavailable",
            HandshakeRefusal::HttpVersion => "505 HTTP Version Not Supported",
        }
    }

    /// The reason for the client. It never echoes the request.
    fn reason(&self) -> &'static str {
        match self {
            HandshakeRefusal::Malformed(why) => why,
            HandshakeRefusal::Subprotocol => "offer the WebSocket subprotocol mqtt",
            HandshakeRefusal::Origin(_) => {
                "pages of this origin may not connect; websocket.allowed_origins lists those that may"
            }
            HandshakeRefusal::NotFound => "MQTT is not served here",
            HandshakeRefusal::Method => "a WebSocket handshake requires GET",
            HandshakeRefusal::TooSlow => "the request was not complete in time",
            HandshakeRefusal::NotWebSocket => {
                "this is an endpoint for MQTT over WebSocket; connect with ws:// or wss://"
            }
            HandshakeRefusal::WebSocketVersion => "this server supports only WebSocket version 13",
            HandshakeRefusal::HeadTooLarge => "the request is too large",
            HandshakeRefusal::Stopping => "the server is shutting down",
            HandshakeRefusal::HttpVersion => "this server supports only HTTP/1.1",
        }
    }

    /// Headers that belong to the status.
    fn fields(&self) -> &'static str {
        match self {
            HandshakeRefusal::Method => "Allow: GET\r\n",
            HandshakeRefusal::NotWebSocket => "Upgrade: websocket\r\n",
            // Section 4.2.2, item 4.
            HandshakeRefusal::WebSocketVersion => "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
            _ => "",
        }
    }

    /// The whole response, after which the connection is closed.
    pub(crate) fn answer(&self) -> String {
        let (status, fields, why) = (self.status(), self.fields(), self.reason());
        format!(
            "HTTP/1.1 {status}\r\n\
             {fields}\
             Connection: close\r\n\
             Content-Type: text/plain\r\n\
             Content-Length: {}\r\n\
             \r\n\
             {why}\n",
            why.len() + 1
        )
    }
}

/// Maximum length of an origin in messages.
const ORIGIN_SHOWN_CHARS: usize = 100;

impl fmt::Display for HandshakeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status(), self.reason())?;
        if let HandshakeRefusal::Origin(origin) = self {
            let shown: String = origin.chars().take(ORIGIN_SHOWN_CHARS).collect();
            write!(f, " (it is {shown:?})")?;
        }
        Ok(())
    }
}
