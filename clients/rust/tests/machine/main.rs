//! The machine without I/O: against a server that checks every rule and loses connections at every point, and against
//! scripts.

mod authentication;
mod durable;
mod scripted;
mod server;
mod simulation;
