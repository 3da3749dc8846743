//! A broker with a log: what it tells clients waits until the log has it.

use tautwire_message::MessageRef;
use tautwire_session::{AckLevel, Change, Journal};

use super::Mode;
use crate::ack::Ack;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::shard_context::ShardContext;
use crate::state::ShardState;

#[expect(private_interfaces, reason = "modes are part of the engine")]
impl<J: Journal + 'static> Mode for J {
    type Journal = J;
    type State = ();

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
        state.pause_for_delayed_acks(index, |counters| &counters.clients_ahead_of_disk)
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
}
