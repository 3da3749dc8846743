//! Bans by rule: who fails too often.

use std::collections::{HashMap, VecDeque};

use super::Banned;
use super::network::Network;
use crate::limits::{FAILURES_COUNTED_MAX, FAILURES_KEYS_MAX};
use crate::{Attempt, Now};

/// Who fails `count` times within `within_s` seconds is banned for `ban_s` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureRule {
    /// Whose failures are counted together.
    pub by: By,
    /// From 1 to [`FAILURES_COUNTED_MAX`].
    pub count: usize,
    /// The time in which so many are too many.
    pub within_s: u64,
    /// How long the ban lasts.
    pub ban_s: u64,
}

/// Whose failures are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// An IPv4 address, or an IPv6 network of 64 bits.
    Address,
    /// A Client Identifier. Anybody can use it, so anybody can have it banned.
    ClientId,
    /// A user name. Anybody can use it, so anybody can have it banned.
    User,
}

impl By {
    /// Who it is in an attempt.
    pub(super) fn subject(self, attempt: &Attempt) -> Option<Banned> {
        match self {
            By::Address => attempt.provenance.address.map(|address| Banned::Network(Network::of_client(address))),
            By::ClientId => Some(&attempt.client_id).filter(|id| !id.is_empty()).cloned().map(Banned::ClientId),
            By::User => attempt.user_name.clone().map(Banned::User),
        }
    }
}

/// When somebody has failed, by rule.
#[derive(Debug, Default)]
pub(super) struct Failures {
    times: HashMap<(usize, Banned), VecDeque<u64>>,
    swept_at_s: u64,
}

impl Failures {
    /// Notes a failure. `Some(true)`: there are too many now. `None`: there is no room to note it.
    pub(super) fn note(&mut self, index: usize, rule: &FailureRule, who: Banned, now: Now) -> Option<bool> {
        let now_s = now.steady_ms / 1_000;
        let key = (index, who);
        if !self.times.contains_key(&key) && self.times.len() >= FAILURES_KEYS_MAX && !self.sweep(rule.within_s, now_s)
        {
            return None;
        }
        let times = self.times.entry(key.clone()).or_default();
        times.retain(|at_s| now_s.saturating_sub(*at_s) < rule.within_s.max(1));
        times.push_back(now_s);
        let is_too_many = times.len() >= rule.count.clamp(1, FAILURES_COUNTED_MAX);
        if is_too_many {
            self.times.remove(&key);
        }
        Some(is_too_many)
    }

    /// Forgets who has not failed for long, once a second at most. Whether there is room now.
    fn sweep(&mut self, within_s: u64, now_s: u64) -> bool {
        if self.swept_at_s == now_s {
            return false;
        }
        self.swept_at_s = now_s;
        let is_young = |at_s: &u64| now_s.saturating_sub(*at_s) < within_s;
        self.times.retain(|_, times| times.back().is_some_and(is_young));
        self.times.len() < FAILURES_KEYS_MAX
    }
}
