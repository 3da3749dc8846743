//! What one client may do: values, resolved for a client when its CONNECT is accepted, and the small types by which it is charged.
//!
//! Today everybody has those of the settings: [`Settings::quotas`](crate::settings::Settings::quotas). Where users have quotas of their own, [`Hub::quotas`](crate::hub::Hub::quotas) is
//! where they come in. The client's share of memory stands apart, in the account of memory.

mod bucket;
mod departed;
mod flapping;

use tautwire_router::RetainedQuota;

pub(crate) use bucket::{PublishBucket, PublishRates, Rate};
pub(crate) use departed::Departed;
pub(crate) use flapping::{Flapping, FlappingRule};

/// What one client may do.
#[derive(Debug, Clone)]
pub(crate) struct Quotas {
    /// How fast it may publish.
    pub(crate) publish: PublishRates,
    /// Subscriptions of its session.
    pub(crate) subscriptions: usize,
    /// QoS 1 and 2 messages sent to it and not acknowledged.
    pub(crate) in_flight: u16,
    /// Messages that wait for it.
    pub(crate) queue_messages: usize,
    /// Bytes of messages that wait for it, or have been sent and not acknowledged.
    pub(crate) queue_bytes: usize,
    /// Retained messages that are its own.
    pub(crate) retained: RetainedQuota,
}
