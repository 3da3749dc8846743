//! The task that drives a client.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Sleep, sleep, timeout, timeout_at};

use super::attempts::Attempts;
use super::connection::{Connection, Progress, Socket};
use super::{Begin, ask_credentials, late, name_not_found, next_attempt, share_of, unreachable};
use crate::state::Shared;
use crate::{Error, Scheme, Server, log};

/// Drives the client until it ends.
pub(crate) async fn run(shared: Arc<Shared>, begin: Begin) {
    let mut attempts = Attempts::new(begin);
    loop {
        attempts.begin(&shared);
        let end = match until_stopped(&shared, connect(&shared)).await {
            Some(Ok(connection)) => serve(&shared, connection).await,
            Some(Err(error)) => Some(error),
            None => None,
        };
        let Some(pause) = attempts.end(&shared, end) else { return };
        if until_stopped(&shared, sleep(pause)).await.is_none() {
            shared.finish(&Error::Closed);
            return;
        }
    }
}

async fn connect(shared: &Arc<Shared>) -> Result<Connection<TcpStream>, Error> {
    let (server, until_ms) = next_attempt(shared);
    let until = shared.instant_of(until_ms);
    let asked = timeout_at(until.into(), ask_credentials(shared)).await;
    asked.map_err(|_| late(&server, "the credentials of the application"))??;
    log::connecting(&server);
    let stream = match server.scheme {
        Scheme::Unix => {
            let stream = super::open_local(&server.path).and_then(TcpStream::from_std);
            stream.map_err(|error| unreachable(&server, error))?
        }
        _ => dial(&server, until).await?,
    };
    Connection::new(stream, shared.clone(), until_ms)
}

async fn dial(server: &Server, until: Instant) -> Result<TcpStream, Error> {
    let addresses = timeout_at(until.into(), lookup_host((server.host.as_str(), server.port))).await;
    let addresses = addresses.map_err(|_| late(server, "the address of the name"))?;
    let addresses: Vec<_> = addresses.map_err(|error| name_not_found(server, error))?.collect();
    let mut last = name_not_found(server, io::ErrorKind::NotFound.into());
    for (at, address) in addresses.iter().enumerate() {
        last = match timeout(share_of(until, addresses.len() - at), TcpStream::connect(address)).await {
            Ok(Ok(stream)) => match stream.set_nodelay(true) {
                Ok(()) => return Ok(stream),
                Err(error) => unreachable(server, error),
            },
            Ok(Err(error)) => unreachable(server, error),
            Err(_) => late(server, "the connection"),
        };
    }
    Err(last)
}

/// Serves a connection. Returns why it ended, or `None` if that was intended.
async fn serve(shared: &Arc<Shared>, mut connection: Connection<TcpStream>) -> Option<Error> {
    let mut timer = std::pin::pin!(sleep(Duration::ZERO));
    let mut armed_ms = None;
    poll_fn(|cx| {
        loop {
            match connection.advance(cx) {
                Progress::Ended(why) => return Poll::Ready(why),
                Progress::Busy => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Progress::Idle(None) => return Poll::Pending,
                Progress::Idle(Some(at_ms)) => {
                    let at = shared.instant_of(at_ms);
                    if !arm(timer.as_mut(), &mut armed_ms, at_ms, at, cx) {
                        return Poll::Pending;
                    }
                }
            }
        }
    })
    .await
}

/// Sets the timer; returns whether it has expired. A timer that is set too early is left alone, because
/// deadlines mostly move later.
fn arm(mut timer: Pin<&mut Sleep>, armed_ms: &mut Option<u64>, at_ms: u64, at: Instant, cx: &mut Context<'_>) -> bool {
    loop {
        if armed_ms.is_none_or(|armed_ms| armed_ms > at_ms) {
            timer.as_mut().reset(at.into());
            *armed_ms = Some(at_ms);
        }
        if timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        *armed_ms = None;
        if at <= Instant::now() {
            return true;
        }
    }
}

/// Waits for `other`; `None` if the client is to end first.
async fn until_stopped<T>(shared: &Shared, other: impl Future<Output = T>) -> Option<T> {
    let mut other = std::pin::pin!(other);
    poll_fn(|cx| {
        if !shared.sleep_offline(cx) {
            return Poll::Ready(None);
        }
        other.as_mut().poll(cx).map(Some)
    })
    .await
}

impl Socket for TcpStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        Pin::new(self).poll_read(cx, &mut buffer).map_ok(|()| buffer.filled().len())
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(cx, bytes)
    }

    fn finish_writing(&mut self) {
        // A shutdown of the sending side does not wait.
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let _ = Pin::new(self).poll_shutdown(&mut cx);
    }
}
