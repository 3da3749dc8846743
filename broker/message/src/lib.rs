//! Application messages: what a publisher has sent, as the broker keeps it and hands it on.
//!
//! A [`Message`] is one allocation, shared by everybody who holds it, and has an identity, its [`MessageId`]. A [`MessageRef`] is the same message wherever its
//! bytes lie. [`Format`] names the formats of payloads that the broker can tell apart, and [`Transcodings`] keeps the other
//! formats of one message while it is handed out. Who keeps a message for long has a [`Body`], which may be [`Spilled`]. How long
//! messages take on their way is counted in [`DurationCounts`].

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
