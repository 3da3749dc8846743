//! One shard of the broker as a machine without I/O: bytes and time go in, bytes and wishes come out.
//!
//! [`Shard`] is the whole of it. A reactor drives it with sockets, a fuzzer or a test without. The connections of a shard
//! and their sessions belong to it alone, so nothing of them is locked; what shards must agree on is in
//! [`tautwire_router::Exchange`] and [`ContractBoard`].

#![forbid(unsafe_code)]

mod ack;
mod connection;
mod contracts;
mod counters;
mod deliver;
mod discovery;
mod fan_out;
mod formats;
mod frames;
mod handshake;
mod hub;
mod incoming;
mod lifecycle;
mod operator;
mod output;
mod route;
mod scans;
mod settings;
mod shard;
mod subscribe;
mod sys;
mod wheel;

pub use connection::ConnectionId;
pub use contracts::ContractBoard;
pub use counters::{Counter, Counters, Totals};
pub use hub::Action;
pub use operator::{NotPublished, Publication};
pub use output::{Chunk, Output};
pub use settings::{Settings, SlowConsumer};
pub use shard::{Shard, Shared};
