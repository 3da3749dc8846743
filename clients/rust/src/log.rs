//! Reports connection events to `tracing`, if enabled. Never payloads, never secrets.

use std::time::Duration;

use crate::{Error, Server};

#[cfg(feature = "tracing")]
const TARGET: &str = "tautwire_client";

pub(crate) fn connecting(server: &Server) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: TARGET, server = %server, "connecting");
    #[cfg(not(feature = "tracing"))]
    let _ = server;
}

pub(crate) fn connected(session_present: bool) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: TARGET, session_present, "connected");
    #[cfg(not(feature = "tracing"))]
    let _ = session_present;
}

pub(crate) fn trying_again(error: &Error, after: Duration) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: TARGET, code = error.code(), %error, after_ms = after.as_millis() as u64, "connecting again");
    #[cfg(not(feature = "tracing"))]
    let _ = (error, after);
}

pub(crate) fn ended(error: &Error) {
    #[cfg(feature = "tracing")]
    match error {
        Error::Closed => tracing::info!(target: TARGET, "disconnected"),
        error => tracing::error!(target: TARGET, code = error.code(), %error, "ended"),
    }
    #[cfg(not(feature = "tracing"))]
    let _ = error;
}

pub(crate) fn subscription_lost(filter: &str, error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::error!(target: TARGET, filter, code = error.code(), %error, "could not renew a subscription");
    #[cfg(not(feature = "tracing"))]
    let _ = (filter, error);
}

pub(crate) fn held_up(filters: &[String]) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: TARGET, ?filters, "a full stream paused reading for too long: its QoS 0 messages are dropped until it is read");
    #[cfg(not(feature = "tracing"))]
    let _ = filters;
}

pub(crate) fn responder_failed(topic: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: TARGET, topic, "a responder failed");
    #[cfg(not(feature = "tracing"))]
    let _ = topic;
}

pub(crate) fn response_unsent(error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: TARGET, code = error.code(), %error, "could not publish a response");
    #[cfg(not(feature = "tracing"))]
    let _ = error;
}
