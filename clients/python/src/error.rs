//! Errors of the Rust client, in the words of spec/errors.

use std::io;

use pyo3::prelude::*;
use tautwire_client::{Error, ReasonCode, Refused, TlsFault};

/// An exception `tautwire.MqttError`. The text that belongs to the code is with its class, in Python.
pub(crate) fn new(py: Python<'_>, code: &str, detail: Option<&str>, reason: Option<u8>) -> PyErr {
    let made = py
        .import("tautwire.errors")
        .and_then(|module| module.getattr("MqttError"))
        .and_then(|class| class.call1((code, detail, reason)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The exception for an error of the client.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let (code, detail, reason) = told(error);
    new(py, code, detail.as_deref(), reason)
}

/// Code, what it was in this case, and the reason code of the packet that brought it.
fn told(error: &Error) -> (&'static str, Option<String>, Option<u8>) {
    match error {
        Error::Options(text) => ("invalid_options", Some(text.clone()), None),
        Error::Topic(error) => (error.kind.code(), Some(error.to_string()), None),
        Error::Encode { error, .. } => (error.code(), Some(error.to_string()), None),
        Error::TooLarge { bytes, limit_bytes } => {
            ("packet_too_large", Some(format!("{bytes} bytes, at most {limit_bytes}")), None)
        }
        Error::NotOffered(what) => (not_offered(what), Some((*what).to_owned()), None),
        Error::Full => ("queue_full", None, None),
        Error::Expired => ("expired", None, None),
        Error::SessionLost => ("session_lost", None, None),
        Error::Refused { what, reason, text, server_reference } => {
            let of = match what {
                Refused::Connection | Refused::Message => None,
                Refused::Subscription(filter) | Refused::Unsubscription(filter) => Some(&**filter),
            };
            let said = [of, Some(reason.name()), text.as_deref(), server_reference.as_deref()];
            (refused(what, *reason), Some(joined(&said)), Some(reason.as_u8()))
        }
        Error::Unreachable { address, error } => (unreachable(error), Some(format!("{address}: {error}")), None),
        Error::Timeout(what) => (timed_out(what), Some((*what).to_owned()), None),
        Error::Lost(how) => ("connection_lost", Some(how.to_string()), None),
        Error::BadPacket(error) => ("protocol_error", Some(error.to_string()), None),
        Error::Protocol(what) => ("protocol_error", Some((*what).to_owned()), None),
        Error::Disconnected { reason, text, server_reference } => {
            let reason = ReasonCode::from(*reason);
            let code = match reason {
                ReasonCode::SessionTakenOver => "session_taken_over",
                ReasonCode::UseAnotherServer | ReasonCode::ServerMoved => "redirected",
                _ => "server_disconnected",
            };
            let said = [Some(reason.name()), text.as_deref(), server_reference.as_deref()];
            (code, Some(joined(&said)), Some(reason.as_u8()))
        }
        Error::Tls(failure) => {
            let code = match failure.fault {
                TlsFault::Needed | TlsFault::Violation => "handshake_failed",
                fault => fault.code(),
            };
            (code, Some(failure.text.to_string()), None)
        }
        Error::WebSocket(what) => ("websocket_refused", Some(what.to_string()), None),
        Error::Authentication(what) => ("authentication_failed", Some(what.to_string()), None),
        Error::Scram(fault) => ("authentication_failed", Some(fault.to_string()), None),
        Error::Closed => ("closed", None, None),
        other => (other.code(), Some(other.to_string()), None),
    }
}

fn refused(what: &Refused, reason: ReasonCode) -> &'static str {
    match (what, reason) {
        (Refused::Connection, ReasonCode::UnsupportedProtocolVersion) => "unsupported_protocol_version",
        (Refused::Connection, ReasonCode::UseAnotherServer | ReasonCode::ServerMoved) => "redirected",
        (Refused::Connection, _) => "connection_refused",
        (Refused::Message, _) => "publish_refused",
        (Refused::Subscription(_), _) => "subscribe_refused",
        (Refused::Unsubscription(_), _) => "unsubscribe_refused",
    }
}

fn not_offered(what: &str) -> &'static str {
    match what {
        "QoS 1" | "QoS 2" | "the QoS of the message" => "qos_not_supported",
        "retained messages" => "retain_not_supported",
        _ => "not_supported",
    }
}

fn unreachable(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::TimedOut => "connect_timeout",
        // The standard library has no kind for a name that nobody knows.
        _ if error.to_string().starts_with("failed to lookup address") => "name_not_found",
        _ => "unreachable",
    }
}

fn timed_out(what: &str) -> &'static str {
    match what {
        "PINGRESP" => "keep_alive_timeout",
        "CONNACK" | "the handshake of TLS or WebSocket" => "connect_timeout",
        _ => "request_timeout",
    }
}

fn joined(parts: &[Option<&str>]) -> String {
    parts.iter().flatten().copied().collect::<Vec<_>>().join(": ")
}
