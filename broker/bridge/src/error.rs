//! Why a link ends.

use std::fmt;

use tautwire_protocol::{ConnectReason, DecodeError, DisconnectReason, ReasonCode};

/// One of the two brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// This broker.
    Local,
    /// The other broker.
    Remote,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Local => "this broker",
            Side::Remote => "the remote broker",
        })
    }
}

/// Why a link ends. The sessions at both brokers remain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkError {
    /// A broker refused the connection.
    Refused(Side, ConnectReason, Option<Box<str>>),
    /// A broker disconnected the bridge.
    Disconnected(Side, DisconnectReason, Option<Box<str>>),
    /// A broker sent an invalid packet.
    Invalid(Side, DecodeError),
    /// A broker sent a packet that is valid but not allowed here.
    Unexpected(Side, &'static str),
    /// A broker did not answer in time.
    Timeout(Side, &'static str),
    /// This broker has no session, but the remote one has. The next attempt must discard that session `[MQTT-3.2.2-4]`.
    SessionLost,
}

impl LinkError {
    /// A stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            LinkError::Refused(..) => "refused",
            LinkError::Disconnected(..) => "disconnected",
            LinkError::Invalid(..) => "invalid_packet",
            LinkError::Unexpected(..) => "unexpected_packet",
            LinkError::Timeout(..) => "timeout",
            LinkError::SessionLost => "session_lost",
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_text = |f: &mut fmt::Formatter<'_>, text: &Option<Box<str>>| match text {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        };
        match self {
            LinkError::Refused(side, reason, text) => {
                write!(f, "{side} refused the connection: {}", ReasonCode::from(*reason))?;
                with_text(f, text)
            }
            LinkError::Disconnected(side, reason, text) => {
                write!(f, "{side} disconnected the bridge: {}", ReasonCode::from(*reason))?;
                with_text(f, text)
            }
            LinkError::Invalid(side, error) => write!(f, "{side} sent an invalid packet: {error}"),
            LinkError::Unexpected(side, packet) => write!(f, "{side} sent {packet}, which is not allowed here"),
            LinkError::Timeout(side, packet) => write!(f, "{side} did not send {packet} in time"),
            LinkError::SessionLost => {
                f.write_str("this broker has no session of the bridge, but the remote broker has one")
            }
        }
    }
}

impl std::error::Error for LinkError {}
