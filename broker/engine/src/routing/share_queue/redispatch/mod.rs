//! Redispatch of messages that a member of a shared subscription does not acknowledge in time.

mod steps;

use std::collections::VecDeque;

use tautwire_message::MessageId;
use tautwire_protocol::PacketId;
use tautwire_router::SessionKey;

use crate::connection::connections::LoadQueue;

/// Checks of a member within `mqtt.shared_ack_timeout_s`. A message is late if it is the oldest in this many checks after the first.
const ACK_CHECKS: u8 = 2;

/// The watch of a member with unacknowledged messages of shared subscriptions.
#[derive(Debug)]
pub(super) struct AckWatch {
    at_ms: u64,
    member: SessionKey,
    /// The oldest of them at the last check. Clients acknowledge in order [MQTT-4.6.0-2], so while it is pending, all are.
    oldest: Option<(PacketId, MessageId)>,
    /// The number of checks since in which it was the same.
    checks: u8,
    /// The count of sent messages when it was first seen.
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

    /// Checks the oldest message. Returns whether it is late.
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
    fn a_message_is_late_if_it_is_oldest_in_two_checks() {
        let member = SessionKey { shard: ShardIndex(0), index: 0, generation: 0 };
        let mut watch = AckWatch { at_ms: 0, member, oldest: None, checks: 0, sent: 0 };
        let message = |number| (PacketId::new(1).expect("not zero"), MessageId { run: 1, number });
        assert!(!watch.is_late(message(1), 5) && !watch.is_late(message(1), 6));
        assert!(!watch.is_late(message(2), 7), "the first has been acknowledged");
        assert!(!watch.is_late(message(2), 8) && watch.is_late(message(2), 9));
        assert_eq!(watch.sent, 7, "messages that were sent later are not late");
    }
}
