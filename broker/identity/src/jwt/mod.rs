//! Tokens: JWT (RFC 7519), signed (RFC 7515), with keys from a file or a JWKS (RFC 7517).

mod algorithm;
mod backend;
mod claims;
mod key;
mod keys;
mod pem;
mod source;
mod token;

pub use algorithm::Algorithm;
pub use backend::{Jwt, JwtSettings};
pub use keys::KeySet;
pub use source::{Jwks, JwksSettings, JwksState, Keys};
pub(crate) use token::looks_like_a_token;

/// Invalid keys or settings, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtError(pub(crate) String);

impl std::fmt::Display for JwtError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [jwt_key_file]", self.0)
    }
}

impl std::error::Error for JwtError {}
