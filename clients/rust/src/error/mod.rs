//! What can go wrong, with stable codes.

mod display;
mod texts;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use tautwire_protocol::{DecodeError, DisconnectReason, EncodeError, QoS, ReasonCode, TopicError};

use crate::scram::ScramFault;
use crate::tls::{TlsFailure, TlsFault};

pub(crate) use display::message;

/// What a function of the application fails with. Any error becomes one with `?`.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why something was not done. Cheap to clone: one cause may end many calls.
///
/// Its text has the form `TEXT (DETAIL) [CODE]`. The text says what is wrong and what to do, the detail what it was in this case. The
/// codes are the same in all languages.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// An option is out of range, or two do not go together.
    Options(String),
    /// A call makes no sense with these arguments, or at this moment.
    Argument(Box<str>),
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
    /// The server does not support this QoS [MQTT-3.2.2-11].
    QoSNotSupported(QoS),
    /// The server keeps no retained messages [MQTT-3.2.2-14].
    RetainNotSupported,
    /// The server, or this version of MQTT, does not offer this.
    NotSupported(&'static str),
    /// The queue of messages, or of requests, has reached a limit of [`crate::Limits`]. Only calls that do not wait say so.
    QueueFull,
    /// What waits to be written has reached [`crate::Limits::output_bytes`]. Only calls that do not wait say so.
    OutputFull,
    /// The message expired before it could be sent.
    Expired,
    /// The server has lost the session. Nobody knows whether the QoS 2 message was delivered, and sending it again might deliver it
    /// twice.
    SessionLost,
    /// The store of messages failed.
    Store {
        /// Its file.
        path: Box<str>,
        /// What the system said.
        error: Arc<io::Error>,
    },
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
    /// The name of the server is not known.
    NameNotFound {
        /// Host and port.
        address: Box<str>,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// No connection to the address.
    Unreachable {
        /// Host and port.
        address: Box<str>,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// The server did not accept the connection within [`crate::Options::connect_timeout`].
    ConnectTimeout {
        /// Host and port.
        address: Box<str>,
        /// What was waited for last.
        awaited: &'static str,
    },
    /// The connection ended before the server had accepted it; the text says how.
    HandshakeFailed(Box<str>),
    /// The server did not answer a PINGREQ within [`crate::Options::ping_timeout`].
    KeepAliveTimeout,
    /// The caller's own time was over, before this came.
    Canceled(&'static str),
    /// There is no connection, for something that does not wait for one.
    NotConnected,
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
    /// The server did not turn the connection into a WebSocket; the text says why.
    WebSocketRefused(Box<str>),
    /// The authentication exchange failed on this side.
    Authentication(Box<str>),
    /// An exchange of SCRAM failed on this side.
    Scram(ScramFault),
    /// A function of the application failed. Its own text is in [`std::error::Error::source`], as it may hold secrets.
    Callback {
        /// Which function.
        what: &'static str,
        /// What it failed with.
        cause: Cause,
    },
    /// No response to a request came in time.
    RequestTimeout,
    /// The responder could not do what a request asked for; its sentence for people.
    RequestFailed(Box<str>),
    /// Nobody has subscribed to the topic of the request.
    NoResponder,
    /// The client has been closed.
    Closed,
}

/// What a function of the application failed with. It shows nothing of itself: [`std::error::Error::source`] gives it.
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
            // What the codec says of it is in the message, and the source.
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

    /// The server's reason code, where a packet of the server brought one.
    pub fn reason(&self) -> Option<ReasonCode> {
        match self {
            Self::Refused { reason, .. } => Some(*reason),
            Self::Disconnected { reason, .. } => Some((*reason).into()),
            _ => None,
        }
    }

    /// Whether trying again would end the same way, so that the client does not connect again by itself.
    ///
    /// So it is with refused credentials, a client identifier, version, method or will that the server does not take, a ban, a
    /// move to another server, a session taken over by another client of the same identifier, and wrong options.
    pub fn is_permanent(&self) -> bool {
        use DisconnectReason as Left;
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
                Left::NotAuthorized | Left::SessionTakenOver | Left::UseAnotherServer | Left::ServerMoved
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

    /// The same, of a connection that the server had not accepted yet.
    pub(crate) fn before_connack(self) -> Self {
        match self {
            Self::Lost(how) => Self::HandshakeFailed(how),
            // What does not speak MQTT at all.
            Self::BadPacket(error) => Self::HandshakeFailed(error.to_string().into()),
            other => other,
        }
    }

    /// Whether there may be room later.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::QueueFull | Self::OutputFull)
    }
}

/// The text of a code, for all languages alike.
pub(crate) fn text_of(code: &str) -> Option<&'static str> {
    texts::TEXTS.iter().find(|(known, _)| *known == code).map(|(_, text)| *text)
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
            // A will that the server does not take.
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
