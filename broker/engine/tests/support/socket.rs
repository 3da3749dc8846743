//! The network of a simulated broker.

use std::collections::VecDeque;

use tautwire_engine::ConnectionId;
use tautwire_protocol::{DecodeOptions, FixedHeader, ProtocolVersion};

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
    pub(super) deaf: bool,
    /// The network has lost the connection.
    pub(super) broken: bool,
    /// The broker writes what is pending, then closes, at this moment at the latest.
    pub(super) draining_until_ms: Option<u64>,
    /// The broker waits for room.
    pub(super) write_waits: bool,
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
            deaf: false,
            broken: false,
            draining_until_ms: None,
            write_waits: false,
            outbound: Vec::new(),
            room_bytes,
            closed_at_ms: None,
        }
    }

    pub(super) fn room(&self) -> usize {
        if self.broken || self.deaf { usize::MAX } else { self.room_bytes.saturating_sub(self.outbound.len()) }
    }

    /// A whole packet that the engine did not take: it does not want to be brought more.
    pub(super) fn is_held(&self) -> bool {
        // 3.1 takes every fixed header that the other versions take.
        let any_version = DecodeOptions::new(ProtocolVersion::V3_1);
        FixedHeader::decode(&self.rest, &any_version).is_ok_and(|header| header.total_len() <= self.rest.len())
    }
}
