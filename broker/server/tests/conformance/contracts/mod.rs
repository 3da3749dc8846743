//! Payloads are held to the contracts of their topics, and handed out in the formats that subscribers ask for.

mod changes;
mod discovery;
mod formats;
mod kept_messages;
mod policies;
pub(crate) mod support;
