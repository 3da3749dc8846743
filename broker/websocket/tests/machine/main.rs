//! The state machine as a reactor drives it: input and output split at any byte.

mod handshake;
mod streams;
mod support;
