//! A cluster node on NATS JetStream.
//!
//! [`tautwire_cluster::Member`] decides; this crate executes its decisions, on a thread of its own that serves no client: operations on
//! streams and buckets, messages between nodes, and QoS 0 messages on the bus.
//!
//! `docs/internals/cluster-format.md` describes the stored data, and `docs/decisions/0032-cluster.md` explains the design. A broker without
//! a cluster does not use this crate.

#![forbid(unsafe_code)]

mod broker;
mod bus;
mod clock;
mod command;
mod connection;
mod counters;
mod deferred;
mod error;
mod handle;
pub mod jetstream;
mod layout;
pub mod log;
mod log_limiter;
mod node;
pub mod records;
pub mod retained;
mod settings;
mod setup;
mod start;
mod store;
mod tasks;

#[cfg(test)]
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../tests/servers/mod.rs"]
mod servers;

pub use broker::{Broker, ConnectionStatus, EndReason};
pub use clock::now_ms;
pub use command::Command;
pub use connection::{Address, connect};
pub use counters::{Counter, Counters};
pub use error::Error;
pub use handle::{Handle, Refused};
pub use node::{NodeRun, random_incarnation};
pub use settings::{Access, Credentials, Limits, Settings, Storage, Syncing, Times, Tls};
pub use setup::{ClusterInfo, prepare};
pub use start::{check, found};
