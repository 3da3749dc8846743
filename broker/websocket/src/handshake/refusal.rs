//! Answers to requests that do not become WebSockets.

use std::fmt;

/// Why a handshake was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeRefusal {
    /// Not a request of HTTP/1.1, or a field is missing or wrong: 400.
    Malformed(&'static str),
    /// The subprotocol `mqtt` was not offered [MQTT-6.0.0-3]: 400.
    Subprotocol,
    /// A page of this origin may not connect: 403.
    Origin(String),
    /// Another path than the listener's: 404.
    NotFound,
    /// Another method than GET: 405.
    Method,
    /// The request was not complete in time: 408.
    TooSlow,
    /// A request of HTTP that does not ask for WebSocket: 426.
    NotWebSocket,
    /// Another version of WebSocket than 13: 426.
    WebSocketVersion,
    /// The request is over [`REQUEST_HEAD_MAX_BYTES`](crate::REQUEST_HEAD_MAX_BYTES): 431.
    HeadTooLarge,
    /// The server is going down: 503.
    Stopping,
    /// Another version of HTTP than 1.1: 505.
    HttpVersion,
}

impl HandshakeRefusal {
    /// The status of the answer, with its name.
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

    /// What was wrong, for the client. It repeats nothing of the request.
    fn reason(&self) -> &'static str {
        match self {
            HandshakeRefusal::Malformed(why) => why,
            HandshakeRefusal::Subprotocol => "offer the WebSocket subprotocol mqtt",
            HandshakeRefusal::Origin(_) => {
                "pages of this origin may not connect; websocket.origins lists those that may"
            }
            HandshakeRefusal::NotFound => "MQTT is not served here",
            HandshakeRefusal::Method => "a WebSocket begins with GET",
            HandshakeRefusal::TooSlow => "the request was not complete in time",
            HandshakeRefusal::NotWebSocket => "this address speaks MQTT over WebSocket",
            HandshakeRefusal::WebSocketVersion => "this server speaks version 13 of WebSocket",
            HandshakeRefusal::HeadTooLarge => "the request is too large",
            HandshakeRefusal::Stopping => "the server is going down",
            HandshakeRefusal::HttpVersion => "this server speaks HTTP/1.1",
        }
    }

    /// Fields that belong to the status.
    fn fields(&self) -> &'static str {
        match self {
            HandshakeRefusal::Method => "Allow: GET\r\n",
            HandshakeRefusal::NotWebSocket => "Upgrade: websocket\r\n",
            // Section 4.2.2, item 4.
            HandshakeRefusal::WebSocketVersion => "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
            _ => "",
        }
    }

    /// The whole answer, behind which the connection is closed.
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

/// Longest part of an origin that is shown.
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
