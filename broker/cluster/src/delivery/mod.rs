//! Messages from the log to subscribers. `docs/internals/cluster-delivery.md` says who does what: the node follows the log and reads it
//! again for those who are behind (`log`), and each shard knows how far its sessions are ([`Receivers`]).

mod counters;
mod decode;
mod group_cache;
mod log_reader;
mod reads;
mod receiver;
mod receivers;
mod span;

pub use counters::DeliveryCounters;
pub(crate) use log_reader::LogReader;
pub use reads::ReadRequest;
pub use receivers::{DeliverySource, Receivers, Slot};
pub use span::{LogGroup, LogMessage, Messages, Span};
