//! Connections from the first byte to the last, against a rustls client.

mod ends;
mod handshakes;
mod material;
mod support;
mod traffic;
