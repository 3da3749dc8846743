//! What the clients of one user may hold together, on all shards, and the account in which that is kept.
//!
//! A session takes part in the account of its user by a [`UserShare`], which gives back what it has taken when it is dropped. What a
//! shard does not see at once is what others take at the same moment: a quota may be passed by as many steps as there are shards.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tautwire_router::{RetainedOwner, RetainedQuota};
use tautwire_session::{Outbound, Session};

use super::{PublishBucket, PublishRates};

/// Accounts beyond which those are forgotten of which no session is part, although their buckets are not full yet.
const ACCOUNTS_KEPT: usize = 16_384;

/// What the clients of one user may do together. The largest number stands for no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserQuotas {
    /// How fast they may publish.
    pub(crate) publish: PublishRates,
    /// Subscriptions of their sessions.
    pub(crate) subscriptions: usize,
    /// QoS 1 and 2 messages sent to them and not acknowledged. Each has one whatever the others have.
    pub(crate) in_flight: usize,
    /// Messages that wait for them.
    pub(crate) queue_messages: usize,
    /// Bytes of messages that wait for them, or have been sent and not acknowledged.
    pub(crate) queue_bytes: usize,
    /// Retained messages that are theirs.
    pub(crate) retained: RetainedQuota,
}

impl UserQuotas {
    /// Whether there is a bound at all.
    pub(crate) fn are_bounded(&self) -> bool {
        let counts = [self.subscriptions, self.in_flight, self.queue_messages, self.queue_bytes];
        self.publish.are_bounded() || self.retained.is_bounded() || counts.iter().any(|count| *count != usize::MAX)
    }
}

/// The accounts of all users of whom a session is there, and of those who have published faster than they may.
#[derive(Debug, Default)]
pub(crate) struct Users {
    accounts: Mutex<Accounts>,
}

#[derive(Debug, Default)]
struct Accounts {
    by_name: HashMap<Box<str>, Arc<UserAccount>>,
    /// So many at which those that nobody needs are looked for.
    prune_at: usize,
}

impl Users {
    fn account(&self, user: &str, now_ms: u64) -> Arc<UserAccount> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.by_name.get(user) {
            return account.clone();
        }
        if accounts.by_name.len() >= accounts.prune_at {
            let keeps_debts = accounts.by_name.len() < ACCOUNTS_KEPT;
            accounts
                .by_name
                .retain(|_, account| Arc::strong_count(account) > 1 || (keeps_debts && account.has_debts(now_ms)));
            accounts.prune_at = (accounts.by_name.len() * 2).max(1_024);
        }
        let account = Arc::new(UserAccount::default());
        accounts.by_name.insert(user.into(), account.clone());
        account
    }
}

/// What the clients of one user hold.
#[derive(Debug, Default)]
struct UserAccount {
    subscriptions: AtomicUsize,
    in_flight: AtomicUsize,
    queue_messages: AtomicUsize,
    queue_bytes: AtomicUsize,
    /// None as long as there has been no rate.
    bucket: Mutex<Option<PublishBucket>>,
}

impl UserAccount {
    fn has_debts(&self, now_ms: u64) -> bool {
        let bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.is_some_and(|bucket| bucket.full_at_ms() > now_ms)
    }
}

/// What one session holds of what its user's clients hold together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    subscriptions: usize,
    in_flight: usize,
    queue_messages: usize,
    queue_bytes: usize,
}

impl Held {
    fn of(session: &Session) -> Held {
        let subscriptions = session.subscriptions().len();
        let outbound = session.outbound();
        let count = |of: fn(&Outbound) -> usize| outbound.map_or(0, of);
        Held {
            subscriptions,
            in_flight: count(Outbound::in_flight),
            queue_messages: count(Outbound::queued),
            queue_bytes: count(Outbound::counted_bytes),
        }
    }
}

/// One session's part in the account of its user.
#[derive(Debug)]
pub(crate) struct UserShare {
    account: Arc<UserAccount>,
    owner: RetainedOwner,
    held: Held,
}

impl UserShare {
    /// Of a session that takes part from now on.
    pub(crate) fn new(users: &Users, user: &str, owner: RetainedOwner, session: &Session, now_ms: u64) -> UserShare {
        let mut share = UserShare { account: users.account(user, now_ms), owner, held: Held::default() };
        share.settle(session);
        share
    }

    /// What retained messages are known by that the user's clients have set.
    pub(crate) fn owner(&self) -> RetainedOwner {
        self.owner
    }

    /// The account knows what the session holds now.
    pub(crate) fn settle(&mut self, session: &Session) {
        self.hold(Held::of(session));
    }

    fn hold(&mut self, held: Held) {
        let UserAccount { subscriptions, in_flight, queue_messages, queue_bytes, .. } = &*self.account;
        for (sum, before, after) in [
            (subscriptions, self.held.subscriptions, held.subscriptions),
            (in_flight, self.held.in_flight, held.in_flight),
            (queue_messages, self.held.queue_messages, held.queue_messages),
            (queue_bytes, self.held.queue_bytes, held.queue_bytes),
        ] {
            if before != after {
                sum.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
            }
        }
        self.held = held;
    }

    /// Whether there is room for one more subscription.
    pub(crate) fn has_room_for_subscription(&self, quotas: &UserQuotas) -> bool {
        self.account.subscriptions.load(Ordering::Relaxed) < quotas.subscriptions
    }

    /// Whether one more message may be sent to this client. Each has one whatever the others have, so that its acknowledgement goes
    /// on with the rest: nobody waits for another client's.
    pub(crate) fn may_send(&self, quotas: &UserQuotas) -> bool {
        self.held.in_flight == 0 || self.account.in_flight.load(Ordering::Relaxed) < quotas.in_flight
    }

    /// Whether one more message of `bytes` may be held. Where the user's clients hold nothing, they may hold any.
    pub(crate) fn has_room_for_message(&self, bytes: usize, quotas: &UserQuotas) -> bool {
        let held_bytes = self.account.queue_bytes.load(Ordering::Relaxed);
        let fits = held_bytes == 0 || held_bytes.saturating_add(bytes) <= quotas.queue_bytes;
        fits && self.account.queue_messages.load(Ordering::Relaxed) < quotas.queue_messages
    }

    /// Takes a PUBLISH of `bytes`, Fixed Header included, from what the user may publish.
    ///
    /// # Errors
    /// It has to wait. Nothing has been taken; it is to be tried again at that moment, in milliseconds.
    pub(crate) fn take_publish(&self, bytes: usize, rates: &PublishRates, now_ms: u64) -> Result<(), u64> {
        if !rates.are_bounded() {
            return Ok(());
        }
        let mut bucket = self.account.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = bucket.get_or_insert_with(|| PublishBucket::full(rates, now_ms));
        bucket.keep_to(rates);
        bucket.take(bytes, now_ms)
    }

    /// A PUBLISH that has been taken was not let through after all.
    pub(crate) fn give_back_publish(&self, bytes: usize) {
        let mut bucket = self.account.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = bucket.as_mut() {
            bucket.give_back(bytes);
        }
    }
}

impl Drop for UserShare {
    fn drop(&mut self) {
        self.hold(Held::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tautwire_router::{Exchange, Placement, RetainedLimits};

    use crate::quotas::Rate;

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

    fn share(users: &Users, user: &str) -> UserShare {
        let limits = RetainedLimits { messages: 1, bytes: 1 };
        let owner = Exchange::with_placement(Placement::new(1, 0), limits).retained_owner(user);
        UserShare::new(users, user, owner, &Session::new("s"), NOW_MS)
    }

    fn held(subscriptions: usize, in_flight: usize, queue_messages: usize, queue_bytes: usize) -> Held {
        Held { subscriptions, in_flight, queue_messages, queue_bytes }
    }

    #[test]
    fn sessions_of_one_user_count_together_and_give_back_what_they_held() {
        let users = Users::default();
        let (mut first, mut second, other) = (share(&users, "ann"), share(&users, "ann"), share(&users, "bob"));
        let quotas = UserQuotas { subscriptions: 5, queue_messages: 3, queue_bytes: 100, in_flight: 4, ..NONE };
        first.hold(held(3, 2, 1, 60));
        second.hold(held(1, 1, 1, 30));
        assert!(first.has_room_for_subscription(&quotas) && first.may_send(&quotas));
        assert!(first.has_room_for_message(10, &quotas) && !first.has_room_for_message(11, &quotas));
        second.hold(held(2, 2, 2, 30));
        assert!(!first.has_room_for_subscription(&quotas) && !first.may_send(&quotas));
        assert!(!first.has_room_for_message(1, &quotas));
        assert!(other.has_room_for_subscription(&quotas) && other.has_room_for_message(1_000, &quotas));
        drop(first);
        assert_eq!(second.account.subscriptions.load(Ordering::Relaxed), 2);
        assert!(second.has_room_for_subscription(&quotas) && second.may_send(&quotas));
        drop(second);
        assert!(share(&users, "ann").has_room_for_message(1_000, &quotas), "who holds nothing may hold any");
    }

    #[test]
    fn each_client_has_one_message_under_way_whatever_the_others_have() {
        let users = Users::default();
        let (mut first, second) = (share(&users, "ann"), share(&users, "ann"));
        let quotas = UserQuotas { in_flight: 2, ..NONE };
        first.hold(held(0, 5, 0, 0));
        assert!(!first.may_send(&quotas));
        assert!(second.may_send(&quotas));
    }

    #[test]
    fn a_rate_is_that_of_all_the_users_clients_and_outlives_them() {
        let users = Users::default();
        let rates = PublishRates { messages: Rate::new(1, 2), bytes: None };
        let (first, second) = (share(&users, "ann"), share(&users, "ann"));
        assert_eq!(first.take_publish(1, &rates, NOW_MS), Ok(()));
        assert_eq!(second.take_publish(1, &rates, NOW_MS), Ok(()));
        assert_eq!(first.take_publish(1, &rates, NOW_MS), Err(NOW_MS + 1_000));
        second.give_back_publish(1);
        assert_eq!(first.take_publish(1, &rates, NOW_MS), Ok(()));
        drop((first, second));
        assert_eq!(share(&users, "ann").take_publish(1, &rates, NOW_MS), Err(NOW_MS + 1_000));
        assert_eq!(share(&users, "bob").take_publish(1, &rates, NOW_MS), Ok(()));
        assert_eq!(share(&users, "ann").take_publish(1, &NO_RATE, NOW_MS), Ok(()));
    }

    #[test]
    fn accounts_that_nobody_needs_are_forgotten() {
        let users = Users::default();
        let kept = share(&users, "kept");
        for number in 0..10_000 {
            drop(share(&users, &number.to_string()));
        }
        let accounts = users.accounts.lock().expect("nobody has failed with it");
        assert!(accounts.by_name.len() <= 1_024, "{}", accounts.by_name.len());
        assert!(accounts.by_name.contains_key("kept"));
        drop(kept);
    }
}
