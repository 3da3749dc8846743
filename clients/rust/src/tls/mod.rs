//! TLS: whom to trust, who to be, and what is wrong where it fails.

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
