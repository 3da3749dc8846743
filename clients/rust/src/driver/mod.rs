//! What carries bytes between sockets and the shared state. It runs by itself, a task or a thread, whatever the application
//! does or does not do.

mod backoff;
pub(crate) mod connection;
#[cfg(feature = "tokio")]
pub(crate) mod task;
pub(crate) mod thread;

use std::io;
use std::sync::Arc;

use crate::Error;

/// How a client begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The first failure ends it.
    FailAtOnce,
    /// It tries until it is let in.
    KeepTrying,
}

fn unreachable(address: &str, error: io::Error) -> Error {
    Error::Unreachable { address: address.into(), error: Arc::new(error) }
}
