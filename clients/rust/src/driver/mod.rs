//! What carries bytes between sockets and the shared state. It runs by itself, a task or a thread, whatever the application
//! does or does not do.

mod backoff;
pub(crate) mod connection;
#[cfg(feature = "tokio")]
pub(crate) mod task;
pub(crate) mod thread;

use std::io;
use std::net::TcpStream;
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

/// A connection to a Unix socket, which does not block. A stream is read from and written to by the same calls whatever its family, so this one goes on
/// as a TCP stream. Options of TCP must not be set on it.
#[cfg(unix)]
fn open_local(path: &str) -> io::Result<TcpStream> {
    // It does not wait where the server has a full queue, but says so.
    mio::net::UnixStream::connect(path).map(|stream| TcpStream::from(std::os::fd::OwnedFd::from(stream)))
}

#[cfg(not(unix))]
fn open_local(_: &str) -> io::Result<TcpStream> {
    Err(io::ErrorKind::Unsupported.into())
}

fn unreachable(address: &str, error: io::Error) -> Error {
    Error::Unreachable { address: address.into(), error: Arc::new(error) }
}
