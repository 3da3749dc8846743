//! Messages from the log to subscribers. `docs/internals/cluster-delivery.md` says who does what.

mod span;

pub use span::{LogGroup, LogMessage, Messages, Span};
