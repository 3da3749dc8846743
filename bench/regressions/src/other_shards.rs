//! Kinds of shards that a broker has besides the measured one. Their shared functions then have several callers, as
//! in a broker, so that the compiler makes the same inlining decisions.

use tautwire_message::MessageId;
use tautwire_session::{Journal, LogPosition, NoClusterBox, Record, SessionNumber};

use crate::engine::Broker;
use crate::packets::Layout;

/// Each kind serves a client, so that all of its code is linked.
pub fn meet() {
    Broker::with(PromptLog::default()).connect("visitor", Layout::V5);
    #[cfg(feature = "cluster")]
    in_cluster::meet();
}

/// A log whose records are durable at once.
#[derive(Default)]
struct PromptLog {
    records: u64,
    sessions: u64,
}

impl Journal for PromptLog {
    type ClusterBox<T: Send> = NoClusterBox<T>;

    const PERSISTENT: bool = true;

    fn next_session(&mut self) -> SessionNumber {
        self.sessions += 1;
        SessionNumber(self.sessions)
    }

    fn record(&mut self, _: Record<'_>) -> LogPosition {
        self.records += 1;
        LogPosition(self.records)
    }

    fn mark_forwarded(&mut self, _: MessageId) {}

    fn end_frame(&mut self) {}

    fn has_submitted_all(&self) -> bool {
        true
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.records)
    }

    fn is_lagging(&self) -> bool {
        false
    }
}

#[cfg(feature = "cluster")]
mod in_cluster {
    use std::hint::black_box;

    use tautwire_cluster::names::{PARTITIONS, Seed};
    use tautwire_cluster::record::Place;
    use tautwire_engine::{ClusterEvent, ClusterSettings};
    use tautwire_session::InCluster;

    use crate::engine::{Broker, NOW_MS};
    use crate::packets::Layout;

    /// It refuses the client, because it has no lease.
    pub fn meet() {
        let mut broker = Broker::with(InCluster);
        broker.shard.join_cluster(Seed(black_box([7; 16])), ClusterSettings::default());
        let began = ClusterEvent::Began { next: [Place::START; PARTITIONS as usize], state_max_bytes: usize::MAX };
        broker.shard.handle_cluster_event(black_box(began), NOW_MS);
        broker.connect("visitor", Layout::V5);
    }
}
