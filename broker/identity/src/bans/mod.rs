//! Who is not let in, whatever it proves.

mod failures;
mod network;
mod table;

pub use failures::{FailureKey, FailureRule};
pub use network::Network;
pub use table::{Ban, BanCounters, BanError, BanTarget, Bans};
