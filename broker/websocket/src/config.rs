//! The configuration of a listener for WebSocket.

use crate::decoder::FrameLimits;
use crate::handshake::{Origins, Path};

/// The configuration shared by all connections of a listener.
#[derive(Debug, Clone)]
pub struct WebSocketConfig {
    /// The path of the MQTT endpoint.
    pub path: Path,
    /// The origins of web pages that may connect.
    pub origins: Origins,
    /// Limits on frames.
    pub limits: FrameLimits,
}
