//! A task that drives a client.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep, timeout};

use super::backoff::Backoff;
use super::connection::{Connection, Progress, Socket};
use super::{Begin, unreachable};
use crate::state::Shared;
use crate::{Error, Scheme, log};

/// Drives the client to its end.
pub(crate) async fn run(shared: Arc<Shared>, begin: Begin) {
    let mut backoff = Backoff::default();
    let mut keeps_trying = begin == Begin::KeepTrying;
    loop {
        shared.set_connecting();
        let begun = Instant::now();
        let end = match connect(&shared).await {
            Ok(connection) => serve(&shared, connection).await,
            Err(error) => Some(error),
        };
        let was_online = shared.was_online();
        keeps_trying |= was_online;
        if was_online {
            backoff.connection_ended(begun.elapsed());
        }
        let error = end.unwrap_or(Error::Closed);
        if !shared.lost(&error, keeps_trying) {
            log::ended(&error);
            return;
        }
        let Some(reconnect) = shared.with_options(|options| options.reconnect) else { return };
        let pause = backoff.next(reconnect);
        log::trying_again(&error, pause);
        if !until_stopped(&shared, sleep(pause)).await {
            shared.finish(&Error::Closed);
            return;
        }
    }
}

async fn connect(shared: &Arc<Shared>) -> Result<Connection<TcpStream>, Error> {
    let (server, patience) = shared.with_options(|options| (options.server.clone(), options.connect_timeout));
    log::connecting(&server);
    let address = server.authority();
    let stream = match server.scheme {
        Scheme::Unix => super::open_local(&server.path).and_then(TcpStream::from_std),
        _ => {
            let connected = timeout(patience, TcpStream::connect((server.host.as_str(), server.port))).await;
            let connected = connected.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)));
            connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream))
        }
    };
    Connection::new(stream.map_err(|error| unreachable(&address, error))?, shared.clone())
}

/// Gives why the connection ended, where that was not wanted.
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

/// Sets the timer; whether its time has come. One that comes too early is let be, as deadlines mostly move away.
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

/// Waits for `other`; false where the client is to end first.
async fn until_stopped(shared: &Shared, other: impl Future<Output = ()>) -> bool {
    let mut other = std::pin::pin!(other);
    poll_fn(|cx| {
        if !shared.sleep_offline(cx) {
            return Poll::Ready(false);
        }
        other.as_mut().poll(cx).map(|()| true)
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
