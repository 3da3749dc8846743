//! What one client may do, and what the clients of one user may do together: values, and the small types by which they are charged.
//!
//! The values are those of the settings, the same for everybody: [`Settings::quotas`](crate::settings::values::Settings::quotas). The client's
//! share of memory stands apart, in the account of memory.

mod bucket;
mod flapping;
mod offline_buckets;
mod user_usage;

use tautwire_router::RetainedQuota;

pub(crate) use bucket::{PublishBucket, PublishRates, Rate};
pub(crate) use flapping::{FlappingDetector, FlappingRule, FlappingUpdate};
pub(crate) use offline_buckets::OfflineBuckets;
pub(crate) use user_usage::{SessionUsage, UserQuotas, UserUsageTable};

/// What one client may do.
#[derive(Debug, Clone)]
pub(crate) struct Quotas {
    /// How fast it may publish.
    pub(crate) publish: PublishRates,
    /// Subscriptions of its session.
    pub(crate) subscriptions: usize,
    /// QoS 1 and 2 messages sent to it and not acknowledged.
    pub(crate) in_flight: u16,
    /// Bytes of them: while there are fewer, one more may be sent.
    pub(crate) in_flight_bytes: usize,
    /// Messages that wait for it.
    pub(crate) queue_messages: usize,
    /// Bytes of messages that wait for it, or have been sent and not acknowledged.
    pub(crate) queue_bytes: usize,
    /// No more may wait, either, when its session holds as much memory as it may.
    pub(crate) queue_memory: bool,
    /// Retained messages that are its own.
    pub(crate) retained: RetainedQuota,
    /// What all clients of its user may do together.
    pub(crate) of_user: UserQuotas,
}

impl Quotas {
    /// Whether somebody may publish only so fast.
    pub(crate) fn limits_publish_rate(&self) -> bool {
        self.publish.is_limited() || self.of_user.publish.is_limited()
    }
}
