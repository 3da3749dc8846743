//! A broker without sockets, threads or a clock, for tests and fuzzing: everything that can happen on a network and between
//! threads is a choice of the caller, so that what went wrong once goes wrong again.

mod broker;
mod choices;
#[allow(dead_code, reason = "only the tests of a cluster use it")]
mod cluster;
mod network;
mod slow_store;
mod socket;
mod turning;

pub(crate) use broker::SimulatedBroker;
pub(crate) use choices::{Choices, NoDelays, Random};
pub(crate) use socket::SocketId;
