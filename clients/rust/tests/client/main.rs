//! Complete clients against a real broker: async and blocking, lost connections, TLS, WebSocket, and
//! deadlocks.

mod authentication;
mod both_fronts;
mod credentials;
mod durable;
mod lost_connections;
mod no_deadlock;
mod requests;
mod subscriptions;
mod support;
#[cfg(feature = "tls")]
mod tls;
#[cfg(unix)]
mod unix;
#[cfg(feature = "websocket")]
mod websocket;
