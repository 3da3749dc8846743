//! The sockets of one thread, by the place of their connection in the shard.

use mio::net::TcpStream;
use tautwire_engine::ConnectionId;
use tautwire_websocket::WebSocket;

use super::input::Remainder;
use super::quickack::Pace;
use super::transport::Transport;

/// One socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) stream: TcpStream,
    pub(crate) generation: u32,
    /// The kernel tells us of it.
    pub(crate) watched: bool,
    /// Told of room to write; until then writing is not tried.
    pub(crate) write_armed: bool,
    /// What comes is thrown away: the connection has ended and its last bytes are on their way out.
    pub(crate) draining: bool,
    /// The peer has sent its last byte, which may not have been read.
    pub(crate) ended: bool,
    /// In the list of sockets that may have more to read.
    pub(crate) listed: bool,
    /// Something stands between TCP and MQTT; see [`Sockets::transport`].
    pub(crate) is_layered: bool,
    /// Whether the client waits for acknowledgements of TCP.
    pub(crate) pace: Pace,
    pub(crate) rest: Option<Box<Remainder>>,
}

// There may be hundreds of thousands that do nothing: what few need is kept elsewhere. mio's part is larger when debugging.
const _: () = assert!(cfg!(debug_assertions) || size_of::<Option<Socket>>() <= 24);

/// A table of sockets.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    sockets: Vec<Option<Socket>>,
    /// By the same places; no longer than the last one that needs it, so that plain connections take no room here.
    websockets: Vec<Option<Box<WebSocket>>>,
}

/// What has been taken out of the table.
#[derive(Debug)]
pub(crate) struct Removed {
    pub(crate) stream: TcpStream,
    pub(crate) watched: bool,
    pub(crate) rest: Option<Remainder>,
    pub(crate) websocket: Option<Box<WebSocket>>,
}

impl Sockets {
    pub(crate) fn insert(
        &mut self,
        id: ConnectionId,
        stream: TcpStream,
        rest: Option<Remainder>,
        websocket: Option<Box<WebSocket>>,
    ) {
        let place = id.index as usize;
        if self.sockets.len() <= place {
            self.sockets.resize_with(place + 1, || None);
        }
        let is_layered = websocket.is_some();
        if is_layered {
            if self.websockets.len() <= place {
                self.websockets.resize_with(place + 1, || None);
            }
            self.websockets[place] = websocket;
        }
        self.sockets[place] = Some(Socket {
            stream,
            generation: id.generation,
            watched: false,
            write_armed: false,
            draining: false,
            ended: false,
            listed: false,
            is_layered,
            pace: Pace::default(),
            rest: rest.map(Box::new),
        });
    }

    /// The socket of `id`, unless its place has been taken by another since.
    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Socket> {
        self.sockets.get_mut(id.index as usize)?.as_mut().filter(|socket| socket.generation == id.generation)
    }

    /// Where the bytes of the socket of `id` come from and go to.
    #[inline]
    pub(crate) fn transport(&mut self, id: ConnectionId) -> Option<Transport<'_>> {
        let place = id.index as usize;
        let socket = self.sockets.get_mut(place)?.as_mut().filter(|socket| socket.generation == id.generation)?;
        let websocket = if socket.is_layered { self.websockets.get_mut(place)?.as_deref_mut() } else { None };
        Some(Transport::new(&mut socket.stream, websocket, socket.draining))
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Removed> {
        let is_layered = self.get(id)?.is_layered;
        let place = id.index as usize;
        let socket = self.sockets.get_mut(place)?.take()?;
        let websocket = if is_layered { self.websockets.get_mut(place)?.take() } else { None };
        Some(Removed { stream: socket.stream, watched: socket.watched, rest: socket.rest.map(|rest| *rest), websocket })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.iter().all(Option::is_none)
    }
}
