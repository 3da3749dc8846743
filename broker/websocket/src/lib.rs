//! The server side of WebSocket ([RFC 6455](https://www.rfc-editor.org/rfc/rfc6455)) as MQTT uses it [MQTT 5.0 section 6], as a state
//! machine without I/O: WebSocket frames go in and MQTT bytes come out, and the reverse.
//!
//! [`WebSocket`] is one connection. Nothing is buffered: input is unmasked in place, and frame headers and control frames are removed;
//! output gets a header of a few bytes. The MQTT bytes are a stream: packets need not be aligned with frames [MQTT-6.0.0-2].
//!
//! No extension is negotiated, so payloads are never compressed.

#![forbid(unsafe_code)]

mod close;
mod config;
mod decoder;
mod frame;
mod handshake;
mod mask;
mod outgoing;
mod violation;
mod websocket;

pub use close::CloseCode;
pub use config::WebSocketConfig;
pub use decoder::FrameLimits;
pub use handshake::{AllowedOrigin, HandshakeRefusal, Origins, Path, REQUEST_HEAD_MAX_BYTES, SUBPROTOCOL};
pub use outgoing::{FRAME_OUT_MAX_BYTES, PONGS_MAX_BYTES};
pub use violation::Violation;
pub use websocket::{EndReason, WebSocket};
