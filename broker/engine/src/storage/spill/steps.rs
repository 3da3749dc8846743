//! The turn of the spill store: answers, retries and new requests.

use tautwire_memory::Kind;
use tautwire_message::{Message, SpillClient, SpillResponse};

use crate::mode::Mode;
use crate::shard::Shard;
use crate::shard::ShardState;

impl<M: Mode> Shard<M> {
    /// Connects the shard to a store for spilled messages. Call it before sessions are [restored](Shard::restore). Without a
    /// persistent journal, the store is not used.
    pub fn connect_spill_store(&mut self, port: Box<dyn SpillClient>) {
        let loaded_max_bytes = self.state.config.settings().loaded_max_bytes();
        self.state.spill.connect(port, loaded_max_bytes);
    }
}

impl<M: Mode> ShardState<M> {
    /// Whether the mode spills messages, and there is a store for them.
    #[inline(always)]
    pub(super) fn can_use_spill_store(&self) -> bool {
        M::SPILLS && self.spill.port.is_some()
    }

    /// Handles the store's answers and sends new requests. Called once per turn.
    #[inline]
    pub(crate) fn run_spill(&mut self) {
        if self.can_use_spill_store() {
            self.take_spill_answers();
            self.retry_reading();
            self.remove_replaced();
            self.spill_messages();
            self.resume_after_spill();
        }
    }

    /// Whether there is something to do for the store or its answers.
    #[inline]
    pub(crate) fn has_spill_work(&self) -> bool {
        M::SPILLS && (self.spill.has_answer() || self.can_spill() || self.can_resume_after_spill())
    }

    /// The time of the next retry or check.
    pub(crate) fn next_spill_ms(&self) -> Option<u64> {
        if !self.can_use_spill_store() {
            return None;
        }
        let writes_at_ms = (self.spill.write_again_ms > self.clock.now_ms()).then_some(self.spill.write_again_ms);
        let rested_at_ms = self.next_delayed_ms();
        let retries_at_ms = self.spill.retries.front().map(|(at_ms, _)| *at_ms);
        [retries_at_ms, writes_at_ms, rested_at_ms, self.next_spill_check_ms()].into_iter().flatten().min()
    }

    fn take_spill_answers(&mut self) {
        while let Some(answer) = self.spill.next_answer() {
            match answer {
                SpillResponse::Written { messages, .. } => self.replace_spilled(messages),
                SpillResponse::Read { ticket, messages } => self.take_read(ticket, messages),
            }
        }
        self.retry_waiting_readers();
    }

    /// Bytes of messages in memory, over all shards.
    pub(super) fn loaded_bytes(&self) -> u64 {
        self.memory.share().memory().held(Kind::Message)
    }

    /// The body of a message that must have been loaded already.
    pub(crate) fn in_memory<'b>(&self, message: Option<&'b Message>) -> Option<&'b Message> {
        if message.is_none() {
            debug_assert!(false, "a message is loaded before it is needed");
            self.counters().spill_lost.add(1);
        }
        message
    }
}
