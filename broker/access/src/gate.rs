//! Permissions that remember the topics of a connection.

use std::num::NonZeroU64;

use tautwire_protocol::QoS;

use crate::permissions::{Permissions, Verdict};
use crate::request::Way;

/// Topics that a connection's gate remembers. Most clients publish to fewer.
const REMEMBERED: usize = 8;

/// Names a topic: a match cache gives each entry a number when it is filled, and never the same number again. So whoever shows
/// the same stamp means the same topic. The stamps for one gate all come from one cache, that of the connection's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicStamp(NonZeroU64);

/// Permissions of a connection, with the topics that it has been allowed to publish to. When permissions change, what is
/// remembered goes with them. 120 bytes.
#[derive(Debug, Clone)]
pub struct PublishGate {
    permissions: Permissions,
    stamps: [u64; REMEMBERED],
    /// For each stamp, the ways to publish that are known to be allowed.
    allowed: [u8; REMEMBERED],
}

impl TopicStamp {
    /// The topic that has this number.
    #[inline]
    #[must_use]
    pub const fn new(number: NonZeroU64) -> Self {
        Self(number)
    }
}

impl PublishGate {
    /// A gate that remembers nothing yet.
    #[must_use]
    pub const fn new(permissions: Permissions) -> Self {
        Self { permissions, stamps: [0; REMEMBERED], allowed: [0; REMEMBERED] }
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
    pub fn may_publish(&mut self, stamp: Option<TopicStamp>, topic: &str, qos: QoS, retain: bool) -> Verdict {
        let Some(TopicStamp(stamp)) = stamp else { return self.permissions.may_publish(topic, qos, retain) };
        let bit = Way::new(qos, retain).bit();
        let place = stamp.get() as usize % REMEMBERED;
        if self.stamps[place] == stamp.get() && self.allowed[place] & bit != 0 {
            return Verdict::Allowed;
        }
        self.look(stamp.get(), place, bit, topic, qos, retain)
    }

    #[cold]
    fn look(&mut self, stamp: u64, place: usize, bit: u8, topic: &str, qos: QoS, retain: bool) -> Verdict {
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
