//! The server side of TLS 1.2 and 1.3 as a state machine without I/O, based on [rustls].
//!
//! A [`TlsServerConfig`] holds certificates, keys, authorities and revocation lists. A [`TlsServer`] is created from it, one for each
//! listener, and can switch to another configuration while connections are open. [`Tls`] is one connection: TLS records go in and plain
//! bytes come out, and the reverse. A thread has one [`Scratch`] for all its connections, so that an idle connection has no buffers.
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
