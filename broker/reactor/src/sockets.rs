//! The sockets of one thread, by the place of their connection in the shard.

use mio::net::TcpStream;
use tautwire_engine::ConnectionId;
use tautwire_websocket::WebSocket;

use crate::input::Rest;
use crate::quickack::Pace;

/// One socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) stream: TcpStream,
    pub(crate) generation: u32,
    /// Told of room to write; until then writing is not tried.
    pub(crate) write_armed: bool,
    /// What comes is thrown away: the connection has ended and its last bytes are on their way out.
    pub(crate) draining: bool,
    /// The peer has sent its last byte, which may not have been read.
    pub(crate) ended: bool,
    /// In the list of sockets that may have more to read.
    pub(crate) listed: bool,
    /// MQTT comes in frames of WebSocket; see [`Sockets::websocket`].
    pub(crate) framed: bool,
    /// Whether the client waits for acknowledgements of TCP.
    pub(crate) pace: Pace,
    pub(crate) rest: Option<Box<Rest>>,
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
    pub(crate) rest: Option<Rest>,
    pub(crate) websocket: Option<Box<WebSocket>>,
}

impl Sockets {
    pub(crate) fn insert(
        &mut self,
        id: ConnectionId,
        stream: TcpStream,
        rest: Option<Rest>,
        websocket: Option<Box<WebSocket>>,
    ) {
        let place = id.index as usize;
        if self.sockets.len() <= place {
            self.sockets.resize_with(place + 1, || None);
        }
        let framed = websocket.is_some();
        if framed {
            if self.websockets.len() <= place {
                self.websockets.resize_with(place + 1, || None);
            }
            self.websockets[place] = websocket;
        }
        self.sockets[place] = Some(Socket {
            stream,
            generation: id.generation,
            write_armed: false,
            draining: false,
            ended: false,
            listed: false,
            framed,
            pace: Pace::default(),
            rest: rest.map(Box::new),
        });
    }

    /// The socket of `id`, unless its place has been taken by another since.
    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Socket> {
        self.sockets.get_mut(id.index as usize)?.as_mut().filter(|socket| socket.generation == id.generation)
    }

    /// A socket and its WebSocket, if it has one.
    pub(crate) fn websocket(&mut self, id: ConnectionId) -> Option<(&mut Socket, &mut WebSocket)> {
        let place = id.index as usize;
        let socket = self.sockets.get_mut(place)?.as_mut().filter(|socket| socket.generation == id.generation)?;
        if !socket.framed {
            return None;
        }
        Some((socket, self.websockets.get_mut(place)?.as_mut()?))
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Removed> {
        let framed = self.get(id)?.framed;
        let place = id.index as usize;
        let socket = self.sockets.get_mut(place)?.take()?;
        let websocket = if framed { self.websockets.get_mut(place)?.take() } else { None };
        Some(Removed { stream: socket.stream, rest: socket.rest.map(|rest| *rest), websocket })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.iter().all(Option::is_none)
    }
}
