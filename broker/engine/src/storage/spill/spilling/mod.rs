//! Which messages are spilled, and when.

mod steps;

use tautwire_message::Message;

use super::{Holder, SpillState};

/// Bytes of one write request.
pub(super) const ORDER_BYTES: usize = 1 << 20;

/// Smaller messages stay in memory: the record of a spilled one takes as much.
pub(super) const SPILL_MIN_BYTES: usize = 192;

/// Messages of one write request.
#[derive(Default)]
pub(super) struct SpillBatch {
    messages: Vec<Message>,
    pub(super) bytes: usize,
}

impl SpillState {
    /// Adds a message of `holder` to the batch.
    pub(super) fn pick(&mut self, message: Message, holder: Holder, picked: &mut SpillBatch) {
        let holders = self.writing.entry(message.id()).or_default();
        holders.push(holder);
        if holders.len() == 1 {
            picked.bytes += message.allocated_bytes();
            picked.messages.push(message);
        }
    }
}
