//! TLS: who is let in, what is spoken, and what others notice of it.

mod certificates;
mod handshakes;
mod support;
