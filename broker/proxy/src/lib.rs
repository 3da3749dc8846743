//! The PROXY protocol, versions 1 and 2, by which a proxy says whom it speaks for. Bytes go in and a header comes out; there is no I/O and
//! nothing is kept.
//!
//! The rules are those of HAProxy's `proxy-protocol.txt` (2020/03/05), whose sections are cited. Whoever reads a header believes it, so only
//! [`Network`]s that are trusted may send one.

#![forbid(unsafe_code)]

mod network;
mod v1;
mod v2;

use core::fmt;
use core::net::SocketAddr;

pub use network::Network;

/// Most bytes that a header may have: those of version 2 may carry 4,080 bytes of addresses and TLVs. One of version 1 has 107 at most.
pub const HEADER_MAX_BYTES: usize = 4096;

/// What a proxy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyHeader {
    /// It speaks for itself, or cannot say for whom: the addresses of its connection count.
    Local,
    /// It speaks for a client.
    Proxied(ProxiedClient),
}

/// A client behind a proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxiedClient {
    /// Where it has connected from.
    pub source: SocketAddr,
    /// It speaks TLS with the proxy (`PP2_CLIENT_SSL`).
    pub is_encrypted: bool,
    /// It has shown a certificate to the proxy, which has verified it.
    pub is_verified: bool,
    /// The common name in the certificate that it has shown to the proxy, which has verified it (`PP2_SUBTYPE_SSL_CN`).
    pub common_name: Option<Box<str>>,
}

/// Names of clients are not for logs.
impl fmt::Debug for ProxiedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Client");
        text.field("source", &self.source).field("is_encrypted", &self.is_encrypted);
        text.field("is_verified", &self.is_verified);
        text.field("has_common_name", &self.common_name.is_some()).finish()
    }
}

/// A header at the front of what has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedHeader {
    /// What it says.
    pub header: ProxyHeader,
    /// How many bytes it has. What is behind belongs to the client.
    pub len: usize,
}

/// Why what has come does not begin with a header. The connection must be closed (section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeaderError {
    /// It does not begin as a header does.
    NoHeader,
    /// It is longer than a header may be.
    TooLong,
    /// It begins as a header does, and goes on otherwise.
    Malformed(&'static str),
}

impl fmt::Display for ProxyHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyHeaderError::NoHeader => f.write_str("there is none; does the proxy send it? [proxy_no_header]"),
            ProxyHeaderError::TooLong => write!(f, "it is longer than {HEADER_MAX_BYTES} bytes [proxy_too_long]"),
            ProxyHeaderError::Malformed(what) => write!(f, "{what} [proxy_malformed]"),
        }
    }
}

impl std::error::Error for ProxyHeaderError {}

/// Reads the header at the front of `bytes`; `None` where more must come first. What is a fault once stays one, whatever comes.
///
/// # Errors
/// See [`ProxyHeaderError`].
pub fn parse(bytes: &[u8]) -> Result<Option<ParsedHeader>, ProxyHeaderError> {
    if begins_like(bytes, v2::SIGNATURE) {
        v2::parse(bytes)
    } else if begins_like(bytes, v1::SIGNATURE) {
        v1::parse(bytes)
    } else {
        Err(ProxyHeaderError::NoHeader)
    }
}

/// As far as both go.
fn begins_like(bytes: &[u8], signature: &[u8]) -> bool {
    let common = bytes.len().min(signature.len());
    bytes[..common] == signature[..common]
}
