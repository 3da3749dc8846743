//! Connections from the first byte to the last, with a client of rustls at the other end.

mod ends;
mod handshakes;
mod material;
mod support;
mod traffic;
