//! All acknowledgements are sent here.

use tautwire_message::MessageRef;
use tautwire_protocol::{Properties, Property};
use tautwire_session::AckLevel;

use crate::connection::ack::Ack;
use crate::connection::connections::PauseReason;
use crate::counters::{Counter, Counters};
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::shard::ShardState;

/// Acknowledgements waiting for one connection, and unconfirmed messages, above which reading from the client is paused.
const DELAYED_ACKS_MAX: usize = 1_024;

impl<M: Mode> ShardState<M> {
    /// Sends `ack` once what it promises is durable, and not before earlier acknowledgements that wait.
    #[inline]
    pub(crate) fn acknowledge(&mut self, index: ConnectionIndex, ack: Ack) {
        M::acknowledge(self, M::session_ack_level(self, index), index, ack);
    }

    /// The configured durability for the acknowledgement of a PUBLISH.
    #[inline]
    pub(crate) fn configured_ack_level(&self, index: ConnectionIndex, message: &MessageRef<'_>) -> AckLevel {
        self.config.settings().acks.for_topic(message.topic, self.connections[index].ack_level())
    }

    /// Sends `ack` at once: it does not wait for the log.
    pub(crate) fn acknowledge_now(&mut self, index: ConnectionIndex, ack: &Ack) {
        self.latency_recorder.record_acknowledged(ack);
        self.write_ack(index, ack);
    }

    /// Resumes reading from a client once few enough acknowledgements wait.
    pub(crate) fn resume_after_acks(&mut self, index: ConnectionIndex) {
        let connection = &self.connections[index];
        if connection.is_paused_for(PauseReason::Acks)
            && connection.delayed_acks() <= DELAYED_ACKS_MAX / 2
            && M::unconfirmed(self, index) <= DELAYED_ACKS_MAX / 2
        {
            let id = self.id(index);
            self.resume_reading(id, PauseReason::Acks);
        }
    }

    /// Pauses reading from a client for which too many acknowledgements wait. Returns whether it is paused.
    pub(crate) fn pause_for_delayed_acks(
        &mut self,
        index: ConnectionIndex,
        counter: impl FnOnce(&Counters) -> &Counter,
    ) -> bool {
        let is_over_limit = self.connections[index].delayed_acks() >= DELAYED_ACKS_MAX
            || M::unconfirmed(self, index) >= DELAYED_ACKS_MAX;
        if is_over_limit && self.connections[index].pause_reading(PauseReason::Acks) {
            counter(self.counters()).add(1);
        }
        is_over_limit
    }

    /// Writes an acknowledgement that has waited.
    #[inline(never)]
    pub(crate) fn write_delayed_ack(&mut self, index: ConnectionIndex, ack: &Ack) {
        self.write_ack(index, ack);
    }

    // Inlined, because every acknowledgement goes through this.
    #[inline(always)]
    pub(crate) fn write_ack(&mut self, index: ConnectionIndex, ack: &Ack) {
        if let Ack::Deliver(packet_id, _) = ack {
            self.write_inflight(index, *packet_id);
            return;
        }
        let connection = &self.connections[index];
        let v5 = connection.is_v5();
        let explanation = match ack {
            // [MQTT-3.1.2-29]
            Ack::Published(_, _, why) | Ack::Received(_, _, why)
                if v5 && connection.connect_parameters().problem_information =>
            {
                why.as_deref()
            }
            _ => None,
        };
        if let Some(why) = explanation {
            let properties = [Property::ReasonString(why)];
            if ack
                .packet(Properties::from_list(&properties), v5)
                .is_some_and(|packet| self.write_packet(index, &packet))
            {
                return;
            }
            // [MQTT-3.4.2-2] and others: the reason string is omitted if the packet would be too large.
        }
        if let Some(packet) = ack.packet(Properties::EMPTY, v5) {
            self.write_packet(index, &packet);
        }
    }
}
