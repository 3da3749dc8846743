//! The machine as a reactor drives it: bytes in any pieces, output taken in any pieces.

mod handshake;
mod streams;
mod support;
