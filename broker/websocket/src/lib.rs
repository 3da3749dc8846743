//! The server's side of WebSocket ([RFC 6455](https://www.rfc-editor.org/rfc/rfc6455)) as MQTT uses it [MQTT 5.0 section 6],
//! as a machine without I/O: bytes of the network go in, bytes of MQTT come out, and the other way round.
//!
//! [`WebSocket`] is one connection. Nothing is buffered: what comes is unmasked where it lies, with frame headers and
//! control frames taken out, and what goes gets a header of a few bytes in front. The MQTT bytes are a stream: packets need
//! not be aligned with frames [MQTT-6.0.0-2].
//!
//! No extension is ever agreed on, so payloads are never compressed.

#![forbid(unsafe_code)]

mod close;
mod decoder;
mod frame;
mod handshake;
mod mask;
mod outgoing;
mod websocket;

pub use close::CloseCode;
pub use decoder::{FrameLimits, Violation};
pub use handshake::{AllowedOrigin, HandshakeRefusal, Origins, Path, REQUEST_HEAD_MAX_BYTES, SUBPROTOCOL};
pub use outgoing::{FRAME_OUT_MAX_BYTES, PONGS_MAX_BYTES};
pub use websocket::{EndReason, WebSocket, WebSocketConfig};
