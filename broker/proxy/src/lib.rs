//! The PROXY protocol, versions 1 and 2, with which a proxy sends the address of its client. Bytes go in and a header comes out; there is
//! no I/O and no state.
//!
//! The rules are those of HAProxy's `proxy-protocol.txt` (2020/03/05), whose sections are cited. A header is not authenticated, so accept
//! one only from trusted [`Network`]s.

#![forbid(unsafe_code)]

mod network;
mod v1;
mod v2;

use core::fmt;
use core::net::SocketAddr;

pub use network::Network;

/// Maximum length of a header: version 2 may have 4,080 bytes of addresses and TLVs. Version 1 has at most 107 bytes.
pub const HEADER_MAX_BYTES: usize = 4096;

/// The content of a PROXY header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The connection is the proxy's own, or its client is unknown: use the addresses of the connection.
    Local,
    /// The connection is for a client.
    Proxied(ProxiedClient),
}

/// A client behind a proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxiedClient {
    /// The client's address.
    pub source: SocketAddr,
    /// The client uses TLS (`PP2_CLIENT_SSL`).
    pub is_encrypted: bool,
    /// The proxy has verified a certificate of the client.
    pub is_verified: bool,
    /// The common name of the client's certificate, which the proxy has verified (`PP2_SUBTYPE_SSL_CN`).
    pub common_name: Option<Box<str>>,
}

/// Omits the common name, which should not be in logs.
impl fmt::Debug for ProxiedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Client");
        text.field("source", &self.source).field("is_encrypted", &self.is_encrypted);
        text.field("is_verified", &self.is_verified);
        text.field("has_common_name", &self.common_name.is_some()).finish()
    }
}

/// A parsed header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedHeader {
    /// The header.
    pub header: ProxyHeader,
    /// Its length in bytes. The bytes after it are the client's.
    pub len: usize,
}

/// Why the bytes do not begin with a header. The connection must be closed (section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeaderError {
    /// The bytes do not begin with a signature.
    NoHeader,
    /// The header is longer than the maximum.
    TooLong,
    /// The header has a signature, but is malformed.
    Malformed(&'static str),
}

impl fmt::Display for ProxyHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyHeaderError::NoHeader => {
                f.write_str("there is none; enable the PROXY protocol in the proxy [proxy_no_header]")
            }
            ProxyHeaderError::TooLong => write!(f, "it is longer than {HEADER_MAX_BYTES} bytes [proxy_too_long]"),
            ProxyHeaderError::Malformed(what) => write!(f, "{what} [proxy_malformed]"),
        }
    }
}

impl std::error::Error for ProxyHeaderError {}

/// Parses the header at the front of `bytes`; `None` if it is incomplete. An error stays one, whatever bytes follow.
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

/// Whether `bytes` and `signature` agree as far as both go.
fn begins_like(bytes: &[u8], signature: &[u8]) -> bool {
    let common = bytes.len().min(signature.len());
    bytes[..common] == signature[..common]
}
