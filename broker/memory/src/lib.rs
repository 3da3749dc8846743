//! The account of memory: everything that clients can make the broker hold, by kind and by shard.
//!
//! Each shard has one [`MemoryLedger`]. What is held is entered there before it is held. It is taken out when the value that
//! holds it is dropped: a [`Charge`] that belongs to a buffer or a batch, or an [`TrackedValue`] value that changes often.
//! [`Memory`] adds the ledgers up and says what still fits, for one client and for all.

#![forbid(unsafe_code)]

mod accounted;
mod charge;
mod kind;
mod ledger;
mod limits;

pub use accounted::{Footprint, MemoryFootprint, TrackedValue};
pub use charge::Charge;
pub use kind::Kind;
pub use ledger::{DetachedLedger, MemoryLedger};
pub use limits::{Limits, Memory, MemoryLimitError, ShardMemory};
