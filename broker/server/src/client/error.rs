//! What can go wrong between this client and a broker.

use std::fmt;
use std::io;
use std::time::Duration;

use tautwire_protocol::{DecodeError, EncodeError, ReasonCode};

/// Why the client cannot go on.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// No address of the host accepts a connection.
    Unreachable { address: String, error: io::Error },
    /// The broker did not do something in time.
    Timeout { what: &'static str, waited: Duration },
    /// The connection ended; the text says how.
    Lost(String),
    /// The broker sent what MQTT does not allow.
    BadPacket { error: DecodeError },
    /// The broker refused: the connection, a subscription or a message.
    Refused { what: String, reason: ReasonCode, text: Option<String> },
    /// What was asked for cannot be said in this version of MQTT.
    NotEncodable { packet: &'static str, error: EncodeError },
    /// The packet is larger than the broker accepts.
    TooLarge { bytes: usize, limit_bytes: u32 },
    /// The broker said in CONNACK that it does not offer this.
    NotOffered(String),
    /// What contracts the broker has was not said, or is not understood.
    Discovery(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { address, error } => {
                write!(f, "cannot connect to {address}: {error}")
            }
            Self::Timeout { what, waited } => {
                write!(f, "{what} did not come within {} s", waited.as_secs_f64())
            }
            Self::Lost(how) => write!(f, "the connection is lost: {how}"),
            Self::BadPacket { error } => write!(f, "the broker sent a bad packet: {error}"),
            Self::Refused { what, reason, text } => {
                write!(f, "{what} is refused: {reason}")?;
                text.as_ref().map_or(Ok(()), |text| write!(f, ": {text}"))
            }
            Self::NotEncodable { packet, error } => {
                write!(f, "the {packet} packet cannot be written: {error}")
            }
            Self::TooLarge { bytes, limit_bytes } => {
                write!(f, "the message makes a packet of {bytes} bytes, and the broker accepts at most {limit_bytes}")
            }
            Self::NotOffered(what) => write!(f, "the broker does not offer {what}"),
            Self::Discovery(why) => write!(f, "the broker's contracts are not known: {why}"),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable { error, .. } => Some(error),
            Self::BadPacket { error } => Some(error),
            Self::NotEncodable { error, .. } => Some(error),
            _ => None,
        }
    }
}
