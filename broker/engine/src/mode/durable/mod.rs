//! The mode of a broker with a journal: acknowledgements wait until the journal is durable.

mod acks;
mod records;

use tautwire_message::{Message, MessageRef};
use tautwire_protocol::{FixedHeader, PacketType};
use tautwire_router::{BatchPayload, ShardIndex};
use tautwire_session::{AckLevel, Change, Journal, PendingMessage, Receivers, Record, SessionNumber};

use self::records::needs_persistence;
use super::Mode;
use crate::connection::ack::Ack;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::routing::publish_packets::OutgoingPublish;
use crate::shard::ShardState;
use crate::shard_context::ShardContext;

#[expect(private_interfaces, reason = "modes are part of the engine")]
impl<J: Journal + 'static> Mode for J {
    type Journal = J;
    type State = ();

    const SPILLS: bool = true;
    const SPANS_WAIT: bool = true;

    fn begin(self, _context: &mut ShardContext) -> (J, ()) {
        (self, ())
    }

    #[inline]
    fn session_ack_level(state: &ShardState<J>, index: ConnectionIndex) -> AckLevel {
        state.connections[index].ack_level()
    }

    #[inline]
    fn ack_level(state: &ShardState<J>, index: ConnectionIndex, message: &MessageRef<'_>) -> AckLevel {
        state.configured_ack_level(index, message)
    }

    fn acknowledge(state: &mut ShardState<J>, level: AckLevel, index: ConnectionIndex, ack: Ack) {
        state.acknowledge_by_log(level, index, ack);
    }

    fn pause_for_acks(state: &mut ShardState<J>, index: ConnectionIndex) -> bool {
        state.pause_for_delayed_acks(index, |counters| &counters.clients_paused_for_disk)
    }

    #[inline(always)]
    fn commit(state: &mut ShardState<J>, session: SessionIndex, change: Change) {
        state.persist(session, &change);
        let queues = matches!(change, Change::Queued(_));
        let sends = matches!(change, Change::Started(_) | Change::StartedQueued);
        state.apply_change(session, change);
        if queues {
            state.queue_for_spill(session);
        }
        if queues || sends {
            state.delay_spill(session);
        }
    }

    fn session_number(state: &ShardState<J>, session: SessionIndex) -> Option<SessionNumber> {
        state.number_in_log(session)
    }

    fn record_connected(state: &mut ShardState<J>, session: SessionIndex) {
        state.persist_connected(session);
    }

    fn record_disconnected(state: &mut ShardState<J>, session: SessionIndex) {
        state.persist_disconnected(session);
    }

    fn record_ended(state: &mut ShardState<J>, session: SessionIndex) -> Option<SessionNumber> {
        state.persist_ended(session)
    }

    fn record_ended_change(state: &mut ShardState<J>, session: SessionNumber, change: &Change) {
        state.log.record(Record::Changed { session, change, packet_id: None });
    }

    fn record_cleared(state: &mut ShardState<J>, session: Option<SessionNumber>) {
        if let Some(number) = session {
            state.log.record(Record::Ended(number));
        }
    }

    fn record_retained(state: &mut ShardState<J>, outgoing: &OutgoingPublish<'_>, sequence: u64) {
        state.persist_retained(outgoing, sequence);
    }

    fn record_forwarded(
        state: &mut ShardState<J>,
        to: ShardIndex,
        message: &Message,
        receivers: Receivers<'_>,
    ) -> Option<u64> {
        Some(state.persist_forwarded(to, message, receivers))
    }

    fn begin_transfer(state: &mut ShardState<J>, payload: &BatchPayload<'_>) {
        state.begin_transfer(payload);
    }

    fn end_transfer(state: &mut ShardState<J>, from: ShardIndex, sequence: u64) {
        state.persist_received(from, sequence);
    }

    fn record_for_group(state: &mut ShardState<J>, session: SessionIndex, delivery: &PendingMessage) {
        state.persist_for_group(session, delivery);
    }

    #[inline]
    fn pause_output(state: &mut ShardState<J>, index: ConnectionIndex) {
        state.pause_output(index);
    }

    #[inline(always)]
    fn is_output_blocked(state: &ShardState<J>, index: ConnectionIndex) -> bool {
        state.connections[index].is_output_blocked()
    }

    #[inline]
    fn detach_paused_output(state: &mut ShardState<J>) {
        state.detach_paused_output();
    }

    #[inline]
    fn release_durable_waiters(state: &mut ShardState<J>) {
        state.release_durable();
    }

    #[inline]
    fn has_progress(state: &ShardState<J>) -> bool {
        state.has_durable_progress()
    }

    #[inline]
    fn pause_for_storage(state: &mut ShardState<J>, index: ConnectionIndex, header: &FixedHeader, first: u8) -> bool {
        let adds = header.packet_type == PacketType::Publish && needs_persistence(first);
        state.pause_for_log(index, header, first) || adds && state.pause_for_spill(index)
    }
}
