//! Messages of a contract.

use std::fmt;

use tautwire_client::{Error, Message, Subscription};

use super::payload::PayloadError;

/// Marks a message that the broker could not transcode to the requested format.
const TRANSCODING_ERROR: &str = "tautwire-transcoding-error";

/// Why a message was not published, or cannot be decoded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ContractError {
    /// The client failed, or the server refused.
    Client(Error),
    /// The payload, or a parameter of the topic, does not match the contract.
    Payload(PayloadError),
    /// The broker could not transcode the payload to the requested format; the reason.
    Transcoding(String),
}

impl fmt::Display for ContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Payload(error) => error.fmt(f),
            Self::Transcoding(why) => {
                write!(f, "the broker could not transcode the payload: {why}")
            }
        }
    }
}

impl std::error::Error for ContractError {}

impl From<Error> for ContractError {
    fn from(error: Error) -> ContractError {
        ContractError::Client(error)
    }
}

impl From<PayloadError> for ContractError {
    fn from(error: PayloadError) -> ContractError {
        ContractError::Payload(error)
    }
}

/// A message of a contract.
#[derive(Debug, Clone)]
pub struct Received<T, V> {
    /// The message.
    pub message: Message,
    /// The parameters of its topic.
    pub topic: T,
    /// The decoded payload.
    pub value: V,
}

/// A message that does not match the contract.
#[derive(Debug, Clone)]
pub struct Rejected {
    /// The message.
    pub message: Message,
    /// The reason.
    pub why: ContractError,
}

/// Decodes a message.
pub(super) type Read<T, V> = fn(&str, &[u8]) -> Result<(T, V), PayloadError>;

/// The messages of a contract, in order of arrival.
#[derive(Debug)]
pub struct ContractSubscription<T, V> {
    /// The client's subscription.
    pub subscription: Subscription,
    read: Read<T, V>,
}

impl<T, V> ContractSubscription<T, V> {
    pub(super) fn new(subscription: Subscription, read: Read<T, V>) -> Self {
        ContractSubscription { subscription, read }
    }

    fn read(&self, message: Message) -> Result<Received<T, V>, Rejected> {
        let mut properties = message.properties().user_properties();
        let why = properties.find(|(name, _)| *name == TRANSCODING_ERROR);
        let read = match why {
            Some((_, why)) => Err(ContractError::Transcoding(why.to_owned())),
            None => (self.read)(message.topic(), message.payload()).map_err(Into::into),
        };
        match read {
            Ok((topic, value)) => Ok(Received {
                message,
                topic,
                value,
            }),
            Err(why) => Err(Rejected { message, why }),
        }
    }
}
