//! Tests a whole broker on real sockets, in this process: bytes arrive intact and in order, whatever the network does to them.

mod client;
mod commands;
mod ends;
mod fan_out;
mod large;
mod quickack;
mod small;
mod threads;
