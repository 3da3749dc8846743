//! The HTTP server of metrics, health and status.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::metrics::{self, SinkMetrics};

/// Connections at a time; others wait.
const CONNECTIONS_MAX: usize = 64;
/// The longest wait for a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Listens, and serves requests until the runtime ends. Returns the address, which the kernel may have chosen.
///
/// # Errors
/// The address is not available.
pub(crate) async fn serve(listen: SocketAddr, sinks: Vec<Arc<SinkMetrics>>) -> Result<SocketAddr, String> {
    let failed = |error| format!("cannot listen on {listen}: {error}; change http.listen [http_listen]");
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    tokio::spawn(accept(listener, sinks));
    Ok(address)
}

async fn accept(listener: TcpListener, sinks: Vec<Arc<SinkMetrics>>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Usually no descriptor is free; without a pause this would be a busy loop.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let sinks = sinks.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, &sinks))));
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT).keep_alive(false);
            // The client has gone, or was not an HTTP client.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}

fn answer(request: &Request<Incoming>, sinks: &[Arc<SinkMetrics>]) -> Response<Full<Bytes>> {
    let metrics = || sinks.iter().map(|sink| &**sink);
    let (status, content_type, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", metrics::prometheus(metrics()))
        }
        (&Method::GET, "/status") => (StatusCode::OK, "application/json", metrics::status(metrics()).to_string()),
        (&Method::GET, "/health/live") => (StatusCode::OK, "text/plain", "live\n".into()),
        (&Method::GET, "/health/ready") if metrics().all(SinkMetrics::is_ready) => {
            (StatusCode::OK, "text/plain", "ready\n".into())
        }
        (&Method::GET, "/health/ready") => {
            let waiting: Vec<&str> = metrics().filter(|sink| !sink.is_ready()).map(|sink| &*sink.name).collect();
            (StatusCode::SERVICE_UNAVAILABLE, "text/plain", format!("not ready: {}\n", waiting.join(", ")))
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", "GET /metrics, /status, /health/live or /health/ready\n".into()),
    };
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    response
}
