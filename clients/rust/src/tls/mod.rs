//! TLS: trusted authorities, client certificates, and explanations of failures.

#[cfg(feature = "tls")]
mod explain;
mod failure;
#[cfg(feature = "tls")]
mod layer;
#[cfg(feature = "tls")]
mod settings;
#[cfg(feature = "tls")]
mod verifier;

pub use failure::{TlsFailure, TlsFault};
#[cfg(feature = "tls")]
pub(crate) use layer::TlsLayer;
#[cfg(feature = "tls")]
pub use settings::Tls;
