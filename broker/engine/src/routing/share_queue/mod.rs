//! Queues of shared subscriptions: they hold messages for which no member has credit.
//!
//! The queue of a group is on the shard that owns its name. The queue is a session without a client, so it is journaled, restored,
//! charged and spilled to disk like any other. See [decision 0038](../../../../docs/decisions/0038-queues-of-shared-subscriptions.md).

mod credit;
mod drain;
mod enqueue;
mod redispatch;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tautwire_router::SessionKey;

use crate::connection::connections::LoadQueue;
use crate::index::SessionIndex;

pub(crate) use redispatch::Redispatch;

use redispatch::AckWatch;

/// The queues of a shard, and the pending work for members of shared subscriptions.
#[derive(Debug, Default)]
pub(crate) struct ShareQueues {
    queues: HashMap<Arc<str>, ShareQueue>,
    /// Members with more credit requests than one turn answers.
    unanswered: VecDeque<SessionKey>,
    /// Members whose acknowledgements are watched, by time of the next check.
    watches: VecDeque<AckWatch>,
    watched: HashSet<SessionKey>,
    /// Connected members that have not acknowledged in time, with their count of settled messages at that time.
    stuck: HashMap<SessionKey, u64>,
}

/// The queue of one shared subscription.
#[derive(Debug)]
struct ShareQueue {
    session: SessionIndex,
    /// Members that have reported credit, in rotation.
    ready: VecDeque<SessionKey>,
    /// All members must be asked for credit.
    ask_all_members: bool,
    /// A job drains the queue, or waits for a message from disk.
    is_draining: bool,
    load_queue: LoadQueue,
}

impl ShareQueues {
    /// The time of the next check of a member.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.watches.front().map(|watch| watch.at_ms())
    }

    /// The messages read from disk for the queue of a shared subscription.
    pub(crate) fn load_queue(&mut self, share: &str) -> Option<&mut LoadQueue> {
        self.queues.get_mut(share).map(|queue| &mut queue.load_queue)
    }

    /// Whether members have unanswered credit requests.
    #[inline]
    pub(crate) fn any_unanswered(&self) -> bool {
        !self.unanswered.is_empty()
    }
}

impl ShareQueue {
    fn new(session: SessionIndex) -> ShareQueue {
        ShareQueue {
            session,
            ready: VecDeque::new(),
            ask_all_members: true,
            is_draining: false,
            load_queue: LoadQueue::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::connection::mount::MountPoint;
    use tautwire_session::{session_name, share_of_queue, share_queue_name, split_session_name};

    #[test]
    fn no_client_can_have_the_session_of_a_queue() {
        let name = share_queue_name("$share/g/a");
        assert_eq!(share_of_queue(&name), Some("$share/g/a"));
        assert_eq!(share_of_queue(&session_name(None, "$share/g/a")), None);
        assert_eq!(share_of_queue(&session_name(Some("m/"), "$share/g/a")), None);
        let (mount_point, _) = split_session_name(&name);
        assert!(MountPoint::new(mount_point.expect("it looks like one")).is_none());
    }
}
