//! Permissions with a cache of a connection's topics.

use std::num::NonZeroU64;

use tautwire_protocol::QoS;

use crate::decision::AccessDecision;
use crate::permissions::Permissions;
use crate::request::Action;

/// Topics that a connection's cache holds. Most clients publish to fewer.
const CACHED_TOPICS: usize = 8;

/// Identifies a topic: a match cache numbers each entry when it is filled, and never reuses a number. So equal stamps mean the same topic.
/// The stamps for one publish cache all come from one match cache, that of the connection's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicStamp(NonZeroU64);

/// Permissions of a connection, with a cache of topics that it may publish to. New permissions start with an empty cache. 120 bytes.
#[derive(Debug, Clone)]
pub struct PublishCache {
    permissions: Permissions,
    stamps: [u64; CACHED_TOPICS],
    /// For each stamp, the actions that are known to be allowed.
    allowed: [u8; CACHED_TOPICS],
}

impl TopicStamp {
    /// The topic with this number.
    #[inline]
    #[must_use]
    pub const fn new(number: NonZeroU64) -> Self {
        Self(number)
    }
}

impl PublishCache {
    /// An empty cache.
    #[must_use]
    pub const fn new(permissions: Permissions) -> Self {
        Self { permissions, stamps: [0; CACHED_TOPICS], allowed: [0; CACHED_TOPICS] }
    }

    /// The client's permissions.
    #[inline]
    #[must_use]
    pub const fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// The same decision as [`Permissions::may_publish`]; a few nanoseconds if the topic is cached. `stamp` is the topic's; `None` if it
    /// has none. Denials are not cached. Does not allocate.
    #[inline]
    pub fn may_publish(&mut self, stamp: Option<TopicStamp>, topic: &str, qos: QoS, retain: bool) -> AccessDecision {
        let Some(TopicStamp(stamp)) = stamp else { return self.permissions.may_publish(topic, qos, retain) };
        let bit = Action::new(qos, retain).bit();
        let place = stamp.get() as usize % CACHED_TOPICS;
        if self.stamps[place] == stamp.get() && self.allowed[place] & bit != 0 {
            return AccessDecision::Allowed;
        }
        self.lookup(stamp.get(), place, bit, topic, qos, retain)
    }

    #[cold]
    fn lookup(&mut self, stamp: u64, place: usize, bit: u8, topic: &str, qos: QoS, retain: bool) -> AccessDecision {
        let decision = self.permissions.may_publish(topic, qos, retain);
        if decision.is_allowed() {
            if self.stamps[place] != stamp {
                self.stamps[place] = stamp;
                self.allowed[place] = 0;
            }
            self.allowed[place] |= bit;
        }
        decision
    }
}
