//! Delivers messages from the log to subscribers. `docs/internals/cluster-delivery.md` describes the parts: the node follows the log and
//! reads it again for lagging sessions (`log_reader`), and each shard tracks the positions of its sessions ([`Receivers`]).

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
