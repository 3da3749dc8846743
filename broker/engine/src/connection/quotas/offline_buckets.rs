//! Publish buckets of offline clients, so that a client gains nothing by reconnecting.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::PublishBucket;

/// The most stored buckets. Further ones are not stored: a client that can use this many identifiers can publish with as many.
const OFFLINE_BUCKETS_MAX: usize = 16_384;
/// The shortest interval between two searches for full buckets to remove.
const PRUNE_MS: u64 = 1_000;

/// Buckets of offline clients that are not full yet, whether or not their sessions exist.
#[derive(Debug, Default)]
pub(crate) struct OfflineBuckets {
    /// By a seeded hash of the Client Identifier. Clients with equal hashes would share a bucket, which is practically impossible.
    buckets: HashMap<u64, PublishBucket>,
    hasher: RandomState,
    prune_at_ms: u64,
}

impl OfflineBuckets {
    /// Stores the bucket of a client that disconnects.
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

    /// Takes the bucket of a client that connects, if it is stored.
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
        let mut bucket = offline_buckets.take("a").expect("it is stored");
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
