//! Listening sockets, which accept connections even when file descriptors run out.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream};
use tautwire_engine::Peer;
use tautwire_session::AckLevel;
use tautwire_tls::{TlsError, TlsServer};
use tautwire_websocket::{WebSocket, WebSocketConfig};

use crate::accept_limiter::AcceptLimiter;
use crate::connections::Layers;
use crate::listener_config::{ListenAddress, ListenerConfig};
use crate::local::LocalListener;

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

/// Sets the length of the accept queue, and `TCP_NODELAY`, which accepted connections inherit: small packets must not wait for
/// acknowledgements of earlier ones.
#[cfg(target_os = "linux")]
fn prepare(socket: &TcpListener) -> io::Result<()> {
    rustix::net::listen(socket, crate::listener_config::BACKLOG)?;
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
