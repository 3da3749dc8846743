//! Memory accounting: everything that clients can cause the broker to hold, by kind and by shard.
//!
//! Each shard has one [`MemoryLedger`]. Memory is entered there before it is held, and removed when the value that holds it is dropped: a
//! [`Charge`] of a buffer or a batch, or a [`TrackedValue`] that changes often. [`Memory`] adds up the ledgers and computes the free
//! memory, for one client and for all.

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
