//! SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the client proves that it knows a password without sending it, and the
//! server proves that it knows it, too.

#[cfg(feature = "scram")]
mod exchange;
mod fault;
#[cfg(feature = "scram")]
mod keys;
#[cfg(feature = "scram")]
mod message;
#[cfg(all(test, feature = "scram"))]
mod tests;

#[cfg(feature = "scram")]
pub use exchange::Scram;
pub use fault::ScramFault;
