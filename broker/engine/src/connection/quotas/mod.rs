//! Quotas of clients and of users: the limits, and the types that count usage.
//!
//! The limits come from the settings and are the same for all: [`Settings::quotas`](crate::settings::values::Settings::quotas). The memory
//! limit of a client is in the memory ledger instead.

mod bucket;
mod flapping;
mod offline_buckets;
mod user_usage;

use tautwire_router::RetainedQuota;

pub(crate) use bucket::{PublishBucket, PublishRates, Rate};
pub(crate) use flapping::{FlappingDetector, FlappingRule, FlappingUpdate};
pub(crate) use offline_buckets::OfflineBuckets;
pub(crate) use user_usage::{SessionUsage, UserQuotas, UserUsageTable};

/// The quotas of one client.
#[derive(Debug, Clone)]
pub(crate) struct Quotas {
    /// Its publish rates.
    pub(crate) publish: PublishRates,
    /// Subscriptions of its session.
    pub(crate) subscriptions: usize,
    /// QoS 1 and 2 messages sent to it and not acknowledged.
    pub(crate) in_flight: u16,
    /// Bytes of them: another message may be sent while there are fewer.
    pub(crate) in_flight_bytes: usize,
    /// Messages queued for it.
    pub(crate) queue_messages: usize,
    /// Bytes of messages queued for it, or sent and not acknowledged.
    pub(crate) queue_bytes: usize,
    /// Whether its queue is also full when its session has reached its memory limit.
    pub(crate) queue_memory: bool,
    /// Retained messages that it owns.
    pub(crate) retained: RetainedQuota,
    /// The quotas of its user, over all of the user's clients.
    pub(crate) of_user: UserQuotas,
}

impl Quotas {
    /// Whether publish rates are limited.
    pub(crate) fn limits_publish_rate(&self) -> bool {
        self.publish.is_limited() || self.of_user.publish.is_limited()
    }
}
