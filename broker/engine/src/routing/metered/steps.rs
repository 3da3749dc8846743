//! Counting a message for the metered filters that match its topic.

use tautwire_message::MessageRef;
use tautwire_protocol::QoS;

use super::{MeterBaseline, Meters, dropped};
use crate::mode::Mode;
use crate::routing::route::MessageSource;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// The shard's counters so far.
    #[cold]
    pub(crate) fn meter_baseline(&self) -> MeterBaseline {
        MeterBaseline { deliveries: self.deliveries(), dropped: dropped(self.counters()) }
    }

    /// Counts a message and its deliveries and drops on this shard, for the filters that match.
    #[cold]
    pub(crate) fn meter(
        &self,
        meters: Meters,
        message: &MessageRef<'_>,
        publisher: MessageSource,
        before: MeterBaseline,
    ) {
        let bytes = message.payload.len() as u64;
        let delivered = self.deliveries().wrapping_sub(before.deliveries);
        let dropped = dropped(self.counters()).wrapping_sub(before.dropped);
        let shard = usize::from(self.context.shard().0);
        for (at, metered) in self.routing.metered.0.iter().enumerate() {
            let Some(counts) = metered.shards.get(shard).filter(|_| meters >> at & 1 == 1) else { continue };
            if !publisher.reaches_all_shards() {
                counts.received[message.qos as usize].add(1);
                counts.received_bytes.add(bytes);
            }
            counts.delivered.add(delivered);
            counts.delivered_bytes.add(delivered * bytes);
            counts.dropped.add(dropped);
        }
    }

    /// Messages delivered to clients and queues so far. Only the difference between two calls is meaningful.
    fn deliveries(&self) -> u64 {
        // A message of QoS 1 or 2 counts for its session, and again for its connection unless it is queued.
        let to_sessions = self.work_budget.deliveries().wrapping_sub(self.counters().publishes_sent.get());
        to_sessions.wrapping_add(self.latency_recorder.delivered(QoS::AtMostOnce))
    }
}
