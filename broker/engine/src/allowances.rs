//! What the clients of a shard may do, and what is remembered of them so that they keep to it.

use std::sync::Arc;

use tautwire_router::RetainedOwner;
use tautwire_session::Session;

use crate::quotas::{Departed, Flapping, FlappingRule, Noted, PublishBucket, Quotas, UserShare, Users};

/// Quotas, and what those who are held to them have used up.
#[derive(Debug)]
pub(crate) struct Allowances {
    quotas: Quotas,
    /// As `quotas` have it: it is asked for each PUBLISH.
    paces_publishers: bool,
    /// What clients that have gone had left of their rates.
    departed: Departed,
    /// What the clients of each user hold together, where there are quotas of users.
    users: Arc<Users>,
    /// Clients whose connections break off, where they are held back for it.
    flapping: Option<Flapping>,
}

/// What is different by other quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Those who wait for their rate may go on sooner.
    pub(crate) rates: bool,
    /// What the sessions hold has to be counted for their users from now on.
    pub(crate) counts_for_users: bool,
}

impl Allowances {
    pub(crate) fn new(quotas: Quotas, flapping: Option<FlappingRule>, users: Arc<Users>) -> Allowances {
        Allowances {
            paces_publishers: quotas.pace_publishers(),
            quotas,
            departed: Departed::default(),
            users,
            flapping: flapping.map(Flapping::new),
        }
    }

    /// From now on these hold. What is remembered stays.
    pub(crate) fn keep_to(&mut self, quotas: Quotas, flapping: Option<FlappingRule>) -> Changed {
        self.flapping = flapping.map(|rule| {
            let mut flapping = self.flapping.take().unwrap_or_else(|| Flapping::new(rule));
            flapping.keep_to(rule);
            flapping
        });
        let changed = Changed {
            rates: quotas.publish != self.quotas.publish || quotas.of_user.publish != self.quotas.of_user.publish,
            counts_for_users: quotas.of_user.are_bounded() && !self.quotas.of_user.are_bounded(),
        };
        self.paces_publishers = quotas.pace_publishers();
        self.quotas = quotas;
        changed
    }

    /// What each client may do.
    #[inline]
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Whether somebody may publish only so fast.
    #[inline]
    pub(crate) fn pace_publishers(&self) -> bool {
        self.paces_publishers
    }

    /// What the client of the session that is called `name` may publish now that it has come: what it left when it was here last.
    /// `None` where nobody has a rate of their own.
    #[inline(always)]
    pub(crate) fn bucket_of(&mut self, name: &str, now_ms: u64) -> Option<PublishBucket> {
        let rates = self.quotas.publish;
        if !rates.are_bounded() {
            return None;
        }
        let mut bucket = self.departed.take(name).unwrap_or_else(|| PublishBucket::full(&rates, now_ms));
        bucket.keep_to(&rates);
        Some(bucket)
    }

    /// The client of the session that is called `name` has gone, and this is what it has left.
    pub(crate) fn keep_bucket(&mut self, name: &str, bucket: PublishBucket, now_ms: u64) {
        self.departed.keep(name, bucket, now_ms);
    }

    /// What `session` holds counts for `user` from now on, as its share of what all clients of that user hold.
    pub(crate) fn share_of(&self, user: &str, owner: RetainedOwner, session: &Session, now_ms: u64) -> UserShare {
        UserShare::new(&self.users, user, owner, session, now_ms)
    }

    /// Whether the client of the session that is called `name` stays outside because its connections break off.
    #[inline(always)]
    pub(crate) fn holds_back(&self, name: &str, now_ms: u64) -> bool {
        self.flapping.as_ref().is_some_and(|flapping| flapping.holds_back(name, now_ms))
    }

    /// A connection of that client has broken off.
    pub(crate) fn note_break(&mut self, name: &str, now_ms: u64) -> Noted {
        self.flapping.as_mut().map_or(Noted::default(), |flapping| flapping.note(name, now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn allowances(settings: &Settings) -> Allowances {
        Allowances::new(settings.quotas(), settings.flapping(), Arc::default())
    }

    #[test]
    fn who_comes_back_has_what_was_left_by_the_rate_of_now() {
        let slow = Settings { publish_messages_per_s: 1, publish_burst_messages: 1, ..Settings::default() };
        let mut allowances = allowances(&slow);
        let mut bucket = allowances.bucket_of("a", NOW_MS).expect("there is a rate");
        assert!(bucket.take(1, NOW_MS).is_ok());
        allowances.keep_bucket("a", bucket, NOW_MS);
        let mut bucket = allowances.bucket_of("a", NOW_MS).expect("there is a rate");
        assert!(bucket.take(1, NOW_MS).is_err(), "the burst is used up");
        let open = Settings::default();
        assert!(allowances.keep_to(open.quotas(), open.flapping()).rates);
        assert!(!allowances.pace_publishers() && allowances.bucket_of("a", NOW_MS).is_none());
        assert!(!allowances.keep_to(open.quotas(), open.flapping()).rates);
    }

    #[test]
    fn what_is_known_of_breaks_outlives_another_rule_but_not_that_there_is_none() {
        let rule = |breaks| FlappingRule::new(breaks, 60, 60);
        let quotas = || Settings::default().quotas();
        let mut allowances = Allowances::new(quotas(), rule(2), Arc::default());
        assert!(!allowances.note_break("a", NOW_MS).holds_back);
        allowances.keep_to(quotas(), rule(3));
        assert!(!allowances.note_break("a", NOW_MS).holds_back);
        assert!(allowances.note_break("a", NOW_MS).holds_back && allowances.holds_back("a", NOW_MS));
        allowances.keep_to(quotas(), None);
        assert!(!allowances.holds_back("a", NOW_MS) && !allowances.note_break("a", NOW_MS).holds_back);
    }
}
