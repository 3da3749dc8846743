//! A broker without sockets, threads or a clock, for tests and fuzzing.
//!
//! The caller decides everything that happens on the network and between threads, so that failures can be reproduced.

mod broker;
mod choices;
#[allow(dead_code, reason = "only the cluster tests use it")]
mod cluster;
mod network;
mod slow_store;
mod socket;
mod turn;

pub(crate) use broker::SimulatedBroker;
pub(crate) use choices::{Choices, NoDelays, Random};
pub(crate) use socket::SocketId;
