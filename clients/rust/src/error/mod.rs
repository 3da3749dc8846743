//! The errors of the client, with stable codes.

mod display;
mod message;
mod texts;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use tautwire_protocol::{DecodeError, DisconnectReason, EncodeError, QoS, ReasonCode, TopicError};

use crate::scram::ScramFault;
use crate::tls::{TlsFailure, TlsFault};

pub(crate) use message::{message, text_of};

/// The error of a callback of the application. Any error converts to it with `?`.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why an operation failed. Cheap to clone, because one cause may end many calls.
///
/// Its text has the form `TEXT (DETAIL) [CODE]`. The text says what is wrong and what to do, the detail gives the values of this
/// case. The codes are the same in all languages.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// An option is out of range, or two options conflict.
    Options(String),
    /// The arguments are invalid, or the call is not allowed now.
    Argument(Box<str>),
    /// The text is not a valid topic name or topic filter.
    Topic(TopicError),
    /// The packet cannot be encoded.
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
    /// The server does not support this QoS [MQTT-3.2.2-11].
    QoSNotSupported(QoS),
    /// The server does not support retained messages [MQTT-3.2.2-14].
    RetainNotSupported,
    /// The server or this version of MQTT does not support this.
    NotSupported(&'static str),
    /// The queue of messages or requests has reached a limit of [`crate::Limits`]. Only calls that do not wait return this.
    QueueFull,
    /// The unsent output has reached [`crate::Limits::output_bytes`]. Only calls that do not wait return this.
    OutputFull,
    /// The message expired before it could be sent.
    Expired,
    /// The server has lost the session. It is unknown whether the QoS 2 message was delivered, and sending it again might deliver it
    /// twice.
    SessionLost,
    /// The message store failed.
    Store {
        /// Its file.
        path: Box<str>,
        /// The error of the system.
        error: Arc<io::Error>,
    },
    /// The server refused the connection, a subscription or a message.
    Refused {
        /// What was refused.
        what: Refused,
        /// The server's reason.
        reason: ReasonCode,
        /// The server's explanation (Reason String).
        text: Option<Box<str>>,
        /// Another server to use, if the server named one.
        server_reference: Option<Box<str>>,
    },
    /// The name of the server cannot be resolved.
    NameNotFound {
        /// Host and port.
        address: Box<str>,
        /// The error of the system.
        error: Arc<io::Error>,
    },
    /// No connection to the address could be made.
    Unreachable {
        /// Host and port.
        address: Box<str>,
        /// The error of the system.
        error: Arc<io::Error>,
    },
    /// The server did not accept the connection within [`crate::Options::connect_timeout`].
    ConnectTimeout {
        /// Host and port.
        address: Box<str>,
        /// The last step that was waited for.
        awaited: &'static str,
    },
    /// The connection ended before the server had accepted it; the text says how.
    HandshakeFailed(Box<str>),
    /// The server did not answer a PINGREQ within [`crate::Options::ping_timeout`].
    KeepAliveTimeout,
    /// The time limit of the caller passed before this arrived.
    Canceled(&'static str),
    /// There is no connection, and the operation does not wait for one.
    NotConnected,
    /// The connection was lost; the text says how.
    Lost(Box<str>),
    /// The server sent a malformed packet.
    BadPacket(DecodeError),
    /// The server violated the protocol.
    Protocol(&'static str),
    /// The server ended the connection with DISCONNECT.
    Disconnected {
        /// The server's reason.
        reason: DisconnectReason,
        /// The server's explanation (Reason String).
        text: Option<Box<str>>,
        /// Another server to use, if the server named one.
        server_reference: Option<Box<str>>,
    },
    /// TLS could not be set up, or failed.
    Tls(TlsFailure),
    /// The server refused the WebSocket handshake; the text says why.
    WebSocketRefused(Box<str>),
    /// The authentication exchange failed on this side.
    Authentication(Box<str>),
    /// An exchange of SCRAM failed on this side.
    Scram(ScramFault),
    /// A callback of the application failed. Its text is only in [`std::error::Error::source`], as it may contain secrets.
    Callback {
        /// Which callback.
        what: &'static str,
        /// What it failed with.
        cause: Cause,
    },
    /// No response to a request arrived in time.
    RequestTimeout,
    /// The responder failed; its text for people.
    RequestFailed(Box<str>),
    /// No client has subscribed to the topic of the request.
    NoResponder,
    /// The client has been closed.
    Closed,
}

/// The error of a callback. `Debug` shows nothing of it; [`std::error::Error::source`] returns it.
#[derive(Clone)]
pub struct Cause(Arc<dyn StdError + Send + Sync>);

impl From<BoxError> for Cause {
    fn from(error: BoxError) -> Self {
        Cause(error.into())
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cause")
    }
}

/// What a server can refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
            Self::Options(_) => "invalid_options",
            Self::TooLarge { .. } | Self::Encode { error: EncodeError::PacketTooLarge { .. }, .. } => {
                "packet_too_large"
            }
            // The message and the source contain the text of the codec.
            Self::Argument(_) | Self::Topic(_) | Self::Encode { .. } => "invalid_argument",
            Self::QoSNotSupported(_) => "qos_not_supported",
            Self::RetainNotSupported => "retain_not_supported",
            Self::NotSupported(_) => "not_supported",
            Self::QueueFull => "queue_full",
            Self::OutputFull => "output_full",
            Self::Expired => "expired",
            Self::SessionLost => "session_lost",
            Self::Store { .. } => "store_failed",
            Self::Refused { what: Refused::Connection, reason, .. } => match reason {
                ReasonCode::UnsupportedProtocolVersion => "unsupported_protocol_version",
                ReasonCode::UseAnotherServer | ReasonCode::ServerMoved => "redirected",
                _ => "connection_refused",
            },
            Self::Refused { what: Refused::Message, .. } => "publish_refused",
            Self::Refused { what: Refused::Subscription(_), .. } => "subscribe_refused",
            Self::Refused { what: Refused::Unsubscription(_), .. } => "unsubscribe_refused",
            Self::NameNotFound { .. } => "name_not_found",
            Self::Unreachable { .. } => "unreachable",
            Self::ConnectTimeout { .. } => "connect_timeout",
            Self::HandshakeFailed(_) => "handshake_failed",
            Self::KeepAliveTimeout => "keep_alive_timeout",
            Self::Canceled(_) => "canceled",
            Self::NotConnected => "not_connected",
            Self::Lost(_) => "connection_lost",
            Self::BadPacket(_) | Self::Protocol(_) => "protocol_error",
            Self::Disconnected { reason, .. } => match reason {
                DisconnectReason::SessionTakenOver => "session_taken_over",
                DisconnectReason::UseAnotherServer | DisconnectReason::ServerMoved => "redirected",
                _ => "server_disconnected",
            },
            Self::Tls(failure) => failure.fault.code(),
            Self::WebSocketRefused(_) => "websocket_refused",
            Self::Authentication(_) => "authentication_failed",
            Self::Scram(fault) => fault.code(),
            Self::Callback { .. } => "callback_failed",
            Self::RequestTimeout => "request_timeout",
            Self::RequestFailed(_) => "request_failed",
            Self::NoResponder => "no_responder",
            Self::Closed => "closed",
        }
    }

    /// The server's reason code, if the error comes from a packet of the server.
    pub fn reason(&self) -> Option<ReasonCode> {
        match self {
            Self::Refused { reason, .. } => Some(*reason),
            Self::Disconnected { reason, .. } => Some((*reason).into()),
            _ => None,
        }
    }

    /// Whether another attempt would fail in the same way, so that the client does not reconnect.
    ///
    /// This holds for refused credentials, for a client identifier, version, method or will that the server does not accept, a ban, a
    /// move to another server, a session taken over by another client of the same identifier, and wrong options.
    pub fn is_permanent(&self) -> bool {
        use DisconnectReason as Reason;
        match self {
            Self::Options(_)
            | Self::Argument(_)
            | Self::Topic(_)
            | Self::Encode { .. }
            | Self::Authentication(_)
            | Self::Scram(_)
            | Self::QoSNotSupported(_)
            | Self::RetainNotSupported
            | Self::NotSupported(_)
            | Self::TooLarge { .. }
            | Self::Store { .. }
            | Self::Closed => true,
            Self::Tls(failure) => failure.fault == TlsFault::Settings,
            Self::Refused { what: Refused::Connection, reason, .. } => is_permanent_refusal(*reason),
            Self::Disconnected { reason, .. } => matches!(
                reason,
                Reason::NotAuthorized | Reason::SessionTakenOver | Reason::UseAnotherServer | Reason::ServerMoved
            ),
            _ => false,
        }
    }

    pub(crate) fn lost(how: impl fmt::Display) -> Self {
        Self::Lost(how.to_string().into())
    }

    pub(crate) fn argument(what: impl Into<Box<str>>) -> Self {
        Self::Argument(what.into())
    }

    pub(crate) fn refused(what: Refused, reason: impl Into<ReasonCode>, text: Option<&str>) -> Self {
        Self::Refused { what, reason: reason.into(), text: text.map(Into::into), server_reference: None }
    }

    /// Converts an error of a connection that the server had not accepted yet.
    pub(crate) fn before_connack(self) -> Self {
        match self {
            Self::Lost(how) => Self::HandshakeFailed(how),
            // The peer does not speak MQTT.
            Self::BadPacket(error) => Self::HandshakeFailed(error.to_string().into()),
            other => other,
        }
    }

    /// Whether there may be room later.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::QueueFull | Self::OutputFull)
    }
}

fn is_permanent_refusal(reason: ReasonCode) -> bool {
    matches!(
        reason,
        ReasonCode::UnsupportedProtocolVersion
            | ReasonCode::ClientIdentifierNotValid
            | ReasonCode::BadUserNameOrPassword
            | ReasonCode::NotAuthorized
            | ReasonCode::Banned
            | ReasonCode::BadAuthenticationMethod
            // A will that the server does not accept.
            | ReasonCode::TopicNameInvalid
            | ReasonCode::PacketTooLarge
            | ReasonCode::PayloadFormatInvalid
            | ReasonCode::RetainNotSupported
            | ReasonCode::QoSNotSupported
            | ReasonCode::UseAnotherServer
            | ReasonCode::ServerMoved
    )
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Topic(error) => Some(error),
            Self::Encode { error, .. } => Some(error),
            Self::NameNotFound { error, .. } | Self::Unreachable { error, .. } | Self::Store { error, .. } => {
                Some(&**error)
            }
            Self::BadPacket(error) => Some(error),
            Self::Tls(failure) => Some(failure),
            Self::Scram(fault) => Some(fault),
            Self::Callback { cause, .. } => Some(&*cause.0),
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
