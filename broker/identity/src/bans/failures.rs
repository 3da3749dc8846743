//! Bans by rule: who fails too often.

use std::collections::{HashMap, VecDeque};

use super::BanTarget;
use super::network::Network;
use crate::limits::{CLIENT_ID_BYTES_MAX, FAILURES_COUNTED_MAX, FAILURES_KEYS_MAX, USER_NAME_BYTES_MAX};
use crate::{AuthAttempt, Now};

/// Who fails `count` times within `within_s` seconds is banned for `ban_s` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureRule {
    /// Whose failures are counted together.
    pub by: FailureKey,
    /// From 1 to [`FAILURES_COUNTED_MAX`].
    pub count: usize,
    /// The time in which so many are too many.
    pub within_s: u64,
    /// How long the ban lasts.
    pub ban_s: u64,
}

/// Whose failures are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKey {
    /// An IPv4 address, or an IPv6 network of 64 bits.
    Address,
    /// A Client Identifier. Anybody can use it, so anybody can have it banned.
    ClientId,
    /// A user name. Anybody can use it, so anybody can have it banned.
    User,
}

impl FailureKey {
    /// Who it is in an attempt. A name that nobody can have is not kept: it may be as long as a packet allows.
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

/// When somebody has failed, for each rule. Strangers choose names: those that one rule counts by take no room of another.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<FailureTimes>);

/// When somebody has failed, for one rule.
#[derive(Debug, Default)]
struct FailureTimes {
    times: HashMap<BanTarget, VecDeque<u64>>,
    last_cleanup_s: u64,
}

impl Failures {
    /// Notes a failure, for the rule of this index. `Some(true)`: there are too many now. `None`: there is no room to note it.
    pub(super) fn record(&mut self, index: usize, rule: &FailureRule, who: BanTarget, now: Now) -> Option<bool> {
        if self.0.len() <= index {
            self.0.resize_with(index + 1, FailureTimes::default);
        }
        self.0.get_mut(index)?.record(rule, who, now.steady_ms / 1_000)
    }
}

impl FailureTimes {
    fn record(&mut self, rule: &FailureRule, who: BanTarget, now_s: u64) -> Option<bool> {
        // Names that strangers have made up do not stay until there is no room for others.
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

    /// Forgets who has not failed for long, once a second at most. Whether there is room now.
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
    fn names_of_strangers_are_forgotten_when_their_failures_do_not_count_any_more() {
        let rule = FailureRule { by: FailureKey::User, count: 3, within_s: 60, ban_s: 60 };
        let mut noted = FailureTimes::default();
        for number in 0..10_000 {
            assert_eq!(noted.record(&rule, BanTarget::User(format!("stranger-{number}").into()), 1_000), Some(false));
        }
        assert_eq!(noted.record(&rule, BanTarget::User("late".into()), 1_059), Some(false));
        assert_eq!(noted.times.len(), 10_001, "they still count");
        assert_eq!(noted.record(&rule, BanTarget::User("late".into()), 1_060), Some(false));
        assert_eq!(noted.times.len(), 1);
        assert!(noted.times.capacity() < 100, "{}", noted.times.capacity());
        assert_eq!(
            noted.record(&rule, BanTarget::User("late".into()), 1_061),
            Some(true),
            "whose failures count is not forgotten"
        );
    }
}
