//! Accepting connections, also when descriptors run out.

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

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// At an address of the network. Port 0 lets the kernel choose.
    Network(SocketAddr),
    /// At a Unix socket, whose file gets this mode.
    Unix {
        /// The file.
        path: PathBuf,
        /// As chmod(1) takes it.
        mode: u32,
    },
}

impl ListenAddress {
    /// The file of a Unix socket.
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

/// What the PROXY header of a connection must say of its client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyRequirements {
    /// The client speaks TLS with the proxy.
    pub tls: bool,
    /// The client has shown a certificate to the proxy, which has verified it.
    pub certificate: bool,
}

impl ProxyRequirements {
    /// Why a header is refused; `None` where it says what is required.
    pub(crate) fn refuse(self, header: &ProxyHeader) -> Option<&'static str> {
        let (is_encrypted, is_verified) = match header {
            ProxyHeader::Local => (false, false),
            ProxyHeader::Proxied(client) => (client.is_encrypted, client.is_verified),
        };
        if self.tls && !is_encrypted {
            return Some("it does not say that the client speaks TLS, which proxy.require_tls asks for");
        }
        if self.certificate && !is_verified {
            return Some("it names no verified certificate of the client, which proxy.require_certificate asks for");
        }
        None
    }
}

/// An address to listen on, and what is spoken there.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// What the log and those who watch the broker call it.
    pub name: Arc<str>,
    /// Where.
    pub place: ListenAddress,
    /// Proxies that must say first whom they speak for, and besides whom nobody is let in. `None` where clients come themselves.
    pub proxies: Option<Arc<[Network]>>,
    /// What the headers of those proxies must say.
    pub proxy_requirements: ProxyRequirements,
    /// By TLS, of this server.
    pub tls: Option<Arc<TlsServer>>,
    /// By WebSocket, by these rules.
    pub websocket: Option<WebSocketConfig>,
    /// What acknowledgements to its connections wait for.
    pub ack_level: AckLevel,
    /// Connections open at once by this listener, where fewer than all may be.
    pub connections_max: Option<usize>,
    /// Limits on those who come by this listener, beside those on all.
    pub accept_rate: AcceptLimits,
    /// What it offers otherwise than all do.
    pub offer: ListenerOverrides,
    /// What stands in front of its clients' topics.
    pub mount_point: Option<MountPoint>,
}

impl ListenerConfig {
    /// MQTT over TCP, called by its address.
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

/// What accepts.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Local(LocalListener),
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    tls: Option<Arc<TlsServer>>,
    config: Option<Arc<WebSocketConfig>>,
    pub(crate) accept_limiter: Arc<AcceptLimiter>,
    /// What acknowledgements to its connections wait for.
    pub(crate) ack_level: AckLevel,
}

impl ListenAddress {
    /// Whether a socket that is here can be the one that is asked for there.
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
    /// Whether it is the same listener, perhaps by other rules: whoever has come by it may stay.
    pub(crate) fn is_same(&self, other: &ListenerConfig) -> bool {
        self.name == other.name
            && self.place.is_same(&other.place)
            && self.tls.is_some() == other.tls.is_some()
            && self.websocket.is_some() == other.websocket.is_some()
    }
}

impl Socket {
    /// # Errors
    /// Those of the system.
    pub(crate) fn bind(place: &ListenAddress) -> io::Result<Socket> {
        match place {
            ListenAddress::Network(address) => {
                TcpListener::bind(*address).and_then(|socket| prepare(&socket).map(|()| socket)).map(Socket::Tcp)
            }
            ListenAddress::Unix { path, mode } => LocalListener::bind(path, *mode).map(Socket::Local),
        }
    }

    /// Its address, where it has one.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Socket::Tcp(socket) => socket.local_addr().map(Some),
            Socket::Local(_) => Ok(None),
        }
    }
}

/// A listener that is to be there, and where its socket is.
#[derive(Debug)]
pub(crate) struct PlannedListener {
    from: SocketSource,
    tls: Option<Arc<TlsServer>>,
    config: Option<Arc<WebSocketConfig>>,
    accept_limiter: Arc<AcceptLimiter>,
    ack_level: AckLevel,
}

/// Where a socket is.
#[derive(Debug)]
pub(crate) enum SocketSource {
    /// It is that of the listener with this number.
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

    /// The listeners, with sockets of those of before where they are meant. The others of before are closed.
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
    /// What the kernel tells of.
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

    /// What stands between a new connection and MQTT.
    ///
    /// # Errors
    /// Those of [`TlsServer::accept`].
    pub(crate) fn layers(&self) -> Result<Option<Box<Layers>>, TlsError> {
        let tls = self.tls.as_ref().map(|server| server.accept()).transpose()?;
        let awaits_proxy_header = self.accept_limiter.expects_proxy_header().then(|| self.accept_limiter.clone());
        Ok(Layers::new(awaits_proxy_header, tls, self.config.clone().map(WebSocket::new)))
    }
}

/// Connections that wait to be accepted, as far as `net.core.somaxconn` lets so many: a fleet comes back at once, and whoever
/// finds no place tries again only after a second.
#[cfg(target_os = "linux")]
pub(crate) const BACKLOG: i32 = 4096;

/// Sets the length of the queue, and what accepted connections inherit: small packets must not wait for acknowledgements of
/// earlier ones.
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

/// Descriptor kept free so that a connection can be accepted and closed when there are no others: left in the queue it
/// would be reported for ever and the client would wait.
#[derive(Debug)]
pub(crate) struct ReserveDescriptor(Option<File>);

impl ReserveDescriptor {
    pub(crate) fn new() -> ReserveDescriptor {
        ReserveDescriptor(File::open("/dev/null").ok())
    }
}

/// What became of an attempt to accept.
pub(crate) enum AcceptResult {
    Connection(TcpStream, Peer),
    /// A connection was closed at once for want of descriptors.
    Refused,
    /// Nobody waits.
    None,
}

pub(crate) fn accept(listener: &Listener, reserve: &mut ReserveDescriptor) -> io::Result<AcceptResult> {
    loop {
        return match listener.accept_once() {
            Ok((stream, peer)) => Ok(AcceptResult::Connection(stream, peer)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(AcceptResult::None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The peer gave up while it waited.
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

/// EMFILE or ENFILE.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}
