//! Listening sockets, which accept connections even when file descriptors run out.

use std::fmt;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream};
use tautwire_engine::{ListenerOverrides, MountPoint, Peer};
use tautwire_proxy::{Network, ProxyHeader};
use tautwire_session::AckLevel;
use tautwire_tls::{TlsError, TlsServer};
use tautwire_websocket::{WebSocket, WebSocketConfig};

use crate::accept_limiter::AcceptLimiter;
use crate::accept_rate::AcceptLimits;
use crate::connections::Layers;
use crate::local::LocalListener;

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
}

/// The socket of a listener.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Local(LocalListener),
}

/// A listening socket with its configuration.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    tls: Option<Arc<TlsServer>>,
    config: Option<Arc<WebSocketConfig>>,
    pub(crate) accept_limiter: Arc<AcceptLimiter>,
    /// The level that acknowledgements to its connections wait for.
    pub(crate) ack_level: AckLevel,
}

impl ListenAddress {
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

impl ListenerConfig {
    /// Whether both are the same listener, possibly with other settings, so that its clients may stay.
    pub(crate) fn is_same(&self, other: &ListenerConfig) -> bool {
        self.name == other.name
            && self.place.is_same(&other.place)
            && self.tls.is_some() == other.tls.is_some()
            && self.websocket.is_some() == other.websocket.is_some()
    }
}

impl Socket {
    /// Binds a socket.
    ///
    /// # Errors
    /// System errors.
    pub(crate) fn bind(place: &ListenAddress) -> io::Result<Socket> {
        match place {
            ListenAddress::Network(address) => {
                TcpListener::bind(*address).and_then(|socket| prepare(&socket).map(|()| socket)).map(Socket::Tcp)
            }
            ListenAddress::Unix { path, mode } => LocalListener::bind(path, *mode).map(Socket::Local),
        }
    }

    /// Returns the address of the socket, if it has one.
    ///
    /// # Errors
    /// System errors.
    pub(crate) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Socket::Tcp(socket) => socket.local_addr().map(Some),
            Socket::Local(_) => Ok(None),
        }
    }
}

/// A listener to be created, and the source of its socket.
#[derive(Debug)]
pub(crate) struct PlannedListener {
    from: SocketSource,
    tls: Option<Arc<TlsServer>>,
    config: Option<Arc<WebSocketConfig>>,
    accept_limiter: Arc<AcceptLimiter>,
    ack_level: AckLevel,
}

/// The source of a listener's socket.
#[derive(Debug)]
pub(crate) enum SocketSource {
    /// The socket of the existing listener with this index.
    Existing(usize),
    New(Socket),
}

impl PlannedListener {
    pub(crate) fn new(
        listen: &ListenerConfig,
        accept_limiter: Arc<AcceptLimiter>,
        from: SocketSource,
    ) -> PlannedListener {
        let config = listen.websocket.clone().map(Arc::new);
        PlannedListener { from, tls: listen.tls.clone(), config, accept_limiter, ack_level: listen.ack_level }
    }

    /// Creates the listeners, reusing sockets of existing ones as planned. The other existing listeners are closed.
    pub(crate) fn take_all(planned: Vec<PlannedListener>, before: Vec<Listener>) -> Vec<Listener> {
        let mut sockets: Vec<Option<Socket>> = before.into_iter().map(|listener| Some(listener.socket)).collect();
        let listener = |PlannedListener { from, tls, config, accept_limiter, ack_level }| {
            let socket = match from {
                SocketSource::Existing(at) => sockets.get_mut(at)?.take()?,
                SocketSource::New(socket) => socket,
            };
            Some(Listener { socket, tls, config, accept_limiter, ack_level })
        };
        planned.into_iter().filter_map(listener).collect()
    }
}

impl Listener {
    /// Returns the event source.
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match &mut self.socket {
            Socket::Tcp(socket) => socket,
            Socket::Local(socket) => socket.source(),
        }
    }

    fn accept_once(&self) -> io::Result<(TcpStream, Peer)> {
        match &self.socket {
            Socket::Tcp(socket) => {
                let (stream, peer) = socket.accept()?;
                if cfg!(not(target_os = "linux")) {
                    let _ = stream.set_nodelay(true);
                }
                Ok((stream, Peer::from(peer)))
            }
            Socket::Local(socket) => socket.accept(),
        }
    }

    /// Creates the layers of a new connection.
    ///
    /// # Errors
    /// As for [`TlsServer::accept`].
    pub(crate) fn layers(&self) -> Result<Option<Box<Layers>>, TlsError> {
        let tls = self.tls.as_ref().map(|server| server.accept()).transpose()?;
        let awaits_proxy_header = self.accept_limiter.expects_proxy_header().then(|| self.accept_limiter.clone());
        Ok(Layers::new(awaits_proxy_header, tls, self.config.clone().map(WebSocket::new)))
    }
}

/// The length of the accept queue, if `net.core.somaxconn` allows it: a fleet may reconnect at once, and a client that finds the queue full
/// retries only after a second.
#[cfg(target_os = "linux")]
pub(crate) const BACKLOG: i32 = 4096;

/// Sets the length of the accept queue, and `TCP_NODELAY`, which accepted connections inherit: small packets must not wait for
/// acknowledgements of earlier ones.
#[cfg(target_os = "linux")]
fn prepare(socket: &TcpListener) -> io::Result<()> {
    rustix::net::listen(socket, BACKLOG)?;
    rustix::net::sockopt::set_tcp_nodelay(socket, true)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn prepare(_: &TcpListener) -> io::Result<()> {
    Ok(())
}

/// A spare file descriptor, with which a connection can be accepted and closed when no others are free. Left in the queue, the connection
/// would be reported forever, and its client would wait.
#[derive(Debug)]
pub(crate) struct ReserveDescriptor(Option<File>);

impl ReserveDescriptor {
    pub(crate) fn new() -> ReserveDescriptor {
        ReserveDescriptor(File::open("/dev/null").ok())
    }
}

/// The result of an attempt to accept a connection.
pub(crate) enum AcceptResult {
    Connection(TcpStream, Peer),
    /// A connection was closed at once because no file descriptor is free.
    Refused,
    /// No connection is pending.
    None,
}

pub(crate) fn accept(listener: &Listener, reserve: &mut ReserveDescriptor) -> io::Result<AcceptResult> {
    loop {
        return match listener.accept_once() {
            Ok((stream, peer)) => Ok(AcceptResult::Connection(stream, peer)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(AcceptResult::None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The peer has given up.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) if is_out_of_descriptors(&error) => {
                reserve.0 = None;
                let refused = listener.accept_once().is_ok();
                reserve.0 = File::open("/dev/null").ok();
                if refused { Ok(AcceptResult::Refused) } else { Err(error) }
            }
            Err(error) => Err(error),
        };
    }
}

/// Whether the error is EMFILE or ENFILE.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}
