//! The threads of the broker. Each runs one [`tautwire_engine::Shard`] in a loop of turns: wait, take mail from other
//! threads, read what is readable, let the engine work, send mail, write every connection with fresh output once.
//!
//! There is no async runtime and no lock on this path. A connection costs a slot in a table; it has buffers only while
//! bytes of it are incomplete or unsent.

#![deny(unsafe_code)]

mod alarm;
mod broker;
mod clock;
mod desk;
mod input;
mod listener;
mod mailbox;
mod memory;
mod quickack;
mod sockets;
mod websockets;
mod worker;

pub use broker::{Broker, Control, StartError};
pub use desk::PublishError;
pub use listener::Listen;
pub use memory::forget_startup;
