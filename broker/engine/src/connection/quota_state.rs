//! The quotas of a shard's clients, and their usage.

use std::sync::Arc;

use tautwire_router::RetainedOwner;
use tautwire_session::Session;

use crate::connection::quotas::{
    FlappingDetector, FlappingRule, FlappingUpdate, OfflineBuckets, PublishBucket, Quotas, SessionUsage, UserUsageTable,
};

/// The quotas, and what clients have used of them.
#[derive(Debug)]
pub(crate) struct QuotaState {
    quotas: Quotas,
    /// Cached from `quotas`: it is read for each PUBLISH.
    limits_publish_rate: bool,
    /// The publish buckets of offline clients.
    offline_buckets: OfflineBuckets,
    /// The usage of each user, if there are user quotas.
    users: Arc<UserUsageTable>,
    /// Detects clients whose connections are lost too often, if that is configured.
    flapping: Option<FlappingDetector>,
}

/// What a change of quotas affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotaChanges {
    /// Connections that wait for their rate may resume sooner.
    pub(crate) rates: bool,
    /// The usage of sessions must be counted for their users from now on.
    pub(crate) counts_user_usage: bool,
}

impl QuotaState {
    pub(crate) fn new(quotas: Quotas, flapping: Option<FlappingRule>, users: Arc<UserUsageTable>) -> QuotaState {
        QuotaState {
            limits_publish_rate: quotas.limits_publish_rate(),
            quotas,
            offline_buckets: OfflineBuckets::default(),
            users,
            flapping: flapping.map(FlappingDetector::new),
        }
    }

    /// Applies these quotas. The recorded usage stays.
    pub(crate) fn apply_limits(&mut self, quotas: Quotas, flapping: Option<FlappingRule>) -> QuotaChanges {
        self.flapping = flapping.map(|rule| {
            let mut flapping = self.flapping.take().unwrap_or_else(|| FlappingDetector::new(rule));
            flapping.apply_limits(rule);
            flapping
        });
        let changed = QuotaChanges {
            rates: quotas.publish != self.quotas.publish || quotas.of_user.publish != self.quotas.of_user.publish,
            counts_user_usage: quotas.of_user.is_limited() && !self.quotas.of_user.is_limited(),
        };
        self.limits_publish_rate = quotas.limits_publish_rate();
        self.quotas = quotas;
        changed
    }

    /// The quotas of each client.
    #[inline]
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Whether publish rates are limited.
    #[inline]
    pub(crate) fn limits_publish_rate(&self) -> bool {
        self.limits_publish_rate
    }

    /// Takes the stored bucket of a client that connects, or a full one. Returns `None` if clients have no rate limit.
    #[inline(always)]
    pub(crate) fn take_bucket(&mut self, name: &str, now_ms: u64) -> Option<PublishBucket> {
        let rates = self.quotas.publish;
        if !rates.is_limited() {
            return None;
        }
        let mut bucket = self.offline_buckets.take(name).unwrap_or_else(|| PublishBucket::full(&rates, now_ms));
        bucket.apply_limits(&rates);
        Some(bucket)
    }

    /// Stores the bucket of a client that disconnects.
    pub(crate) fn store_bucket(&mut self, name: &str, bucket: PublishBucket, now_ms: u64) {
        self.offline_buckets.store(name, bucket, now_ms);
    }

    /// Starts to count the usage of `session` for `user`.
    pub(crate) fn user_usage_of(
        &self,
        user: &str,
        owner: RetainedOwner,
        session: &Session,
        now_ms: u64,
    ) -> SessionUsage {
        SessionUsage::new(&self.users, user, owner, session, now_ms)
    }

    /// Whether the client of the session with this name is blocked because its connections are lost too often.
    #[inline(always)]
    pub(crate) fn is_blocked(&self, name: &str, now_ms: u64) -> bool {
        self.flapping.as_ref().is_some_and(|flapping| flapping.is_blocked(name, now_ms))
    }

    /// Records the loss of a connection.
    pub(crate) fn record_connection_loss(&mut self, name: &str, now_ms: u64) -> FlappingUpdate {
        self.flapping.as_mut().map_or(FlappingUpdate::default(), |flapping| flapping.record_loss(name, now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::values::Settings;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn quota_state(settings: &Settings) -> QuotaState {
        QuotaState::new(settings.quotas(), settings.flapping(), Arc::default())
    }

    #[test]
    fn a_returning_client_keeps_its_bucket_at_the_current_rate() {
        let slow = Settings { publish_messages_per_s: 1, publish_burst_messages: 1, ..Settings::default() };
        let mut quota_state = quota_state(&slow);
        let mut bucket = quota_state.take_bucket("a", NOW_MS).expect("there is a rate");
        assert!(bucket.take(1, NOW_MS).is_ok());
        quota_state.store_bucket("a", bucket, NOW_MS);
        let mut bucket = quota_state.take_bucket("a", NOW_MS).expect("there is a rate");
        assert!(bucket.take(1, NOW_MS).is_err(), "the burst is used up");
        let open = Settings::default();
        assert!(quota_state.apply_limits(open.quotas(), open.flapping()).rates);
        assert!(!quota_state.limits_publish_rate() && quota_state.take_bucket("a", NOW_MS).is_none());
        assert!(!quota_state.apply_limits(open.quotas(), open.flapping()).rates);
    }

    #[test]
    fn connection_losses_outlive_a_changed_rule_but_not_a_removed_one() {
        let rule = |breaks| FlappingRule::new(breaks, 60, 60);
        let quotas = || Settings::default().quotas();
        let mut quota_state = QuotaState::new(quotas(), rule(2), Arc::default());
        assert!(!quota_state.record_connection_loss("a", NOW_MS).is_blocked);
        quota_state.apply_limits(quotas(), rule(3));
        assert!(!quota_state.record_connection_loss("a", NOW_MS).is_blocked);
        assert!(quota_state.record_connection_loss("a", NOW_MS).is_blocked && quota_state.is_blocked("a", NOW_MS));
        quota_state.apply_limits(quotas(), None);
        assert!(!quota_state.is_blocked("a", NOW_MS) && !quota_state.record_connection_loss("a", NOW_MS).is_blocked);
    }
}
