//! Sockets: a level-triggered poller, connections that hand over whole frames, and the bare TCP floors.

mod connection;
mod floor;
mod poller;

pub(crate) use connection::{Connection, ReadBuffer, begin_connecting_from, connect_from};
pub(crate) use floor::{Role, measure_ping_pong, serve_echo, serve_relay};
pub(crate) use poller::Poller;
