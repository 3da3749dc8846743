//! SCRAM (RFC 5802, RFC 7677): a client proves that it knows a password without sending it.

mod keys;
mod message;
mod prepared;
mod server;

pub(crate) use keys::ScramKeys;
pub(crate) use server::{ScramChallenge, ScramServer};

/// The hash of a SCRAM mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScramHash {
    /// SCRAM-SHA-256 (RFC 7677).
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl ScramHash {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// The hash of an Authentication Method.
    #[must_use]
    pub fn of_method(method: &str) -> Option<ScramHash> {
        Self::ALL.into_iter().find(|hash| hash.method() == method)
    }

    /// The Authentication Method in CONNECT.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }
}
