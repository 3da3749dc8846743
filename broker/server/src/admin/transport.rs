//! The bytes of an HTTP connection: TCP, plain or over TLS.

use std::future::{Future as _, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tautwire_reactor::QueryClient;
use tautwire_tls::TlsServer;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connections::Activity;

/// First byte of a TLS handshake record (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;
/// A connection ends if its client takes no byte of a response for this long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Unread input that is read and discarded before a connection is closed, so that TCP does not discard the response.
const DRAIN_MAX_BYTES: usize = 16 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The TCP connection of a client, for code that only needs to know whether the client is still connected.
#[derive(Debug, Clone)]
pub(super) struct Client(Arc<TcpStream>);

impl Client {
    pub(super) fn new(tcp: TcpStream) -> Client {
        Client(Arc::new(tcp))
    }

    /// Whether the client sends nothing more. As in most HTTP servers, that cancels long work for it; a short response
    /// still reaches a client that has only closed its sending side.
    pub(super) fn is_disconnected(&self) -> bool {
        #[cfg(target_os = "linux")]
        let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        #[cfg(not(target_os = "linux"))]
        let closed = PollFlags::HUP | PollFlags::ERR;
        let mut descriptors = [PollFd::new(&*self.0, closed)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut descriptors, Some(&now)).is_ok() && descriptors[0].revents().intersects(closed)
    }

    /// Waits for the first byte and says whether it begins a TLS handshake.
    pub(super) async fn begins_tls(&self) -> io::Result<bool> {
        let mut first = [0];
        match self.0.peek(&mut first).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(first == [HANDSHAKE]),
        }
    }

    pub(super) fn plain(&self) -> Stream {
        Stream::Plain(Socket { tcp: self.0.clone(), stalled: None })
    }

    /// Performs the server side of a TLS handshake.
    ///
    /// # Errors
    /// The handshake fails.
    pub(super) async fn accept_tls(&self, server: &TlsServer) -> io::Result<Stream> {
        let socket = Socket { tcp: self.0.clone(), stalled: None };
        let stream = TlsAcceptor::from(server.config()).accept(socket).await?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    /// Reads and discards what the client still sends, until it closes, within limits.
    async fn drain(&self) {
        let mut chunk = [0; 4 << 10];
        let mut left = DRAIN_MAX_BYTES;
        while left > 0 && self.0.readable().await.is_ok() {
            match self.0.try_read(&mut chunk) {
                Ok(0) => return,
                Ok(count) => left = left.saturating_sub(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    /// Sends `last`, ends the sending side, and closes the connection once the client has read that or takes too long.
    pub(super) async fn close(&self, mut stream: Stream, last: &[u8]) {
        let sent = timeout(WRITE_TIMEOUT, async {
            stream.write_all(last).await?;
            stream.shutdown().await
        });
        if sent.await.is_ok_and(|sent| sent.is_ok()) {
            let _ = timeout(DRAIN_TIMEOUT, self.drain()).await;
        }
    }
}

impl QueryClient for Client {
    fn is_there(&self) -> bool {
        !self.is_disconnected()
    }
}

/// A TCP connection on which a write that makes no progress fails.
#[derive(Debug)]
pub(super) struct Socket {
    tcp: Arc<TcpStream>,
    /// The timeout of the pending write.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.tcp.poll_read_ready(cx))?;
            match self.tcp.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.tcp.poll_write_ready(cx) {
                Poll::Ready(is_ready) => is_ready?,
                Poll::Pending => {
                    let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
                    ready!(stalled.as_mut().poll(cx));
                    return Poll::Ready(Err(ErrorKind::TimedOut.into()));
                }
            }
            match self.tcp.try_write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => {
                    self.stalled = None;
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(&*self.tcp, rustix::net::Shutdown::Write).map_err(Into::into))
    }
}

/// A connection, plain or over TLS.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            // HTTP lengths already detect truncation; many clients send no close_notify.
            Stream::Tls(stream) => match ready!(Pin::new(stream).poll_read(cx, buffer)) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
                read => Poll::Ready(read),
            },
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// A connection as given to hyper.
///
/// hyper answers input that is not HTTP with a bare status; [`Activity::replaces`] detects this, and the API sends its own error
/// object instead. Closing is left to [`Client::close`], which may have such an error to send.
#[derive(Debug)]
pub(super) struct MonitoredStream {
    stream: Stream,
    activity: Arc<Activity>,
}

impl MonitoredStream {
    pub(super) fn new(stream: Stream, activity: Arc<Activity>) -> MonitoredStream {
        MonitoredStream { stream, activity }
    }

    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }
}

impl AsyncRead for MonitoredStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.activity.bytes_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MonitoredStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.activity.replaces(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// Polls `done` until it is ready or `deadline` has passed. `None` on timeout.
pub(super) async fn poll_until<T>(
    mut done: impl FnMut(&mut Context<'_>) -> Poll<T>,
    mut deadline: impl FnMut() -> Option<tokio::time::Instant>,
) -> Option<T> {
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        if let Poll::Ready(value) = done(cx) {
            return Poll::Ready(Some(value));
        }
        // Read after each step, since a step may change it.
        let Some(deadline) = deadline() else { return Poll::Pending };
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
}
