//! Sockets: a level-triggered poller, connections that deliver whole frames, and the raw floors of TCP and TLS.

mod connection;
mod floor;
mod poller;
mod stream;
mod tls;
mod tls_relay;

pub(crate) use connection::{Connection, ReadBuffer, begin_connecting_from, connect_from};
pub(crate) use floor::{Role, measure_ping_pong, serve_echo, serve_relay};
pub(crate) use poller::Poller;
pub(crate) use stream::Stream;
pub(crate) use tls::client_config;
pub(crate) use tls_relay::serve_tls_relay;
