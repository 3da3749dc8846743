//! What can go wrong, with stable codes.

use std::fmt;
use std::io;
use std::sync::Arc;

use tautwire_protocol::{DecodeError, DisconnectReason, EncodeError, ReasonCode, TopicError};

use crate::scram::ScramFault;
use crate::tls::{TlsFailure, TlsFault};

/// Why something was not done. Cheap to clone: one cause may end many calls.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// An option makes no sense; the text says which and what to do.
    Options(String),
    /// The text is not a topic name or not a topic filter.
    Topic(TopicError),
    /// The packet cannot be written.
    Encode {
        /// Which packet, as the standard names it.
        packet: &'static str,
        /// What is wrong with it.
        error: EncodeError,
    },
    /// The packet is larger than the server accepts [MQTT-3.2.2-15].
    TooLarge {
        /// Size of the whole packet.
        bytes: usize,
        /// What the server accepts.
        limit_bytes: u32,
    },
    /// The server said in CONNACK that it does not offer this.
    NotOffered(&'static str),
    /// No room at the moment; only calls that do not wait say so.
    Full,
    /// The message expired before it could be sent.
    Expired,
    /// The server has lost the session. Whether the QoS 2 message was delivered cannot be told, and sending it again might
    /// deliver it twice.
    SessionLost,
    /// The server refused the connection, a subscription or a message.
    Refused {
        /// What was refused.
        what: Refused,
        /// The server's reason.
        reason: ReasonCode,
        /// The server's explanation for people.
        text: Option<Box<str>>,
        /// Another server to use, where the server named one.
        server_reference: Option<Box<str>>,
    },
    /// No connection to the address.
    Unreachable {
        /// Host and port.
        address: Box<str>,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// Something did not come in time.
    Timeout(&'static str),
    /// The connection was lost; the text says how.
    Lost(Box<str>),
    /// The server sent what MQTT does not allow.
    BadPacket(DecodeError),
    /// The server broke a rule of the protocol.
    Protocol(&'static str),
    /// The server ended the connection with DISCONNECT.
    Disconnected {
        /// The server's reason.
        reason: DisconnectReason,
        /// The server's explanation for people.
        text: Option<Box<str>>,
        /// Another server to use, where the server named one.
        server_reference: Option<Box<str>>,
    },
    /// TLS could not be set up or failed.
    Tls(TlsFailure),
    /// The WebSocket handshake or framing failed.
    WebSocket(Box<str>),
    /// The authentication exchange failed on this side.
    Authentication(Box<str>),
    /// An exchange of SCRAM failed on this side.
    Scram(ScramFault),
    /// The client has been closed.
    Closed,
}

/// What a server can refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The connection.
    Connection,
    /// A message.
    Message,
    /// A subscription to this filter.
    Subscription(Box<str>),
    /// The end of the subscription to this filter.
    Unsubscription(Box<str>),
}

impl Error {
    /// A stable name for programs and logs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Options(_) => "options",
            Self::Topic(error) => error.kind.code(),
            Self::Encode { error, .. } => error.code(),
            Self::TooLarge { .. } => "packet_too_large",
            Self::NotOffered(_) => "not_offered",
            Self::Full => "full",
            Self::Expired => "expired",
            Self::SessionLost => "session_lost",
            Self::Refused { .. } => "refused",
            Self::Unreachable { .. } => "unreachable",
            Self::Timeout(_) => "timeout",
            Self::Lost(_) => "connection_lost",
            Self::BadPacket(_) => "bad_packet",
            Self::Protocol(_) => "protocol_error",
            Self::Disconnected { .. } => "disconnected",
            Self::Tls(failure) => failure.fault.code(),
            Self::WebSocket(_) => "websocket",
            Self::Authentication(_) => "authentication",
            Self::Scram(fault) => fault.code(),
            Self::Closed => "closed",
        }
    }

    /// Whether trying again would end the same way, so that the client does not connect again by itself.
    ///
    /// So it is with refused credentials, a client identifier, version or will that the server does not take, a ban, a
    /// move to another server, a session taken over by another client of the same identifier, and wrong options.
    pub fn is_permanent(&self) -> bool {
        use DisconnectReason as Left;
        match self {
            Self::Options(_)
            | Self::Topic(_)
            | Self::Encode { .. }
            | Self::Authentication(_)
            | Self::Scram(_)
            | Self::NotOffered(_)
            | Self::TooLarge { .. }
            | Self::Closed => true,
            Self::Tls(failure) => failure.fault == TlsFault::Settings,
            Self::Refused { what: Refused::Connection, reason, .. } => is_permanent_refusal(*reason),
            Self::Disconnected { reason, .. } => matches!(
                reason,
                Left::NotAuthorized
                    | Left::SessionTakenOver
                    | Left::UseAnotherServer
                    | Left::ServerMoved
                    | Left::AdministrativeAction
            ),
            _ => false,
        }
    }

    pub(crate) fn lost(how: impl fmt::Display) -> Self {
        Self::Lost(how.to_string().into())
    }

    pub(crate) fn refused(what: Refused, reason: impl Into<ReasonCode>, text: Option<&str>) -> Self {
        Self::Refused { what, reason: reason.into(), text: text.map(Into::into), server_reference: None }
    }
}

fn is_permanent_refusal(reason: ReasonCode) -> bool {
    matches!(
        reason,
        ReasonCode::MalformedPacket
            | ReasonCode::ProtocolError
            | ReasonCode::UnsupportedProtocolVersion
            | ReasonCode::ClientIdentifierNotValid
            | ReasonCode::BadUserNameOrPassword
            | ReasonCode::NotAuthorized
            | ReasonCode::Banned
            | ReasonCode::BadAuthenticationMethod
            | ReasonCode::TopicNameInvalid
            | ReasonCode::PacketTooLarge
            | ReasonCode::PayloadFormatInvalid
            | ReasonCode::RetainNotSupported
            | ReasonCode::QoSNotSupported
            | ReasonCode::UseAnotherServer
            | ReasonCode::ServerMoved
    )
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(text) => f.write_str(text),
            Self::Topic(error) => error.fmt(f),
            Self::Encode { packet, error } => write!(f, "the {packet} packet cannot be written: {error}"),
            Self::TooLarge { bytes, limit_bytes } => {
                write!(f, "the packet would have {bytes} bytes, and the server accepts at most {limit_bytes}")
            }
            Self::NotOffered(what) => write!(f, "the server does not offer {what}"),
            Self::Full => f.write_str("there is no room: wait, or raise the limits"),
            Self::Expired => f.write_str("the message expired before it could be sent"),
            Self::SessionLost => {
                f.write_str("the server lost the session; the QoS 2 message may have been delivered or not")
            }
            Self::Refused { what, reason, text, server_reference } => {
                write!(f, "{what} is refused: {reason}")?;
                explain(f, text, server_reference)
            }
            Self::Unreachable { address, error } => write!(f, "cannot connect to {address}: {error}"),
            Self::Timeout(what) => write!(f, "{what} did not come in time"),
            Self::Lost(how) => write!(f, "the connection is lost: {how}"),
            Self::BadPacket(error) => write!(f, "the server sent a bad packet: {error}"),
            Self::Protocol(what) => write!(f, "the server sent {what}"),
            Self::Disconnected { reason, text, server_reference } => {
                write!(f, "the server disconnected: {}", ReasonCode::from(*reason))?;
                explain(f, text, server_reference)
            }
            Self::Tls(failure) => write!(f, "TLS: {failure}"),
            Self::WebSocket(what) => write!(f, "WebSocket: {what}"),
            Self::Authentication(what) => write!(f, "the authentication failed: {what}"),
            Self::Scram(fault) => write!(f, "the authentication failed: {fault}"),
            Self::Closed => f.write_str("the client is closed"),
        }
    }
}

fn explain(f: &mut fmt::Formatter<'_>, text: &Option<Box<str>>, server: &Option<Box<str>>) -> fmt::Result {
    if let Some(text) = text {
        write!(f, ": {text}")?;
    }
    match server {
        Some(server) => write!(f, " (use {server})"),
        None => Ok(()),
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection => f.write_str("the connection"),
            Self::Message => f.write_str("the message"),
            Self::Subscription(filter) => write!(f, "the subscription {filter}"),
            Self::Unsubscription(filter) => write!(f, "the unsubscription {filter}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Topic(error) => Some(error),
            Self::Encode { error, .. } => Some(error),
            Self::Unreachable { error, .. } => Some(&**error),
            Self::BadPacket(error) => Some(error),
            Self::Tls(failure) => Some(failure),
            Self::Scram(fault) => Some(fault),
            _ => None,
        }
    }
}

impl From<ScramFault> for Error {
    fn from(fault: ScramFault) -> Self {
        Self::Scram(fault)
    }
}

impl From<TopicError> for Error {
    fn from(error: TopicError) -> Self {
        Self::Topic(error)
    }
}
