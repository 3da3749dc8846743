//! What a shard needs of the world around it in a turn.

use std::collections::VecDeque;

use tautwire_router::{Batch, ShardIndex};

use crate::connection::connections::Action;
use crate::connection::origin::Peer;
use crate::index::ConnectionId;
use crate::mode::{Mode, Request};
use crate::shard::Shard;

/// What a shard may do until its next turn.
#[must_use = "a shard that is left to sleep while it is busy may never wake"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextTurn {
    /// Something is left to do: the next turn begins at once.
    Busy,
    /// Sleep until something happens, and no longer than until this moment.
    Until(Option<u64>),
}

/// What the reactor provides to a shard in its turn. [`turn`](crate::scheduling::turn()) calls the methods in this order.
///
/// A method that returns `bool` does one thing and says whether there was one to do. It is called until it returns false, and
/// the engine's actions are performed after each call. How much of it one turn does is up to the implementation; what is left
/// must count in [`Io::end_turn`].
pub trait Io<M: Mode> {
    /// When the turn began, in microseconds of a clock that never goes back and is the same for all shards.
    fn began_us(&self) -> u64 {
        0
    }

    /// What that clock shows now. It is asked once at the end of a turn that has handed something on.
    fn now_us(&self) -> u64 {
        0
    }

    /// Whether the node's lease holds at this moment, by a clock that counts while the machine is suspended. Asked at the beginning of each
    /// turn of a shard whose mode has leases.
    fn holds_lease(&self) -> bool {
        true
    }

    /// How many batches the way to another shard takes now. Nobody but [`Io::send`] may make it fewer.
    fn room(&mut self, to: ShardIndex) -> usize;

    /// Lets in a connection that another shard has given away, and brings the bytes that came along.
    fn adopt(&mut self, shard: &mut Shard<M>) -> bool;

    /// The next batch from another shard, if one has come.
    fn next_batch(&mut self, from: ShardIndex) -> Option<Batch>;

    /// No more batches of this shard are taken in this turn. It is woken if it waits for the room.
    fn batches_taken(&mut self, from: ShardIndex);

    /// Reads from one connection.
    fn read(&mut self, shard: &mut Shard<M>) -> bool;

    /// Lets in new connections.
    fn accept(&mut self, shard: &mut Shard<M>);

    /// Does what was asked for from outside the shards' threads.
    fn run_commands(&mut self, shard: &mut Shard<M>);

    /// The other end of a connection, as its socket has it.
    fn peer(&mut self, _id: ConnectionId) -> Option<Peer> {
        None
    }

    /// Performs an action of the engine. It may bring bytes, and so lead to more actions.
    fn perform(&mut self, shard: &mut Shard<M>, action: Action);

    /// Takes requests of the mode off the front, as many as its thread has room for. The others are brought again in the next turn,
    /// which has to come as soon as there is room.
    fn send_requests(&mut self, _requests: &mut VecDeque<Request>) {}

    /// Sends batches to another shard, no more than [`Io::room`], and wakes it.
    fn send(&mut self, to: ShardIndex, batches: impl Iterator<Item = Batch>);

    /// Writes to the connections whose network has room again.
    fn write_ready(&mut self, shard: &mut Shard<M>);

    /// Writes the pending output of a connection as far as its network takes it.
    fn write(&mut self, shard: &mut Shard<M>, id: ConnectionId);

    /// The turn is over. Says what the surroundings themselves still have to do. Whatever is brought from now on, by other
    /// threads too, must wake the shard: what was brought before is seen by the looks that follow.
    fn end_turn(&mut self, shard: &mut Shard<M>) -> NextTurn;

    /// Asked after [`Io::end_turn`] of shards for which there are batches: whether the way takes one now. If not,
    /// the shard is woken as soon as it does.
    fn has_room_or_arm_waker(&mut self, to: ShardIndex) -> bool;
}
