//! Application messages, as the broker stores and delivers them.
//!
//! A [`Message`] is one shared allocation with an identifier, its [`MessageId`]. A [`MessageRef`] is the same message borrowed from any
//! buffer. [`Format`] names the payload formats that the broker can distinguish, and [`Transcodings`] caches the other formats of one
//! message during delivery. Queues and the retained store hold a [`Body`], which may be [`Spilled`]. [`DurationCounts`] measures delivery
//! latency.

#![forbid(unsafe_code)]

mod durations;
mod format;
mod id;
mod message;
mod spill;
mod transcodings;

pub use durations::{DurationCounts, Durations};
pub use format::Format;
pub use id::{MessageId, MessageIds};
pub use message::{Message, MessageRef};
pub use spill::{
    Body, FreedSlots, SPILL_MAX_BYTES, SpillAccount, SpillClient, SpillRead, SpillRequest, SpillResponse, SpillSlot,
    Spilled,
};
pub use transcodings::{Transcoding, Transcodings};
