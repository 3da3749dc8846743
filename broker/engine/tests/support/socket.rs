//! The network of a simulated broker.

use std::collections::VecDeque;

use tautwire_engine::ConnectionId;

/// A simulated socket, in the order of connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SocketId(pub(crate) usize);

/// Both ends of a network connection.
#[derive(Debug)]
pub(super) struct Socket {
    /// Where the broker's end is; `None` while it moves between shards and when it is closed.
    pub(super) place: Option<(usize, ConnectionId)>,
    /// Sent by the client and not yet read.
    pub(super) inbound: VecDeque<u8>,
    /// Read and not consumed.
    pub(super) rest: Vec<u8>,
    /// The client sends nothing after what is in `inbound`.
    pub(super) finished: bool,
    /// The client is gone: what the broker sends vanishes.
    pub(super) is_abandoned: bool,
    /// The network has lost the connection.
    pub(super) broken: bool,
    /// The broker writes what is pending, then closes, at this moment at the latest.
    pub(super) draining_until_ms: Option<u64>,
    /// The broker waits for room.
    pub(super) write_waits: bool,
    /// In the broker's list of sockets that may have something to read.
    pub(super) listed: bool,
    /// Arrived at the client.
    pub(super) outbound: Vec<u8>,
    /// Most bytes that `outbound` takes.
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
