//! Authentication attempts, and where they come from.

use core::net::IpAddr;
use std::sync::Arc;

use crate::Secret;

/// Where a client connects from. Created when a connection is accepted, and again after the TLS handshake; immutable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOrigin {
    /// The name of the listener.
    pub listener: Arc<str>,
    /// The client's address; `None` if there is none, as on a Unix socket.
    pub address: Option<IpAddr>,
    /// Whether nobody between the client and the broker can read the traffic.
    pub is_encrypted: bool,
    /// The client's certificate, if it has one.
    pub certificate: Option<Certificate>,
    /// The user ID of the peer on a Unix socket. Access rules see it as the claim `peer_uid`.
    pub peer_uid: Option<u32>,
}

impl ClientOrigin {
    /// Whether others can read what the client sends.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        let is_local = self.address.is_none_or(|address| address.to_canonical().is_loopback());
        !self.is_encrypted && !is_local
    }
}

/// A certificate of a client. TLS or a trusted proxy has verified it; here it is only parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// The certificate itself, in DER, verified by TLS.
    Der(Arc<[u8]>),
    /// The common name (CN), from a proxy that terminates TLS.
    CommonName(Box<str>),
}

impl Certificate {
    /// Bytes that identify it.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Certificate::Der(der) => der,
            Certificate::CommonName(name) => name.as_bytes(),
        }
    }
}

/// One authentication attempt: a CONNECT, or an AUTH that starts a re-authentication (section 4.12.1).
#[derive(Debug, Clone)]
pub struct AuthAttempt {
    /// Where the client connects from.
    pub origin: Arc<ClientOrigin>,
    /// The Client Identifier, empty if the broker should assign one.
    pub client_id: Box<str>,
    /// The User Name of CONNECT.
    pub user_name: Option<Box<str>>,
    /// The Password of CONNECT.
    pub password: Option<Secret>,
    /// The Authentication Method, if the client requests extended authentication (section 4.12).
    pub method: Option<Box<str>>,
    /// The Authentication Data.
    pub data: Option<Secret>,
    /// Whether the client uses MQTT 5.0.
    pub is_v5: bool,
}

/// The time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Now {
    /// Seconds since 1970, for the expiry of tokens and bans.
    pub unix_s: u64,
    /// Milliseconds of a monotonic clock, for everything else.
    pub steady_ms: u64,
}
