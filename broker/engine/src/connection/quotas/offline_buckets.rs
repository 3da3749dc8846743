//! What clients that have gone had left of their rates, so that coming back gives them no more than staying would have.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::PublishBucket;

/// Clients that are remembered. Those who go when there are so many are not: whoever could bring so many identifiers about can
/// publish with as many.
const OFFLINE_BUCKETS_MAX: usize = 16_384;
/// How often those who would have a full burst again are looked for where there is no room.
const PRUNE_MS: u64 = 1_000;

/// Buckets of clients without a connection that are not full yet, whether their sessions live on or not.
#[derive(Debug, Default)]
pub(crate) struct OfflineBuckets {
    /// By a hash of the Client Identifier with a seed that nobody knows: two that share one would share a bucket, which never happens.
    buckets: HashMap<u64, PublishBucket>,
    hasher: RandomState,
    prune_at_ms: u64,
}

impl OfflineBuckets {
    /// The client has gone.
    pub(crate) fn store(&mut self, client_id: &str, bucket: PublishBucket, now_ms: u64) {
        if bucket.full_at_ms() <= now_ms {
            return;
        }
        if self.buckets.len() >= OFFLINE_BUCKETS_MAX && now_ms >= self.prune_at_ms {
            self.buckets.retain(|_, bucket| bucket.full_at_ms() > now_ms);
            self.prune_at_ms = now_ms.saturating_add(PRUNE_MS);
        }
        if self.buckets.len() < OFFLINE_BUCKETS_MAX {
            self.buckets.insert(self.hasher.hash_one(client_id), bucket);
        }
    }

    /// The client is back: what it had left, if that is remembered.
    pub(crate) fn take(&mut self, client_id: &str) -> Option<PublishBucket> {
        if self.buckets.is_empty() {
            return None;
        }
        self.buckets.remove(&self.hasher.hash_one(client_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::quotas::{PublishRates, Rate};

    const NOW_MS: u64 = 1_700_000_000_000;

    fn emptied(messages: usize) -> PublishBucket {
        let rates = PublishRates { messages: Rate::new(1, messages), bytes: None };
        let mut bucket = PublishBucket::full(&rates, NOW_MS);
        while bucket.take(1, NOW_MS).is_ok() {}
        bucket
    }

    #[test]
    fn a_returning_client_gets_its_bucket_once() {
        let mut offline_buckets = OfflineBuckets::default();
        offline_buckets.store("a", emptied(5), NOW_MS);
        assert!(offline_buckets.take("b").is_none());
        let mut bucket = offline_buckets.take("a").expect("it is remembered");
        assert!(bucket.take(1, NOW_MS).is_err());
        assert!(bucket.take(1, NOW_MS + 1_000).is_ok());
        assert!(offline_buckets.take("a").is_none());
    }

    #[test]
    fn full_buckets_are_not_stored_and_the_table_is_bounded() {
        let mut offline_buckets = OfflineBuckets::default();
        offline_buckets.store("a", emptied(5), NOW_MS + 5_000);
        assert!(offline_buckets.buckets.is_empty());
        for number in 0..=OFFLINE_BUCKETS_MAX {
            offline_buckets.store(&number.to_string(), emptied(5), NOW_MS);
        }
        assert_eq!(offline_buckets.buckets.len(), OFFLINE_BUCKETS_MAX);
        offline_buckets.store("late", emptied(60), NOW_MS + 5_000);
        assert_eq!(offline_buckets.buckets.len(), 1, "the others are full by now");
        assert!(offline_buckets.take("late").is_some());
    }
}
