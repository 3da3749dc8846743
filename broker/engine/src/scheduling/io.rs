//! The interface that a shard needs from its environment in a turn.

use std::collections::VecDeque;

use tautwire_router::{Batch, ShardIndex};

use crate::connection::connections::Action;
use crate::connection::origin::Peer;
use crate::index::ConnectionId;
use crate::mode::{Mode, Request};
use crate::shard::Shard;

/// When the next turn of a shard must begin.
#[must_use = "a shard that sleeps while it is busy may never wake"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextTurn {
    /// Work is left: the next turn begins immediately.
    Busy,
    /// The shard can sleep until an event, but not beyond this time.
    Until(Option<u64>),
}

/// The I/O that the reactor provides to a shard in its turn. [`turn`](crate::scheduling::turn()) calls the methods in this order.
///
/// A method that returns `bool` handles one item and returns whether there was one. It is called until it returns false, and
/// the engine's actions are performed after each call. The implementation decides how many items one turn handles; the rest must
/// be included in the result of [`Io::end_turn`].
pub trait Io<M: Mode> {
    /// When the turn began, in microseconds of a monotonic clock that all shards share.
    fn began_us(&self) -> u64 {
        0
    }

    /// The current time of that clock. Called once, at the end of a turn that has delivered something.
    fn now_us(&self) -> u64 {
        0
    }

    /// Whether the node's lease is valid now, by a clock that runs while the machine is suspended. Called at the beginning of each turn of
    /// a shard whose mode has leases.
    fn holds_lease(&self) -> bool {
        true
    }

    /// How many batches the channel to another shard accepts now. Only [`Io::send`] may reduce this number.
    fn room(&mut self, to: ShardIndex) -> usize;

    /// Accepts a connection that was migrated from another shard, and passes its unread bytes to the shard.
    fn adopt(&mut self, shard: &mut Shard<M>) -> bool;

    /// The next batch from another shard, if there is one.
    fn next_batch(&mut self, from: ShardIndex) -> Option<Batch>;

    /// Ends receiving from a shard for this turn. Wakes that shard if it waits for room in the channel.
    fn batches_taken(&mut self, from: ShardIndex);

    /// Reads from one connection.
    fn read(&mut self, shard: &mut Shard<M>) -> bool;

    /// Accepts new connections.
    fn accept(&mut self, shard: &mut Shard<M>);

    /// Runs commands from other threads than those of the shards.
    fn run_commands(&mut self, shard: &mut Shard<M>);

    /// The peer of a connection, from its socket.
    fn peer(&mut self, _id: ConnectionId) -> Option<Peer> {
        None
    }

    /// Performs an action of the engine. This may read bytes, and so cause more actions.
    fn perform(&mut self, shard: &mut Shard<M>, action: Action);

    /// Removes requests of the mode from the front, as many as its thread has room for. The rest is passed again in the next turn, which
    /// must begin as soon as there is room.
    fn send_requests(&mut self, _requests: &mut VecDeque<Request>) {}

    /// Sends batches to another shard, at most [`Io::room`], and wakes that shard.
    fn send(&mut self, to: ShardIndex, batches: impl Iterator<Item = Batch>);

    /// Writes to the connections whose sockets are writable again.
    fn write_ready(&mut self, shard: &mut Shard<M>);

    /// Writes the pending output of a connection, as far as its socket accepts it.
    fn write(&mut self, shard: &mut Shard<M>, id: ConnectionId);

    /// Ends the turn. Returns when the I/O itself needs the next turn. Input that arrives after this call, also from other threads,
    /// must wake the shard; the checks that follow find earlier input.
    fn end_turn(&mut self, shard: &mut Shard<M>) -> NextTurn;

    /// Whether the channel to a shard accepts a batch now; if not, arms the waker for when it does. Called after [`Io::end_turn`] for
    /// shards with pending batches.
    fn has_room_or_arm_waker(&mut self, to: ShardIndex) -> bool;
}
