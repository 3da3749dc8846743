//! One HTTP connection: its requests and responses.

use std::convert::Infallible;
use std::future::Future as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::server::conn::http1::{Builder, Parts};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tautwire_tls::TlsServer;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::caller::Caller;
use super::connections::{Activity, HEAD_TIMEOUT, Phase};
use super::handler_limits::Class;
use super::listener::AcceptState;
use super::login;
use super::request::{BODY_MAX_BYTES, FIELDS_MAX, Head, REQUEST_HEAD_MAX_BYTES, RequestBody, timed_out};
use super::response::{Body, Response, Status};
use super::routes::{self, Route};
use super::state::AdminState;
use super::transport::{Client, MonitoredStream, Stream, poll_until};

/// Time limit from the head of a request to the end of its body, and for the handler.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Size of hyper's buffers for one connection.
const BUFFER_BYTES: usize = 64 << 10;

/// The context of all requests on a connection.
#[derive(Clone)]
struct ConnectionContext {
    admin: Arc<AdminState>,
    peer: SocketAddr,
    client: Client,
    activity: Arc<Activity>,
    is_tls: bool,
}

/// Serves a connection to its end. When `accept_state` changes, it ends after the current request.
pub(super) async fn serve(
    admin: Arc<AdminState>,
    (tcp, peer): (TcpStream, SocketAddr),
    activity: Arc<Activity>,
    tls: Option<Arc<TlsServer>>,
    accept_state: watch::Receiver<AcceptState>,
) {
    // A response usually is one write; the next must not wait for its acknowledgement.
    let _ = tcp.set_nodelay(true);
    let client = Client::new(tcp);
    let Ok(Some(stream)) = timeout(HEAD_TIMEOUT, open(&admin, &client, peer, tls.as_deref())).await else { return };
    let link = ConnectionContext { admin, peer, client, is_tls: stream.is_tls(), activity };
    let (error, stream) = link.exchange(stream, accept_state).await;
    let last = error.map_or_else(Vec::new, |error| {
        link.admin.count(&error);
        error.into_last_bytes()
    });
    link.activity.enter(Phase::Closing);
    link.client.close(stream, &last).await;
}

/// Performs the TLS handshake, if there is one.
async fn open(admin: &AdminState, client: &Client, peer: SocketAddr, tls: Option<&TlsServer>) -> Option<Stream> {
    let Some(server) = tls else { return Some(client.plain()) };
    // An error here means that nothing arrived.
    if client.begins_tls().await.ok()? {
        let stream = client.accept_tls(server).await;
        let refused = |error: &_| {
            log::warn!(listener = "admin", address = &*peer.to_string(); "refused connection: the TLS handshake failed: {error}");
        };
        return stream.inspect_err(refused).ok();
    }
    let message = "this address serves HTTPS; use https://";
    let error = Response::error(Status::BAD_REQUEST, "https_required", message);
    admin.count(&error);
    client.close(client.plain(), &error.into_last_bytes()).await;
    None
}

impl ConnectionContext {
    /// Serves requests until the connection ends. Returns the stream, and an error response that is still to be sent.
    async fn exchange(
        &self,
        stream: Stream,
        mut accept_state: watch::Receiver<AcceptState>,
    ) -> (Option<Response>, Stream) {
        let service = service_fn(|request| self.answer(request));
        let wire = TokioIo::new(MonitoredStream::new(stream, self.activity.clone()));
        let mut connection = Builder::new()
            .half_close(true)
            .title_case_headers(true)
            .max_headers(FIELDS_MAX)
            .max_header_size(REQUEST_HEAD_MAX_BYTES)
            .max_buf_size(BUFFER_BYTES)
            // `Activity::deadline` has the timeouts.
            .header_read_timeout(None)
            .serve_connection(wire, service);
        let ended = {
            let mut changed = Box::pin(accept_state.changed());
            let mut has_changed = false;
            let mut is_ending = false;
            let step = |cx: &mut Context<'_>| {
                has_changed = has_changed || changed.as_mut().poll(cx).is_ready();
                // hyper closes a connection without a response if it shuts down before any input arrived. So pending input is read first,
                // and a client that has not sent its first request yet may still do so.
                let polled: Poll<hyper::Result<()>> = Pin::new(&mut connection).poll(cx);
                if polled.is_ready() || is_ending || !has_changed || self.activity.phase() == Phase::Opening {
                    return polled;
                }
                is_ending = true;
                Pin::new(&mut connection).graceful_shutdown();
                Pin::new(&mut connection).poll(cx)
            };
            poll_until(step, || self.activity.deadline().map(Into::into)).await
        };
        let Parts { io, read_buf, .. } = connection.into_parts();
        let is_cut = self.activity.phase() == Phase::Head || !read_buf.is_empty();
        let bad_request = |message: &str| Some(Response::error(Status::BAD_REQUEST, "bad_request", message));
        let error = match ended {
            Some(Err(error)) if error.is_parse_too_large() && self.activity.was_replaced() => {
                let message = format!("the head is larger than {REQUEST_HEAD_MAX_BYTES} bytes or {FIELDS_MAX} fields");
                Some(Response::error(Status::HEAD_TOO_LARGE, "head_too_large", &message))
            }
            Some(Err(error)) if error.is_parse() && (self.activity.was_replaced() || error.is_parse_version_h2()) => {
                bad_request(&format!("not a valid HTTP request: {error}"))
            }
            Some(Err(error)) if error.is_incomplete_message() && self.activity.phase() == Phase::Head => {
                bad_request("the connection ended within the request head")
            }
            None if is_cut => Some(timed_out()),
            _ => None,
        };
        (error, io.into_inner().into_stream())
    }

    /// Handles one request.
    async fn answer(&self, request: hyper::Request<Incoming>) -> Result<hyper::Response<Body>, Infallible> {
        self.activity.enter(Phase::Request);
        let deadline = Instant::now() + EXCHANGE_TIMEOUT;
        let (parts, body) = request.into_parts();
        let response = match Head::read(&parts, self.is_tls) {
            Ok(head) => self.respond(head, body, deadline).await,
            Err(refusal) => refusal,
        };
        self.admin.count(&response);
        if response.is_error() {
            log::debug!("admin: {} gets {}", self.peer, response.status());
        }
        self.activity.enter(if response.is_stream() { Phase::Streaming } else { Phase::Idle });
        Ok(response.into_http(parts.method == hyper::Method::HEAD))
    }

    async fn respond(&self, head: Head, body: Incoming, deadline: Instant) -> Response {
        let (chosen, caller) = routes::choose(&self.admin, &head);
        let (head, caller) = (Arc::new(head), caller.map(Arc::new));
        let handled = match chosen {
            Ok(route) => self.handle(route, (&head, body), caller.as_ref(), deadline).await,
            Err(refusal) => Err(refusal),
        };
        let response = handled.unwrap_or_else(|refusal| refusal);
        // Reading requests are not audited, unless they are denied.
        if !head.is_safe() || matches!(response.status(), Status::UNAUTHORIZED | Status::FORBIDDEN) {
            let (address, status) = (self.peer.to_string(), response.status().code());
            let by = caller.as_ref().map_or_else(String::new, |caller| caller.principal.by());
            log::error!(
                target: crate::log::audit::TARGET,
                event = "admin", method = &*head.method, path = &*head.path, actor = &*by, address = &*address, status = status;
                ""
            );
        }
        response
    }

    /// Receives the body and calls the handler, on a blocking thread if it may block.
    async fn handle(
        &self,
        route: &'static Route,
        (head, body): (&Arc<Head>, Incoming),
        caller: Option<&Arc<Caller>>,
        deadline: Instant,
    ) -> Result<Response, Response> {
        let class = route.class();
        let (_permit, received) = match class {
            Class::Immediate => {
                let received = RequestBody::without_body(deadline);
                return Ok(route.answer(
                    (&self.admin, head, &received),
                    caller.map(|caller| &**caller),
                    (self.peer, &self.client),
                ));
            }
            // The sender is not authenticated: a handler must not wait for its body.
            Class::Login => {
                let received = RequestBody::read(head, body, login::BODY_BYTES_MAX, deadline).await?;
                (self.admin.handlers.acquire(class, deadline).await?, received)
            }
            Class::Metrics | Class::General => {
                let permit = self.admin.handlers.acquire(class, deadline).await?;
                (permit, RequestBody::read(head, body, BODY_MAX_BYTES, deadline).await?)
            }
        };
        self.activity.enter(Phase::Handling);
        let (link, head, caller) = (self.clone(), head.clone(), caller.cloned());
        let answered = tokio::task::spawn_blocking(move || {
            let request = (&link.admin, &*head, &received);
            route.answer(request, caller.as_deref(), (link.peer, &link.client))
        });
        answered.await.map_err(|_| Response::error(Status::INTERNAL, "internal", "internal error: the handler failed"))
    }
}

impl AdminState {
    fn count(&self, response: &Response) {
        let counters = &self.counters;
        counters.requests.fetch_add(1, Ordering::Relaxed);
        counters.refused.fetch_add(u64::from(response.is_error()), Ordering::Relaxed);
        counters.timeouts.fetch_add(u64::from(response.status() == Status::TIMEOUT), Ordering::Relaxed);
    }
}
