//! The sockets of one thread, by the place of their connection in the shard.

use mio::net::TcpStream;
use tautwire_engine::ConnectionId;

use crate::input::Rest;

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
    pub(crate) rest: Option<Box<Rest>>,
}

/// A table of sockets.
#[derive(Debug, Default)]
pub(crate) struct Sockets(Vec<Option<Socket>>);

impl Sockets {
    pub(crate) fn insert(&mut self, id: ConnectionId, stream: TcpStream, rest: Option<Rest>) {
        let place = id.index as usize;
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some(Socket {
            stream,
            generation: id.generation,
            write_armed: false,
            draining: false,
            ended: false,
            listed: false,
            rest: rest.map(Box::new),
        });
    }

    /// The socket of `id`, unless its place has been taken by another since.
    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Socket> {
        self.0.get_mut(id.index as usize)?.as_mut().filter(|socket| socket.generation == id.generation)
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Socket> {
        self.get(id)?;
        self.0.get_mut(id.index as usize)?.take()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}
