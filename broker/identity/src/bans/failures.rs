//! Automatic bans after too many failures.

use std::collections::{HashMap, VecDeque};

use super::ban::BanTarget;
use super::network::Network;
use crate::limits::{CLIENT_ID_BYTES_MAX, FAILURES_COUNTED_MAX, FAILURES_KEYS_MAX, USER_NAME_BYTES_MAX};
use crate::{AuthAttempt, Now};

/// Bans a subject for `ban_s` seconds after `count` failures within `within_s` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureRule {
    /// The subject whose failures are counted.
    pub by: FailureKey,
    /// The number of failures, from 1 to [`FAILURES_COUNTED_MAX`].
    pub count: usize,
    /// The length of the time window.
    pub within_s: u64,
    /// How long the ban lasts.
    pub ban_s: u64,
}

/// The subject whose failures are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKey {
    /// An IPv4 address, or an IPv6 network of 64 bits.
    Address,
    /// A Client Identifier. Anybody can use it, and so get it banned.
    ClientId,
    /// A user name. Anybody can use it, and so get it banned.
    User,
}

impl FailureKey {
    /// The subject of an attempt. Invalid names are not stored: they may be as long as a packet allows.
    pub(super) fn subject(self, attempt: &AuthAttempt) -> Option<BanTarget> {
        match self {
            FailureKey::Address => {
                attempt.origin.address.map(|address| BanTarget::Network(Network::of_client(address)))
            }
            FailureKey::ClientId => {
                let id = Some(&attempt.client_id).filter(|id| (1..=CLIENT_ID_BYTES_MAX).contains(&id.len()));
                id.cloned().map(BanTarget::ClientId)
            }
            FailureKey::User => {
                let name = attempt.user_name.as_ref().filter(|name| name.len() <= USER_NAME_BYTES_MAX);
                name.cloned().map(BanTarget::User)
            }
        }
    }
}

/// Times of failures, for each rule. Clients choose names, so each rule has its own table that others cannot fill.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<FailureTimes>);

/// Times of failures, for one rule.
#[derive(Debug, Default)]
struct FailureTimes {
    times: HashMap<BanTarget, VecDeque<u64>>,
    last_cleanup_s: u64,
}

impl Failures {
    /// Records a failure for the rule with this index. `Some(true)`: the limit is reached. `None`: the table is full.
    pub(super) fn record(&mut self, index: usize, rule: &FailureRule, who: BanTarget, now: Now) -> Option<bool> {
        if self.0.len() <= index {
            self.0.resize_with(index + 1, FailureTimes::default);
        }
        self.0.get_mut(index)?.record(rule, who, now.steady_ms / 1_000)
    }
}

impl FailureTimes {
    fn record(&mut self, rule: &FailureRule, who: BanTarget, now_s: u64) -> Option<bool> {
        // Made-up names are removed before the table is full.
        if now_s.saturating_sub(self.last_cleanup_s) >= rule.within_s.max(1) {
            self.remove_expired(rule.within_s, now_s);
        }
        if !self.times.contains_key(&who)
            && self.times.len() >= FAILURES_KEYS_MAX
            && !self.remove_expired(rule.within_s, now_s)
        {
            return None;
        }
        let times = self.times.entry(who.clone()).or_default();
        times.retain(|at_s| now_s.saturating_sub(*at_s) < rule.within_s.max(1));
        times.push_back(now_s);
        let is_too_many = times.len() >= rule.count.clamp(1, FAILURES_COUNTED_MAX);
        if is_too_many {
            self.times.remove(&who);
        }
        Some(is_too_many)
    }

    /// Removes subjects without recent failures, at most once a second. Returns whether there is room now.
    fn remove_expired(&mut self, within_s: u64, now_s: u64) -> bool {
        if self.last_cleanup_s == now_s {
            return false;
        }
        self.last_cleanup_s = now_s;
        let is_young = |at_s: &u64| now_s.saturating_sub(*at_s) < within_s;
        self.times.retain(|_, times| times.back().is_some_and(is_young));
        if self.times.len() < self.times.capacity() / 4 {
            self.times.shrink_to_fit();
        }
        self.times.len() < FAILURES_KEYS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_forgotten_when_their_failures_expire() {
        let rule = FailureRule { by: FailureKey::User, count: 3, within_s: 60, ban_s: 60 };
        let mut noted = FailureTimes::default();
        for number in 0..10_000 {
            assert_eq!(noted.record(&rule, BanTarget::User(format!("stranger-{number}").into()), 1_000), Some(false));
        }
        assert_eq!(noted.record(&rule, BanTarget::User("late".into()), 1_059), Some(false));
        assert_eq!(noted.times.len(), 10_001, "they are still counted");
        assert_eq!(noted.record(&rule, BanTarget::User("late".into()), 1_060), Some(false));
        assert_eq!(noted.times.len(), 1);
        assert!(noted.times.capacity() < 100, "{}", noted.times.capacity());
        assert_eq!(
            noted.record(&rule, BanTarget::User("late".into()), 1_061),
            Some(true),
            "counted failures are not removed"
        );
    }
}
