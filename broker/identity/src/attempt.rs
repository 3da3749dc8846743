//! What a client says of itself, and where it comes from.

use core::net::IpAddr;
use std::sync::Arc;

use crate::Secret;

/// Where a client comes from. It is made when a connection is accepted, and anew when TLS is there; it does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOrigin {
    /// The name of the listener.
    pub listener: Arc<str>,
    /// The client's address; `None` where there is none, as on a Unix socket.
    pub address: Option<IpAddr>,
    /// Whether nobody between the client and the broker can read along.
    pub is_encrypted: bool,
    /// The client's certificate, if it has one.
    pub certificate: Option<Certificate>,
    /// The user of this machine that has connected, on a Unix socket. Access rules know it as the claim `peer_uid`.
    pub peer_uid: Option<u32>,
}

impl ClientOrigin {
    /// Whether what the client sends can be read by others on its way.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        let is_local = self.address.is_none_or(|address| address.to_canonical().is_loopback());
        !self.is_encrypted && !is_local
    }
}

/// A certificate of a client. Somebody who is trusted has verified it: here it is only read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// The certificate itself, in DER, verified by TLS.
    Der(Arc<[u8]>),
    /// The name in it (CN), as a proxy gives it that ends TLS.
    CommonName(Box<str>),
}

impl Certificate {
    /// Bytes that tell it from others.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Certificate::Der(der) => der,
            Certificate::CommonName(name) => name.as_bytes(),
        }
    }
}

/// One try to authenticate: what CONNECT says, or an AUTH that begins a re-authentication (section 4.12.1).
#[derive(Debug, Clone)]
pub struct AuthAttempt {
    /// Where the client comes from.
    pub origin: Arc<ClientOrigin>,
    /// The Client Identifier, empty where the client leaves it to the broker.
    pub client_id: Box<str>,
    /// The User Name of CONNECT.
    pub user_name: Option<Box<str>>,
    /// The Password of CONNECT.
    pub password: Option<Secret>,
    /// The Authentication Method: the client wants extended authentication (section 4.12).
    pub method: Option<Box<str>>,
    /// The Authentication Data.
    pub data: Option<Secret>,
    /// Whether the client speaks MQTT 5.0.
    pub is_v5: bool,
}

/// The time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Now {
    /// Seconds since 1970, by which tokens and bans expire.
    pub unix_s: u64,
    /// Milliseconds of a clock that never goes back, by which everything else is measured.
    pub steady_ms: u64,
}
