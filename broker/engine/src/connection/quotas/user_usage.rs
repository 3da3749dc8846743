//! Quotas and usage of users, over all of a user's clients on all shards.
//!
//! A session counts in its user's usage through a [`SessionUsage`], which subtracts its part when it is dropped. Shards check and update
//! the usage concurrently, so a quota may be exceeded by as many steps as there are shards.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tautwire_router::{RetainedOwner, RetainedQuota};
use tautwire_session::{Outbound, Session};

use super::{PublishBucket, PublishRates};

/// The number of entries above which unused ones are removed even if their buckets are not full yet.
const USER_USAGES_MAX: usize = 16_384;

/// The quotas of a user, over all of the user's clients. `usize::MAX` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserQuotas {
    /// Publish rates.
    pub(crate) publish: PublishRates,
    /// Subscriptions of the sessions.
    pub(crate) subscriptions: usize,
    /// QoS 1 and 2 messages sent and not acknowledged. Each client may have one, regardless of the others.
    pub(crate) in_flight: usize,
    /// Queued messages.
    pub(crate) queue_messages: usize,
    /// Bytes of messages that are queued, or sent and not acknowledged.
    pub(crate) queue_bytes: usize,
    /// Retained messages that the user's clients own.
    pub(crate) retained: RetainedQuota,
}

impl UserQuotas {
    /// Whether there is a limit.
    pub(crate) fn is_limited(&self) -> bool {
        let counts = [self.subscriptions, self.in_flight, self.queue_messages, self.queue_bytes];
        self.publish.is_limited() || self.retained.is_bounded() || counts.iter().any(|count| *count != usize::MAX)
    }
}

/// The usage of each user with a session, or with a bucket that is not full.
#[derive(Debug, Default)]
pub(crate) struct UserUsageTable {
    usages: Mutex<UserUsages>,
}

#[derive(Debug, Default)]
struct UserUsages {
    by_name: HashMap<Box<str>, Arc<UserUsage>>,
    /// The number of entries at which unused ones are removed.
    prune_at: usize,
}

impl UserUsageTable {
    fn usage(&self, user: &str, now_ms: u64) -> Arc<UserUsage> {
        let mut usages = self.usages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(usage) = usages.by_name.get(user) {
            return usage.clone();
        }
        if usages.by_name.len() >= usages.prune_at {
            let keeps_unfilled = usages.by_name.len() < USER_USAGES_MAX;
            usages
                .by_name
                .retain(|_, usage| Arc::strong_count(usage) > 1 || (keeps_unfilled && usage.is_in_use(now_ms)));
            usages.prune_at = (usages.by_name.len() * 2).max(1_024);
        }
        let usage = Arc::new(UserUsage::default());
        usages.by_name.insert(user.into(), usage.clone());
        usage
    }
}

/// The usage of one user.
#[derive(Debug, Default)]
struct UserUsage {
    subscriptions: AtomicUsize,
    in_flight: AtomicUsize,
    queue_messages: AtomicUsize,
    queue_bytes: AtomicUsize,
    /// `None` until there is a rate.
    bucket: Mutex<Option<PublishBucket>>,
}

impl UserUsage {
    fn is_in_use(&self, now_ms: u64) -> bool {
        let bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.is_some_and(|bucket| bucket.full_at_ms() > now_ms)
    }
}

/// One session's part of its user's usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct UsageCounts {
    subscriptions: usize,
    in_flight: usize,
    queue_messages: usize,
    queue_bytes: usize,
}

impl UsageCounts {
    fn of(session: &Session) -> UsageCounts {
        let subscriptions = session.subscriptions().len();
        let outbound = session.outbound();
        let count = |of: fn(&Outbound) -> usize| outbound.map_or(0, of);
        UsageCounts {
            subscriptions,
            in_flight: count(Outbound::in_flight),
            queue_messages: count(Outbound::queued),
            queue_bytes: count(Outbound::counted_bytes),
        }
    }
}

/// Counts one session in its user's usage.
#[derive(Debug)]
pub(crate) struct SessionUsage {
    usage: Arc<UserUsage>,
    owner: RetainedOwner,
    counts: UsageCounts,
}

impl SessionUsage {
    /// Starts to count a session.
    pub(crate) fn new(
        users: &UserUsageTable,
        user: &str,
        owner: RetainedOwner,
        session: &Session,
        now_ms: u64,
    ) -> SessionUsage {
        let mut usage = SessionUsage { usage: users.usage(user, now_ms), owner, counts: UsageCounts::default() };
        usage.settle(session);
        usage
    }

    /// The owner of retained messages that the user's clients publish.
    pub(crate) fn owner(&self) -> RetainedOwner {
        self.owner
    }

    /// Updates the usage to what the session holds now.
    pub(crate) fn settle(&mut self, session: &Session) {
        self.replace_counts(UsageCounts::of(session));
    }

    fn replace_counts(&mut self, counts: UsageCounts) {
        let UserUsage { subscriptions, in_flight, queue_messages, queue_bytes, .. } = &*self.usage;
        for (sum, before, after) in [
            (subscriptions, self.counts.subscriptions, counts.subscriptions),
            (in_flight, self.counts.in_flight, counts.in_flight),
            (queue_messages, self.counts.queue_messages, counts.queue_messages),
            (queue_bytes, self.counts.queue_bytes, counts.queue_bytes),
        ] {
            if before != after {
                sum.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
            }
        }
        self.counts = counts;
    }

    /// Whether one more subscription is allowed.
    pub(crate) fn has_room_for_subscription(&self, quotas: &UserQuotas) -> bool {
        self.usage.subscriptions.load(Ordering::Relaxed) < quotas.subscriptions
    }

    /// Whether one more message may be sent to this client. Each client may have one in flight regardless of the others, so that no client
    /// waits for another client's acknowledgement.
    pub(crate) fn can_send(&self, quotas: &UserQuotas) -> bool {
        self.counts.in_flight == 0 || self.usage.in_flight.load(Ordering::Relaxed) < quotas.in_flight
    }

    /// Whether one more message of `bytes` may be queued. A user whose clients have none queued may queue any.
    pub(crate) fn has_room_for_message(&self, bytes: usize, quotas: &UserQuotas) -> bool {
        let held_bytes = self.usage.queue_bytes.load(Ordering::Relaxed);
        let fits = held_bytes == 0 || held_bytes.saturating_add(bytes) <= quotas.queue_bytes;
        fits && self.usage.queue_messages.load(Ordering::Relaxed) < quotas.queue_messages
    }

    /// Takes a PUBLISH of `bytes`, Fixed Header included, from the user's rate.
    ///
    /// # Errors
    /// It must wait. Nothing was taken; try again at the returned time, in milliseconds.
    pub(crate) fn take_publish(&self, bytes: usize, rates: &PublishRates, now_ms: u64) -> Result<(), u64> {
        if !rates.is_limited() {
            return Ok(());
        }
        let mut bucket = self.usage.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = bucket.get_or_insert_with(|| PublishBucket::full(rates, now_ms));
        bucket.apply_limits(rates);
        bucket.take(bytes, now_ms)
    }

    /// Refunds a PUBLISH that was not processed.
    pub(crate) fn refund_publish(&self, bytes: usize) {
        let mut bucket = self.usage.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = bucket.as_mut() {
            bucket.refund(bytes);
        }
    }
}

impl Drop for SessionUsage {
    fn drop(&mut self) {
        self.replace_counts(UsageCounts::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tautwire_router::{Exchange, Placement, RetainedLimits};

    use crate::connection::quotas::Rate;

    const NOW_MS: u64 = 1_700_000_000_000;
    const NO_RATE: PublishRates = PublishRates { messages: None, bytes: None };
    const NONE: UserQuotas = UserQuotas {
        publish: NO_RATE,
        subscriptions: usize::MAX,
        in_flight: usize::MAX,
        queue_messages: usize::MAX,
        queue_bytes: usize::MAX,
        retained: RetainedQuota::NONE,
    };

    fn share(users: &UserUsageTable, user: &str) -> SessionUsage {
        let limits = RetainedLimits { messages: 1, bytes: 1 };
        let owner = Exchange::with_placement(Placement::new(1, 0), limits).retained_owner(user);
        SessionUsage::new(users, user, owner, &Session::new("s"), NOW_MS)
    }

    fn counts(subscriptions: usize, in_flight: usize, queue_messages: usize, queue_bytes: usize) -> UsageCounts {
        UsageCounts { subscriptions, in_flight, queue_messages, queue_bytes }
    }

    #[test]
    fn sessions_of_a_user_count_together_and_release_their_usage() {
        let users = UserUsageTable::default();
        let (mut first, mut second, other) = (share(&users, "ann"), share(&users, "ann"), share(&users, "bob"));
        let quotas = UserQuotas { subscriptions: 5, queue_messages: 3, queue_bytes: 100, in_flight: 4, ..NONE };
        first.replace_counts(counts(3, 2, 1, 60));
        second.replace_counts(counts(1, 1, 1, 30));
        assert!(first.has_room_for_subscription(&quotas) && first.can_send(&quotas));
        assert!(first.has_room_for_message(10, &quotas) && !first.has_room_for_message(11, &quotas));
        second.replace_counts(counts(2, 2, 2, 30));
        assert!(!first.has_room_for_subscription(&quotas) && !first.can_send(&quotas));
        assert!(!first.has_room_for_message(1, &quotas));
        assert!(other.has_room_for_subscription(&quotas) && other.has_room_for_message(1_000, &quotas));
        drop(first);
        assert_eq!(second.usage.subscriptions.load(Ordering::Relaxed), 2);
        assert!(second.has_room_for_subscription(&quotas) && second.can_send(&quotas));
        drop(second);
        assert!(
            share(&users, "ann").has_room_for_message(1_000, &quotas),
            "a user with an empty queue may queue any message"
        );
    }

    #[test]
    fn each_client_can_always_have_one_message_in_flight() {
        let users = UserUsageTable::default();
        let (mut first, second) = (share(&users, "ann"), share(&users, "ann"));
        let quotas = UserQuotas { in_flight: 2, ..NONE };
        first.replace_counts(counts(0, 5, 0, 0));
        assert!(!first.can_send(&quotas));
        assert!(second.can_send(&quotas));
    }

    #[test]
    fn a_user_rate_is_shared_and_outlives_its_clients() {
        let users = UserUsageTable::default();
        let rates = PublishRates { messages: Rate::new(1, 2), bytes: None };
        let (first, second) = (share(&users, "ann"), share(&users, "ann"));
        assert_eq!(first.take_publish(1, &rates, NOW_MS), Ok(()));
        assert_eq!(second.take_publish(1, &rates, NOW_MS), Ok(()));
        assert_eq!(first.take_publish(1, &rates, NOW_MS), Err(NOW_MS + 1_000));
        second.refund_publish(1);
        assert_eq!(first.take_publish(1, &rates, NOW_MS), Ok(()));
        drop((first, second));
        assert_eq!(share(&users, "ann").take_publish(1, &rates, NOW_MS), Err(NOW_MS + 1_000));
        assert_eq!(share(&users, "bob").take_publish(1, &rates, NOW_MS), Ok(()));
        assert_eq!(share(&users, "ann").take_publish(1, &NO_RATE, NOW_MS), Ok(()));
    }

    #[test]
    fn unused_user_usages_are_pruned() {
        let users = UserUsageTable::default();
        let kept = share(&users, "kept");
        for number in 0..10_000 {
            drop(share(&users, &number.to_string()));
        }
        let usages = users.usages.lock().expect("no thread has panicked");
        assert!(usages.by_name.len() <= 1_024, "{}", usages.by_name.len());
        assert!(usages.by_name.contains_key("kept"));
        drop(kept);
    }
}
