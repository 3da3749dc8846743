//! Topic names, topic filters and matching (section 4.7), shared subscriptions (section 4.8.2).

mod error;
pub(crate) mod filter;
mod matching;
mod name;

pub use error::{TopicError, TopicErrorKind};
pub use filter::{SharedFilter, TopicFilter};
pub use matching::topic_matches;
pub use name::TopicName;

/// Longest topic name or filter in bytes `[MQTT-4.7.3-3]`.
pub(crate) const MAX_TOPIC_BYTES: usize = u16::MAX as usize;
