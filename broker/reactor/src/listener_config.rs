//! The configuration of a listener.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tautwire_engine::{ListenerOverrides, MountPoint};
use tautwire_proxy::{Network, ProxyHeader};
use tautwire_session::AckLevel;
use tautwire_tls::TlsServer;
use tautwire_websocket::WebSocketConfig;

use crate::accept_rate::AcceptLimits;

/// The length of the accept queue, if `net.core.somaxconn` allows it: a fleet may reconnect at once, and a client that finds the queue full
/// retries only after a second.
#[cfg(target_os = "linux")]
pub(crate) const BACKLOG: i32 = 4096;

/// The address of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A network address. With port 0, the kernel chooses the port.
    Network(SocketAddr),
    /// A Unix socket, whose file gets this mode.
    Unix {
        /// The file.
        path: PathBuf,
        /// The mode, as for chmod(1).
        mode: u32,
    },
}

impl ListenAddress {
    /// Returns the file of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match self {
            ListenAddress::Network(_) => None,
            ListenAddress::Unix { path, .. } => Some(path),
        }
    }

    /// Whether a socket at this address can be used for the other one.
    pub(crate) fn can_be_reused_for(&self, other: &ListenAddress) -> bool {
        match (self, other) {
            (ListenAddress::Network(address), ListenAddress::Network(other)) => address == other && address.port() != 0,
            (ListenAddress::Unix { path, .. }, ListenAddress::Unix { path: other, .. }) => path == other,
            _ => false,
        }
    }

    fn is_same(&self, other: &ListenAddress) -> bool {
        self == other || self.can_be_reused_for(other)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Network(address) => address.fmt(f),
            ListenAddress::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What the PROXY header of a connection must state about its client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyRequirements {
    /// The client uses TLS to the proxy.
    pub tls: bool,
    /// The client has presented a certificate to the proxy, which has verified it.
    pub certificate: bool,
}

impl ProxyRequirements {
    /// Returns why a header is rejected, or `None` if it meets the requirements.
    pub(crate) fn refuse(self, header: &ProxyHeader) -> Option<&'static str> {
        let (is_encrypted, is_verified) = match header {
            ProxyHeader::Local => (false, false),
            ProxyHeader::Proxied(client) => (client.is_encrypted, client.is_verified),
        };
        if self.tls && !is_encrypted {
            return Some("it does not state that the client uses TLS, which proxy.require_tls requires");
        }
        if self.certificate && !is_verified {
            return Some(
                "it does not state that the client has a verified certificate, which proxy.require_certificate requires",
            );
        }
        None
    }
}

/// The configuration of a listener.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// The name in the log and in monitoring.
    pub name: Arc<str>,
    /// The address.
    pub place: ListenAddress,
    /// Trusted proxies, which must send a PROXY header first; other peers are rejected. `None` if clients connect directly.
    pub proxies: Option<Arc<[Network]>>,
    /// The requirements on these headers.
    pub proxy_requirements: ProxyRequirements,
    /// The TLS server, if TLS is used.
    pub tls: Option<Arc<TlsServer>>,
    /// The WebSocket configuration, if WebSocket is used.
    pub websocket: Option<WebSocketConfig>,
    /// The level that acknowledgements to its connections wait for.
    pub ack_level: AckLevel,
    /// The limit of open connections of this listener, if lower than the total limit.
    pub connections_max: Option<usize>,
    /// Limits on connections to this listener, in addition to the common ones.
    pub accept_rate: AcceptLimits,
    /// MQTT capabilities that differ from the common ones.
    pub offer: ListenerOverrides,
    /// The prefix of its clients' topics.
    pub mount_point: Option<MountPoint>,
}

impl ListenerConfig {
    /// Creates a listener for MQTT over TCP, named by its address.
    pub fn plain(address: SocketAddr, ack_level: AckLevel) -> ListenerConfig {
        let name = format!("mqtt://{address}").into();
        let place = ListenAddress::Network(address);
        ListenerConfig {
            name,
            place,
            proxies: None,
            proxy_requirements: ProxyRequirements::default(),
            tls: None,
            websocket: None,
            ack_level,
            connections_max: None,
            accept_rate: AcceptLimits::default(),
            offer: ListenerOverrides::default(),
            mount_point: None,
        }
    }

    /// Whether both are the same listener, possibly with other settings, so that its clients may stay.
    pub(crate) fn is_same(&self, other: &ListenerConfig) -> bool {
        self.name == other.name
            && self.place.is_same(&other.place)
            && self.tls.is_some() == other.tls.is_some()
            && self.websocket.is_some() == other.websocket.is_some()
    }
}
