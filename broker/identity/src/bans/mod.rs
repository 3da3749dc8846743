//! Clients that are refused whatever their credentials.

mod failures;
mod network;
mod table;

pub use failures::{FailureKey, FailureRule};
pub use network::Network;
pub use table::{Ban, BanCounters, BanError, BanTarget, Bans};
