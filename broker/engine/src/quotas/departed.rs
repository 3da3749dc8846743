//! What clients that have gone had left of their rates, so that coming back gives them no more than staying would have.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::PublishBucket;

/// Clients that are remembered. Those who go when there are so many are not: whoever could bring so many identifiers about can
/// publish with as many.
const DEPARTED_MAX: usize = 16_384;
/// How often those who would have a full burst again are looked for where there is no room.
const PRUNE_MS: u64 = 1_000;

/// Buckets of clients without a connection that are not full yet, whether their sessions live on or not.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    /// By a hash of the Client Identifier with a seed that nobody knows: two that share one would share a bucket, which never happens.
    buckets: HashMap<u64, PublishBucket>,
    hasher: RandomState,
    prune_at_ms: u64,
}

impl Departed {
    /// The client has gone.
    pub(crate) fn keep(&mut self, client_id: &str, bucket: PublishBucket, now_ms: u64) {
        if bucket.full_at_ms() <= now_ms {
            return;
        }
        if self.buckets.len() >= DEPARTED_MAX && now_ms >= self.prune_at_ms {
            self.buckets.retain(|_, bucket| bucket.full_at_ms() > now_ms);
            self.prune_at_ms = now_ms.saturating_add(PRUNE_MS);
        }
        if self.buckets.len() < DEPARTED_MAX {
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
    use crate::quotas::{PublishRates, Rate};

    const NOW_MS: u64 = 1_700_000_000_000;

    fn emptied(messages: usize) -> PublishBucket {
        let rates = PublishRates { messages: Rate::new(1, messages), bytes: None };
        let mut bucket = PublishBucket::full(&rates, NOW_MS);
        while bucket.take(1, NOW_MS).is_ok() {}
        bucket
    }

    #[test]
    fn who_comes_back_has_what_was_left_and_only_once() {
        let mut departed = Departed::default();
        departed.keep("a", emptied(5), NOW_MS);
        assert!(departed.take("b").is_none());
        let mut bucket = departed.take("a").expect("it is remembered");
        assert!(bucket.take(1, NOW_MS).is_err());
        assert!(bucket.take(1, NOW_MS + 1_000).is_ok());
        assert!(departed.take("a").is_none());
    }

    #[test]
    fn a_full_bucket_needs_no_place_and_there_are_so_many_places() {
        let mut departed = Departed::default();
        departed.keep("a", emptied(5), NOW_MS + 5_000);
        assert!(departed.buckets.is_empty());
        for number in 0..=DEPARTED_MAX {
            departed.keep(&number.to_string(), emptied(5), NOW_MS);
        }
        assert_eq!(departed.buckets.len(), DEPARTED_MAX);
        departed.keep("late", emptied(60), NOW_MS + 5_000);
        assert_eq!(departed.buckets.len(), 1, "the others are full by now");
        assert!(departed.take("late").is_some());
    }
}
