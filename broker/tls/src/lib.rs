//! The server's side of TLS 1.2 and 1.3 between a socket and MQTT, as a machine without I/O, by [rustls].
//!
//! [`TlsServerConfig`] is what an operator gives: certificates, keys, authorities, lists of revoked certificates. A [`TlsServer`] is made of it, one
//! for each listener, and can be given other material while connections are there. [`Tls`] is one connection: records of the
//! network go in and plain bytes come out, and the other way round. A thread has one [`Scratch`] for all its connections, so
//! that one that does nothing has no buffers.
//!
//! There is no renegotiation, no compression and no early data.

#![forbid(unsafe_code)]

mod config;
mod error;
mod policy;
mod server;
mod sni;
mod tls;

pub use config::{ClientCertificates, Identity, Pem, TlsServerConfig, TlsServerConfigError};
pub use error::{TlsError, TlsErrorKind};
pub use policy::{CipherSuites, MinimumVersion};
pub use server::{PreparedConfig, Protocol, TlsServer};
pub use tls::{HANDSHAKE_MAX_BYTES, PLAIN_MAX_BYTES, PlainRead, Scratch, Tls};
