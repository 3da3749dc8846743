//! The one place through which acknowledgements leave.

use tautwire_protocol::{Properties, Property};
use tautwire_session::Journal;

use crate::ack::Ack;
use crate::hub::Hub;
use crate::place::ConnectionIndex;

impl<J: Journal> Hub<J> {
    /// Sends `ack` once everything that has been written down so far is durable, and not before acknowledgements held
    /// earlier.
    pub(crate) fn acknowledge(&mut self, index: ConnectionIndex, ack: Ack) {
        let connection = &mut self.connections[index];
        let holds = connection.delays_acks();
        if !holds && self.written <= self.journal.durable() {
            self.write_ack(index, &ack);
            return;
        }
        connection.delay_ack(self.written, ack);
        if !holds {
            self.holding.push(index);
        }
    }

    /// Sends what the journal's progress has made true.
    pub(crate) fn release_acks(&mut self) {
        let durable = self.journal.durable();
        for index in std::mem::take(&mut self.holding) {
            while let Some(ack) = self.connections[index].next_delayed_ack(durable) {
                self.write_ack(index, &ack);
            }
            if self.connections[index].delays_acks() {
                self.holding.push(index);
            }
        }
    }

    fn write_ack(&mut self, index: ConnectionIndex, ack: &Ack) {
        let connection = &self.connections[index];
        let v5 = connection.is_v5();
        let explanation = match ack {
            // [MQTT-3.1.2-29]
            Ack::Published(_, _, why) | Ack::Received(_, _, why)
                if v5 && connection.agreement().problem_information =>
            {
                why.as_deref()
            }
            _ => None,
        };
        if let Some(why) = explanation {
            let properties = [Property::ReasonString(why)];
            if self.write_packet(index, &ack.packet(Properties::from_list(&properties), v5)) {
                return;
            }
            // [MQTT-3.4.2-2] and its like: where the reason string is too much, it goes first.
        }
        self.write_packet(index, &ack.packet(Properties::EMPTY, v5));
    }
}
