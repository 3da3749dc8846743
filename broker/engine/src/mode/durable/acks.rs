//! Acknowledgements that are delayed until the journal is durable.

use tautwire_session::{AckLevel, Journal, LogPosition};

use crate::connection::ack::{Ack, DelayedAck};
use crate::index::ConnectionIndex;
use crate::mutant::{Mutant, is};
use crate::shard::ShardState;

impl<J: Journal + 'static> ShardState<J> {
    /// Sends `ack` once the records it depends on are as durable as `level` requires.
    pub(crate) fn acknowledge_by_log(&mut self, level: AckLevel, index: ConnectionIndex, ack: Ack) {
        let position = self.ack_position(index);
        let ShardState { connections, memory, log, latency_recorder, .. } = self;
        let connection = &mut connections[index];
        let has_delayed = connection.has_delayed_acks();
        // Output that is blocked for the whole session waits for the session's own position.
        let safe_at = connection.output_blocked_until().max(log.reached(level));
        if (!has_delayed && is_reached(position, safe_at)) || is_immediate(&ack) {
            latency_recorder.record_acknowledged(&ack);
            self.write_ack(index, &ack);
            return;
        }
        let delayed = DelayedAck { until: position, level, since: latency_recorder.stamp(), ack };
        connection.delay_ack(delayed, memory.ledger());
        if !has_delayed {
            log.queue_delayed_acks(index);
        }
    }

    /// Sends the delayed acknowledgements whose records are durable now.
    pub(crate) fn release_acks(&mut self) {
        for index in self.log.take_delayed_acks() {
            loop {
                let ShardState { connections, log, latency_recorder, .. } = self;
                let is_safe = |position, level| is_reached(position, log.reached(level));
                let Some((ack, since)) = connections[index].pop_delayed_ack(is_safe) else { break };
                latency_recorder.record_waited(&ack, since);
                self.write_delayed_ack(index, &ack);
            }
            let connection = &mut self.connections[index];
            if connection.has_delayed_acks() {
                self.log.queue_delayed_acks(index);
            }
            self.resume_after_acks(index);
        }
    }
}

#[inline]
fn is_reached(position: LogPosition, reached: LogPosition) -> bool {
    position <= reached || (is(Mutant::AcknowledgesOneFrameEarly) && position.0 == reached.0 + 1)
}

#[inline]
fn is_immediate(ack: &Ack) -> bool {
    (is(Mutant::SendsPubCompBeforeDurable) && matches!(ack, Ack::Complete(..)))
        || (is(Mutant::DeliversBeforeDurable) && matches!(ack, Ack::Deliver(..)))
}
