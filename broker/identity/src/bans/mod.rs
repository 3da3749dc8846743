//! Clients that are refused whatever their credentials.

mod ban;
mod failures;
mod network;
mod table;

pub use ban::{Ban, BanError, BanTarget};
pub use failures::{FailureKey, FailureRule};
pub use network::Network;
pub use table::{BanCounters, Bans};
