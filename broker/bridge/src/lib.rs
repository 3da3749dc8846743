//! A bridge between this broker and another one. Bytes and time go in, bytes come out; there is no I/O.
//!
//! A [`Link`] is one attempt to connect both brokers. It is a client of each: of the other broker, the *remote*, and of its own, the
//! *local* one, with a persistent session at both. It passes PUBLISH and its acknowledgements through with their Packet Identifiers, so an
//! exchange runs between the two sessions, and the link has no state that a crash could lose.
//!
//! [`Rules`] say which messages are forwarded in which direction, and how their topics change.

#![forbid(unsafe_code)]

mod counters;
mod error;
mod half;
mod handshake;
mod hops;
mod link;
mod rate;
mod rules;
mod settings;
mod translate;

pub use counters::LinkCounters;
pub use error::{LinkError, Side};
pub use hops::HOPS_PROPERTY;
pub use link::{Link, LinkState};
pub use rules::{Direction, Rule, RuleError, Rules};
pub use settings::{LinkSettings, LocalOffer, StatusTopics};
