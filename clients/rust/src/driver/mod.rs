//! Drives a client: moves bytes between the socket and the shared state, in a task or thread of its own, independent of the application.

mod attempts;
mod backoff;
pub(crate) mod connection;
#[cfg(feature = "tokio")]
pub(crate) mod task;
pub(crate) mod thread;

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::duration::millis;
use crate::error::BoxError;
use crate::state::Shared;
use crate::state::caught;
use crate::{Error, Server};

pub(crate) use thread::dial;

/// How a client handles failures of its first connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The first failure ends the client.
    FailAtOnce,
    /// The client tries until the server accepts it.
    KeepTrying,
}

/// Opens a non-blocking connection to a Unix socket. Reading and writing use the same calls for every address family, so it is handled as a
/// TCP stream. TCP options must not be set on it.
#[cfg(unix)]
fn open_local(path: &str) -> io::Result<TcpStream> {
    // It does not wait where the server has a full queue, but says so.
    mio::net::UnixStream::connect(path).map(|stream| TcpStream::from(std::os::fd::OwnedFd::from(stream)))
}

#[cfg(not(unix))]
fn open_local(_: &str) -> io::Result<TcpStream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The server of the next attempt, and when that has to have succeeded.
fn next_attempt(shared: &Shared) -> (Server, u64) {
    let (server, timeout) = shared.with_options(|options| (options.server.clone(), options.connect_timeout));
    (server, shared.now_ms().saturating_add(millis(timeout)))
}

fn unreachable(server: &Server, error: io::Error) -> Error {
    Error::Unreachable { address: server.authority().into(), error: Arc::new(error) }
}

fn name_not_found(server: &Server, error: io::Error) -> Error {
    Error::NameNotFound { address: server.authority().into(), error: Arc::new(error) }
}

fn late(server: &Server, awaited: &'static str) -> Error {
    Error::ConnectTimeout { address: server.authority().into(), awaited }
}

/// The time that the next of so many addresses gets, so that one that does not answer leaves some for the others.
fn share_of(until: Instant, addresses_left: usize) -> Duration {
    let left = until.saturating_duration_since(Instant::now());
    (left / u32::try_from(addresses_left).unwrap_or(1).max(1)).max(Duration::from_millis(1))
}

/// Asks the application who it is on the next connection.
async fn ask_credentials(shared: &Shared) -> Result<(), Error> {
    shared.prepare_authentication();
    let Some(mut source) = shared.take_credentials_source() else { return Ok(()) };
    let asked = caught(async { source.ask().await }).await;
    let failed = |cause: BoxError| Error::Callback { what: "credentials", cause: cause.into() };
    let (credentials, outcome) = match asked {
        Some(Ok(credentials)) => (Some(credentials), Ok(())),
        Some(Err(error)) => (None, Err(failed(error))),
        None => (None, Err(failed("it panicked".into()))),
    };
    shared.set_credentials(source, credentials);
    outcome
}
