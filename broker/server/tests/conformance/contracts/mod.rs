//! Payloads are held to the contracts of their topics, and handed out in the formats that subscribers ask for.

mod changes;
mod discovery;
mod formats;
mod policies;
mod stored_messages;
pub(crate) mod support;
