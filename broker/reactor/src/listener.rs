//! Accepting connections, also when descriptors run out.

use std::fmt;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream};
use tautwire_engine::{MountPoint, Offer, Peer};
use tautwire_proxy::Network;
use tautwire_session::AckLevel;
use tautwire_tls::{Failure, Server};
use tautwire_websocket::{Rules, WebSocket};

use crate::arrivals::{ArrivalLimits, Arrivals};
use crate::connections::Layers;
use crate::gate::Gate;
use crate::local::LocalListener;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Network(address) => address.fmt(f),
            Place::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An address to listen on, and what is spoken there.
#[derive(Debug, Clone)]
pub struct Listen {
    /// What the log and those who watch the broker call it.
    pub name: Arc<str>,
    /// Where.
    pub place: Place,
    /// Proxies that must say first whom they speak for, and besides whom nobody is let in. `None` where clients come themselves.
    pub proxies: Option<Arc<[Network]>>,
    /// By TLS, of this server.
    pub tls: Option<Arc<Server>>,
    /// By WebSocket, by these rules.
    pub websocket: Option<Rules>,
    /// What acknowledgements to its connections wait for.
    pub ack_level: AckLevel,
    /// Connections open at once by this listener, where fewer than all may be.
    pub connections_max: Option<usize>,
    /// Limits on those who come by this listener, beside those on all.
    pub arrivals: ArrivalLimits,
    /// What it offers otherwise than all do.
    pub offer: Offer,
    /// What stands in front of its clients' topics.
    pub mount_point: Option<MountPoint>,
}

impl Listen {
    /// MQTT over TCP, called by its address.
    pub fn plain(address: SocketAddr, ack_level: AckLevel) -> Listen {
        let name = format!("mqtt://{address}").into();
        let place = Place::Network(address);
        Listen {
            name,
            place,
            proxies: None,
            tls: None,
            websocket: None,
            ack_level,
            connections_max: None,
            arrivals: ArrivalLimits::default(),
            offer: Offer::default(),
            mount_point: None,
        }
    }
}

/// What accepts.
#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Local(LocalListener),
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    tls: Option<Arc<Server>>,
    rules: Option<Arc<Rules>>,
    pub(crate) gate: Arc<Gate>,
    /// What acknowledgements to its connections wait for.
    pub(crate) ack_level: AckLevel,
}

impl Listener {
    /// # Errors
    /// Where could not be listened, and why.
    pub(crate) fn bind(listen: &Listen, arrivals: &Arc<Arrivals>) -> Result<Listener, (Place, io::Error)> {
        let Listen { place, tls, websocket, ack_level, .. } = listen;
        let socket = match place {
            Place::Network(address) => {
                TcpListener::bind(*address).and_then(|socket| prepare(&socket).map(|()| socket)).map(Socket::Tcp)
            }
            Place::Unix { path, mode } => LocalListener::bind(path, *mode).map(Socket::Local),
        };
        let socket = socket.map_err(|error| (place.clone(), error))?;
        let gate = Arc::new(Gate::new(listen, arrivals.clone()));
        let rules = websocket.clone().map(Arc::new);
        Ok(Listener { socket, tls: tls.clone(), rules, gate, ack_level: *ack_level })
    }

    /// Its address, where it has one.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match &self.socket {
            Socket::Tcp(socket) => socket.local_addr().map(Some),
            Socket::Local(_) => Ok(None),
        }
    }

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
    /// Those of [`Server::accept`].
    pub(crate) fn layers(&self) -> Result<Option<Box<Layers>>, Failure> {
        let tls = self.tls.as_ref().map(|server| server.accept()).transpose()?;
        let awaits_header = self.gate.is_for_proxies().then(|| self.gate.clone());
        Ok(Layers::new(awaits_header, tls, self.rules.clone().map(WebSocket::new)))
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
pub(crate) struct Reserve(Option<File>);

impl Reserve {
    pub(crate) fn new() -> Reserve {
        Reserve(File::open("/dev/null").ok())
    }
}

/// What became of an attempt to accept.
pub(crate) enum Accepted {
    Connection(TcpStream, Peer),
    /// A connection was closed at once for want of descriptors.
    Refused,
    /// Nobody waits.
    None,
}

pub(crate) fn accept(listener: &Listener, reserve: &mut Reserve) -> io::Result<Accepted> {
    loop {
        return match listener.accept_once() {
            Ok((stream, peer)) => Ok(Accepted::Connection(stream, peer)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Accepted::None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The peer gave up while it waited.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) if is_out_of_descriptors(&error) => {
                reserve.0 = None;
                let refused = listener.accept_once().is_ok();
                reserve.0 = File::open("/dev/null").ok();
                if refused { Ok(Accepted::Refused) } else { Err(error) }
            }
            Err(error) => Err(error),
        };
    }
}

/// EMFILE or ENFILE.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}
