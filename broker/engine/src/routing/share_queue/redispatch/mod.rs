//! Messages that a member of a shared subscription has been sent, and does not acknowledge in time, go to other members.

mod steps;

use std::collections::VecDeque;

use tautwire_message::MessageId;
use tautwire_protocol::PacketId;
use tautwire_router::SessionKey;

use crate::connection::connections::LoadQueue;

/// A member is looked at so often in `mqtt.shared_ack_timeout_s`: its oldest message must be the same for as many checks.
const ACK_CHECKS: u8 = 2;

/// A member with messages of shared subscriptions that it has not acknowledged.
#[derive(Debug)]
pub(super) struct AckWatch {
    at_ms: u64,
    member: SessionKey,
    /// The oldest of them when it was last looked at. Clients acknowledge in order [MQTT-4.6.0-2], so as long as that waits, all do.
    oldest: Option<(PacketId, MessageId)>,
    /// How often it has been the same since.
    checks: u8,
    /// What had been sent when it was found.
    sent: u64,
}

/// Messages of a member that has not acknowledged in time, in the order of sending.
#[derive(Debug)]
pub(crate) struct Redispatch {
    member: SessionKey,
    ids: VecDeque<PacketId>,
    pub(crate) load_queue: LoadQueue,
}

impl AckWatch {
    pub(super) fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Looks at the oldest message. Returns whether it has waited for too long.
    fn is_late(&mut self, oldest: (PacketId, MessageId), sent: u64) -> bool {
        if self.oldest != Some(oldest) {
            (self.oldest, self.checks, self.sent) = (Some(oldest), 0, sent);
            return false;
        }
        self.checks += 1;
        self.checks >= ACK_CHECKS
    }
}

#[cfg(test)]
mod tests {
    use tautwire_router::ShardIndex;

    use super::*;

    #[test]
    fn a_message_is_late_when_it_has_been_the_oldest_for_two_looks() {
        let member = SessionKey { shard: ShardIndex(0), index: 0, generation: 0 };
        let mut watch = AckWatch { at_ms: 0, member, oldest: None, checks: 0, sent: 0 };
        let message = |number| (PacketId::new(1).expect("not zero"), MessageId { run: 1, number });
        assert!(!watch.is_late(message(1), 5) && !watch.is_late(message(1), 6));
        assert!(!watch.is_late(message(2), 7), "the first has been acknowledged");
        assert!(!watch.is_late(message(2), 8) && watch.is_late(message(2), 9));
        assert_eq!(watch.sent, 7, "what has been sent since is not late");
    }
}
