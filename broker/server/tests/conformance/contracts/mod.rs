//! Contracts: payloads are validated, and delivered in the formats that subscribers request.

mod changes;
mod discovery;
mod formats;
mod policies;
mod stored_messages;
pub(crate) mod support;
