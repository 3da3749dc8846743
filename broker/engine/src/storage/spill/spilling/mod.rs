//! Which messages become cold, and when.

mod steps;

use tautwire_message::Message;

use super::{Holder, SpillState};

/// Bytes posted with one order.
pub(super) const ORDER_BYTES: usize = 1 << 20;

/// A message that takes less stays hot: its record would take as much.
pub(super) const SPILL_MIN_BYTES: usize = 192;

/// Messages to be written with one order.
#[derive(Default)]
pub(super) struct SpillBatch {
    messages: Vec<Message>,
    pub(super) bytes: usize,
}

impl SpillState {
    /// `holder` has a message that is to be written.
    pub(super) fn pick(&mut self, message: Message, holder: Holder, picked: &mut SpillBatch) {
        let holders = self.writing.entry(message.id()).or_default();
        holders.push(holder);
        if holders.len() == 1 {
            picked.bytes += message.allocated_bytes();
            picked.messages.push(message);
        }
    }
}
