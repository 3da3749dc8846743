//! Connections to the NATS servers.

mod address;
mod credentials;

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, RequestErrorKind};
use log::{info, warn};
use tokio::sync::Notify;

use crate::counters::Counters;
use crate::error::Error;
use crate::log_limiter::LogLimiter;
use crate::settings::{Access, Limits, Times};

pub use address::Address;

/// Connects to a NATS server. `connected` is notified each time a connection is made. The client reconnects by itself, to any of the
/// servers, with credentials that are read again.
///
/// # Errors
/// A file cannot be used, or no server accepts this node.
pub async fn connect(
    access: &Access,
    node_name: &str,
    times: &Times,
    limits: &Limits,
    counters: &Arc<Counters>,
    connected: &Arc<Notify>,
) -> Result<Client, Error> {
    credentials::check(&access.credentials)?;
    check_tls(access)?;
    let servers = access.servers.iter().map(Address::server).collect::<Result<Vec<_>, _>>()?;
    let options = options(access, node_name, times, limits, counters.clone(), connected.clone());
    options.connect(servers).await.map_err(|error| Error::Connection { why: error.to_string() })
}

/// Waits until the server has processed everything sent on this connection before. The subject has no subscriber, and the server reports
/// that at once. Returns false if it does not answer in time.
pub(crate) async fn round_trip(client: &Client) -> bool {
    let answer = client.request("tw.nobody", Vec::new().into()).await;
    answer.is_err_and(|error| error.kind() == RequestErrorKind::NoResponders)
}

fn options(
    access: &Access,
    node_name: &str,
    times: &Times,
    limits: &Limits,
    counters: Arc<Counters>,
    connected: Arc<Notify>,
) -> ConnectOptions {
    let credentials = access.credentials.clone();
    let pause_max_ms = times.reconnect_max_ms;
    let log_limiter = LogLimiter::default();
    let mut options = ConnectOptions::with_auth_callback(move |nonce| {
        let auth = credentials::authenticate(&credentials, &nonce);
        async move { auth.map_err(async_nats::AuthError::new) }
    })
    .name(format!("tautwire {node_name}"))
    .require_tls(access.tls.is_required)
    .ping_interval(Duration::from_millis(times.ping_ms))
    .connection_timeout(Duration::from_millis(times.connect_ms))
    .request_timeout(Some(Duration::from_millis(times.operation_ms)))
    .reconnect_delay_callback(move |attempts| pause(attempts, pause_max_ms))
    .max_reconnects(None)
    // Shards deliver messages that are published here without the bus.
    .no_echo()
    .subscription_capacity(limits.subscription_max)
    .client_capacity(limits.outgoing_max)
    .event_callback(move |event| {
        note(&event, &counters, &log_limiter);
        if matches!(event, Event::Connected) {
            connected.notify_one();
        }
        std::future::ready(())
    });
    if let Some(authorities) = &access.tls.authorities {
        options = options.add_root_certificates(authorities.clone());
    }
    if let Some((certificate, key)) = &access.tls.certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    options
}

/// Returns the delay before an attempt: none for the first one, then doubling.
fn pause(attempts: usize, max_ms: u64) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(2)).unwrap_or(u32::MAX).min(16);
    Duration::from_millis(if attempts <= 1 { 0 } else { (8 << doublings).min(max_ms) })
}

fn note(event: &Event, counters: &Counters, log_limiter: &LogLimiter) {
    match event {
        Event::Connected => {
            counters.connections.add(1);
            info!("connected to NATS");
        }
        Event::Disconnected => {
            counters.disconnections.add(1);
            warn!("lost the connection to NATS; reconnecting");
        }
        Event::SlowConsumer(_) => counters.slow_consumers.add(1),
        Event::LameDuckMode => info!("a NATS server is shutting down; switching to another one"),
        // Messages of servers and sockets contain no secrets, because these are only sent to servers.
        Event::ServerError(error) if log_limiter.should_log() => warn!("NATS server error: {error}"),
        Event::ClientError(error) if log_limiter.should_log() => warn!("NATS client error: {error}"),
        Event::ServerError(_) | Event::ClientError(_) | Event::Draining | Event::Closed => {}
    }
}

/// Checks the TLS files. The NATS client reads them when it connects, and does not report which of them is wrong.
fn check_tls(access: &Access) -> Result<(), Error> {
    let authorities = access.tls.authorities.iter().map(|path| ("certificates of authorities (PEM)", path));
    let certificate = access.tls.certificate.iter().flat_map(|(certificate, key)| {
        [("the certificate of this node (PEM)", certificate), ("the key of this node's certificate (PEM)", key)]
    });
    for (what, path) in authorities.chain(certificate) {
        let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let has_it = read.and_then(|text| {
            if text.contains("-----BEGIN ") { Ok(()) } else { Err("the file contains no PEM data".into()) }
        });
        has_it.map_err(|why| Error::File { what, path: path.clone(), why })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delays_grow_to_their_limit() {
        let pauses: Vec<_> =
            [0, 1, 2, 3, 5, 9, 10, usize::MAX].map(|attempts| pause(attempts, 1000).as_millis()).into();
        assert_eq!(pauses, [0, 0, 8, 16, 64, 1000, 1000, 1000]);
    }
}
