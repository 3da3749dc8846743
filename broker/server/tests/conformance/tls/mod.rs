//! TLS: accepted clients, negotiated parameters, and isolation of others.

mod certificates;
mod handshakes;
mod support;
