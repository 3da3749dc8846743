//! The sockets of a simulated broker.

use std::collections::VecDeque;

use tautwire_engine::ConnectionId;

/// The index of a simulated socket, in the order of connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SocketId(pub(crate) usize);

/// Both ends of a network connection.
#[derive(Debug)]
pub(super) struct Socket {
    /// The broker's end; `None` while it moves between shards and after it is closed.
    pub(super) place: Option<(usize, ConnectionId)>,
    /// Bytes from the client that the broker has not read.
    pub(super) inbound: VecDeque<u8>,
    /// Bytes that were read and not consumed.
    pub(super) rest: Vec<u8>,
    /// The client has closed its sending side.
    pub(super) finished: bool,
    /// The client has closed the connection: bytes from the broker are discarded.
    pub(super) is_abandoned: bool,
    /// The connection is broken.
    pub(super) broken: bool,
    /// The broker closes the connection after the pending output, at this time at the latest.
    pub(super) draining_until_ms: Option<u64>,
    /// The broker waits until the socket is writable.
    pub(super) write_waits: bool,
    /// The socket is in the broker's list of sockets that may be readable.
    pub(super) listed: bool,
    /// Bytes from the broker that the client has not read.
    pub(super) outbound: Vec<u8>,
    /// The limit of bytes in `outbound`.
    pub(super) room_bytes: usize,
    /// When the broker closed its end.
    pub(super) closed_at_ms: Option<u64>,
}

impl Socket {
    pub(super) fn new(room_bytes: usize) -> Socket {
        Socket {
            place: None,
            inbound: VecDeque::new(),
            rest: Vec::new(),
            finished: false,
            is_abandoned: false,
            broken: false,
            draining_until_ms: None,
            write_waits: false,
            listed: false,
            outbound: Vec::new(),
            room_bytes,
            closed_at_ms: None,
        }
    }

    pub(super) fn room(&self) -> usize {
        if self.broken || self.is_abandoned { usize::MAX } else { self.room_bytes.saturating_sub(self.outbound.len()) }
    }
}
