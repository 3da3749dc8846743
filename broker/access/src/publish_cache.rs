//! Permissions that remember the topics of a connection.

use std::num::NonZeroU64;

use tautwire_protocol::QoS;

use crate::permissions::{AccessDecision, Permissions};
use crate::request::Action;

/// Topics that a connection's gate remembers. Most clients publish to fewer.
const CACHED_TOPICS: usize = 8;

/// Names a topic: a match cache gives each entry a number when it is filled, and never the same number again. So whoever shows
/// the same stamp means the same topic. The stamps for one gate all come from one cache, that of the connection's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicStamp(NonZeroU64);

/// Permissions of a connection, with the topics that it has been allowed to publish to. When permissions change, what is
/// remembered goes with them. 120 bytes.
#[derive(Debug, Clone)]
pub struct PublishCache {
    permissions: Permissions,
    stamps: [u64; CACHED_TOPICS],
    /// For each stamp, the ways to publish that are known to be allowed.
    allowed: [u8; CACHED_TOPICS],
}

impl TopicStamp {
    /// The topic that has this number.
    #[inline]
    #[must_use]
    pub const fn new(number: NonZeroU64) -> Self {
        Self(number)
    }
}

impl PublishCache {
    /// A gate that remembers nothing yet.
    #[must_use]
    pub const fn new(permissions: Permissions) -> Self {
        Self { permissions, stamps: [0; CACHED_TOPICS], allowed: [0; CACHED_TOPICS] }
    }

    /// What the client may do.
    #[inline]
    #[must_use]
    pub const fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// The same answer as [`Permissions::may_publish`]; a few nanoseconds where the last topics of the connection include this
    /// one. `stamp` is the topic's; `None` where it has none. Denials are not remembered. Allocates nothing.
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
        let verdict = self.permissions.may_publish(topic, qos, retain);
        if verdict.is_allowed() {
            if self.stamps[place] != stamp {
                self.stamps[place] = stamp;
                self.allowed[place] = 0;
            }
            self.allowed[place] |= bit;
        }
        verdict
    }
}
