//! The server's side of TLS 1.2 and 1.3 between a socket and MQTT, as a machine without I/O, by [rustls].
//!
//! [`Material`] is what an operator gives: certificates, keys, authorities, lists of revoked certificates. A [`Server`] is made of it, one
//! for each listener, and can be given other material while connections are there. [`Tls`] is one connection: records of the
//! network go in and plain bytes come out, and the other way round. A thread has one [`Scratch`] for all its connections, so
//! that one that does nothing has no buffers.
//!
//! There is no renegotiation, no compression and no early data.

#![forbid(unsafe_code)]

mod failure;
mod material;
mod names;
mod policy;
mod server;
mod tls;

pub use failure::{Failure, Fault};
pub use material::{ClientCertificates, Identity, Material, MaterialError, Pem};
pub use policy::{CipherSuites, MinimumVersion};
pub use server::{Prepared, Protocol, Server};
pub use tls::{Arrival, HANDSHAKE_MAX_BYTES, PLAIN_MAX_BYTES, Scratch, Tls};
