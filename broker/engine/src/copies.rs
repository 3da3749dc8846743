//! A message of QoS 0 to many: who takes its packet as it is gets a copy of the same bytes, and all of them are counted together.

use tautwire_protocol::QoS;
use tautwire_session::Journal;

use crate::frames::{self, Outgoing, SHARED_PAYLOAD_BYTES};
use crate::hub::Hub;
use crate::route::Subscription;

/// What has been copied of one message.
#[derive(Debug)]
pub(crate) struct Copies {
    /// There is memory for all who get it, and its bytes stand in the packet.
    are_possible: bool,
    made: u64,
}

impl Copies {
    #[inline]
    pub(crate) fn of(outgoing: &Outgoing<'_>) -> Copies {
        let are_possible =
            outgoing.has_room && !outgoing.may_be_too_long && outgoing.message.payload.len() < SHARED_PAYLOAD_BYTES;
        Copies { are_possible, made: 0 }
    }
}

impl<J: Journal> Hub<J> {
    /// Gives the client of a subscription a copy of the message's packet. False where it has to be delivered in the usual way: to the
    /// first of its version, who has the packet made, and to those with limits, aliases, a full output, or a subscription identifier.
    // Always in its caller: this is the way of every message to every receiver.
    #[inline(always)]
    pub(crate) fn copy(
        &mut self,
        copies: &mut Copies,
        subscription: &Subscription,
        retain: bool,
        outgoing: &Outgoing<'_>,
    ) -> bool {
        if !copies.are_possible || subscription.identifier.is_some() {
            return false;
        }
        let Some(index) = self.sessions.connection(subscription.session) else { return false };
        let connection = &self.connections[index];
        let packet = self.frames.made(connection.is_v5());
        if packet.is_empty() || !connection.takes_any_publish() || J::KEEPS && connection.is_gated() {
            return false;
        }
        let output = self.connections.output_or_take(index);
        let pending = output.pending_bytes();
        if pending > 0 && pending + outgoing.message.payload.len() > self.memory.output_max_bytes() {
            return false;
        }
        output.append_copy(packet, frames::first_byte(false, QoS::AtMostOnce, retain));
        self.connections.mark_fresh(index);
        copies.made += 1;
        true
    }

    /// Counts what has been copied of a message.
    #[inline]
    pub(crate) fn note_copies(&mut self, copies: &Copies, outgoing: &Outgoing<'_>) {
        if copies.made > 0 {
            self.note_published(copies.made, outgoing.message.payload.len());
            self.stopwatch.note_delivered(QoS::AtMostOnce, copies.made);
        }
    }
}
