//! A connection before it is registered with a shard.

use std::sync::Arc;

use mio::net::TcpStream;
use tautwire_engine::{AuthState, ConnectionOrigin};
use tautwire_session::AckLevel;

use crate::connections::Layers;

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    pub(crate) stream: TcpStream,
    /// The origin of the connection.
    pub(crate) origin: Arc<ConnectionOrigin>,
    /// The layers between TCP and MQTT.
    pub(crate) layers: Option<Box<Layers>>,
    /// The level that acknowledgements wait for.
    pub(crate) ack_level: AckLevel,
    /// The state of the authentication, if another thread has begun it.
    pub(crate) auth_state: Option<Box<AuthState>>,
}

impl AcceptedConnection {
    /// Whether a TLS handshake is pending.
    pub(crate) fn needs_tls_handshake(&self) -> bool {
        self.layers.as_ref().is_some_and(|layers| layers.is_handshaking())
    }
}
