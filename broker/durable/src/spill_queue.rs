//! Spills messages to disk while a log is read, so that a broker can start with more than fits in memory.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tautwire_memory::MemoryLedger;
use tautwire_message::{Message, MessageId, Spilled};
use tautwire_session::{Replay, SessionNumber};

/// The number of bytes written at a time.
const BATCH_BYTES: usize = 1 << 20;
/// A smaller message stays in memory, because its record would take as much.
const SPILL_MIN_BYTES: usize = 192;

/// A map by message identity. Clients cannot choose the identities, so a fast hash is safe.
pub(crate) type ById<T> = HashMap<MessageId, T, foldhash::fast::RandomState>;

/// A store for messages that leave memory before shards run.
pub trait SpillStore {
    /// Writes messages. Returns `None` for those that stay in memory.
    fn write(&mut self, messages: &[Message]) -> Vec<Option<Spilled>>;

    /// Reads a message. Returns `None` on failure.
    fn read(&mut self, spilled: &Spilled) -> Option<Message>;

    /// Whether so much memory is used that messages should be spilled.
    fn should_spill(&self) -> bool;

    /// Returns the ledger to which messages in memory are charged, if any.
    fn ledger(&self) -> Option<Arc<MemoryLedger>> {
        None
    }

    /// Reports the memory in use besides messages.
    fn set_held_bytes(&mut self, _bytes: usize) {}
}

/// A store that spills nothing, for states that fit into memory.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoSpillStore;

impl SpillStore for NoSpillStore {
    fn write(&mut self, messages: &[Message]) -> Vec<Option<Spilled>> {
        messages.iter().map(|_| None).collect()
    }

    fn read(&mut self, _: &Spilled) -> Option<Message> {
        None
    }

    fn should_spill(&self) -> bool {
        false
    }
}

/// Messages that are about to be spilled, and their holders.
#[derive(Default)]
pub(crate) struct SpillQueue<'s> {
    store: Option<&'s mut dyn SpillStore>,
    batch: Vec<Message>,
    bytes: usize,
    /// Indexes in the batch.
    by_id: ById<usize>,
    holders: Vec<(usize, SpillHolder)>,
}

#[derive(Debug, Clone, Copy)]
enum SpillHolder {
    Queue(SessionNumber, u64),
    /// The index of the topic.
    Retained(usize),
}

impl fmt::Debug for SpillQueue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillQueue").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<'s> SpillQueue<'s> {
    pub(crate) fn into(store: &'s mut dyn SpillStore) -> SpillQueue<'s> {
        SpillQueue { store: Some(store), ..SpillQueue::default() }
    }

    pub(crate) fn read(&mut self, spilled: &Spilled) -> Option<Message> {
        self.store.as_mut()?.read(spilled)
    }

    /// Reports the memory in use besides messages, plus that of this queue.
    pub(crate) fn set_held_bytes(&mut self, bytes: usize) {
        let own_bytes = self.holders.capacity() * size_of::<(usize, SpillHolder)>()
            + self.by_id.capacity() * size_of::<(MessageId, usize)>();
        if let Some(store) = &mut self.store {
            store.set_held_bytes(bytes + own_bytes);
        }
    }

    /// Drops the batch, because nothing holds its messages any more.
    pub(crate) fn clear(&mut self) {
        self.batch.clear();
        self.by_id.clear();
        self.holders.clear();
        self.bytes = 0;
    }

    /// Adds a message that was appended to a session's queue.
    pub(crate) fn add_queued(&mut self, message: Option<&Message>, session: SessionNumber, replay: &Replay) {
        if let Some(message) = message
            && let Some(number) = replay.last_queued(session)
        {
            self.add(message, SpillHolder::Queue(session, number));
        }
    }

    /// Adds the message that was retained by the last change.
    pub(crate) fn add_retained(&mut self, message: &Message, replay: &Replay) {
        self.add(message, SpillHolder::Retained(replay.last_retained()));
    }

    fn add(&mut self, message: &Message, holder: SpillHolder) {
        let Some(store) = &self.store else { return };
        let known = self.by_id.get(&message.id()).copied();
        let at = match known {
            Some(at) => at,
            None if message.allocated_bytes() < SPILL_MIN_BYTES || !store.should_spill() => return,
            None => {
                self.by_id.insert(message.id(), self.batch.len());
                self.bytes += message.allocated_bytes();
                self.batch.push(message.clone());
                self.batch.len() - 1
            }
        };
        self.holders.push((at, holder));
    }

    /// Whether the batch is large enough to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES
    }

    /// Writes the batch. Calls `found` for each message that was spilled.
    pub(crate) fn write(&mut self, replay: &mut Replay, mut found: impl FnMut(MessageId, &Spilled)) {
        let Some(store) = &mut self.store else { return };
        let written = store.write(&self.batch);
        for (at, holder) in self.holders.drain(..) {
            let Some(Some(spilled)) = written.get(at) else { continue };
            match holder {
                SpillHolder::Queue(session, number) => replay.spill_queued(session, number, spilled),
                SpillHolder::Retained(place) => replay.spill_retained(place, spilled),
            }
        }
        for (message, spilled) in self.batch.drain(..).zip(written) {
            if let Some(spilled) = spilled {
                found(message.id(), &spilled);
            }
        }
        self.by_id.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use tautwire_message::{MessageRef, SpillAccount, SpillSlot};
    use tautwire_protocol::{PacketId, QoS};
    use tautwire_session::{Change, PendingMessage, Record, ReplayedState, RetainedChange, SubscriptionIds};

    use super::*;
    use crate::{FrameWriter, Recovery};

    /// A store in memory that spills everything.
    #[derive(Default)]
    struct TestSlots {
        messages: Vec<Message>,
        loses: bool,
    }

    impl SpillStore for TestSlots {
        fn write(&mut self, messages: &[Message]) -> Vec<Option<Spilled>> {
            let account = Arc::new(SpillAccount::new(Arc::default(), Arc::default()));
            let first = self.messages.len();
            self.messages.extend_from_slice(messages);
            let spilled = |(at, message)| Some(Spilled::new(message, SpillSlot((first + at) as u32), &account));
            messages.iter().enumerate().map(spilled).collect()
        }

        fn read(&mut self, spilled: &Spilled) -> Option<Message> {
            self.messages.get(spilled.slot().0 as usize).cloned().filter(|_| !self.loses)
        }

        fn should_spill(&self) -> bool {
            true
        }
    }

    fn message(number: u64) -> Message {
        MessageRef {
            id: MessageId { run: 1, number },
            topic: if number.is_multiple_of(2) { "even" } else { "odd" },
            properties: &[],
            payload: &[number as u8; 200_000],
            qos: QoS::AtLeastOnce,
            retain: true,
            expires_at_ms: None,
        }
        .to_message()
    }

    fn delivery(number: u64) -> PendingMessage {
        PendingMessage {
            message: message(number).into(),
            qos: QoS::AtLeastOnce,
            retain: false,
            subscription_ids: SubscriptionIds::None,
            share: None,
        }
    }

    /// Frames of two sessions whose queues hold the same messages; some are retained, unqueued or started.
    fn frames() -> Vec<Vec<u8>> {
        let (one, two) = (SessionNumber(1), SessionNumber(2));
        let mut frames = Vec::new();
        let mut frame = FrameWriter::default();
        for (session, client_id) in [(one, "a"), (two, "b")] {
            frame.add(&Record::Opened { session, client_id, at_ms: 0 });
        }
        for number in 0..30 {
            for session in [one, two] {
                frame.add(&Record::Changed { session, change: &Change::Queued(delivery(number)), packet_id: None });
            }
            if number % 10 < 2 {
                let change = RetainedChange::Set(message(number));
                frame.add(&Record::Retained { sequence: number + 1, change: &change });
            }
            frames.push(frame.take(Vec::new()));
        }
        for number in 0..12 {
            frame.add(&Record::Changed { session: one, change: &Change::Unqueued, packet_id: None });
            let packet_id = PacketId::new(number + 1);
            frame.add(&Record::Changed { session: two, change: &Change::StartedQueued, packet_id });
        }
        frames.push(frame.take(Vec::new()));
        frames
    }

    /// Encodes a state as the records that lead to it.
    fn described(replay: &Replay, read: impl FnMut(&Spilled) -> Option<Message>) -> Result<Vec<u8>, String> {
        let mut frame = FrameWriter::default();
        replay.describe(read, |record| frame.add(record)).map_err(|error| error.to_string())?;
        Ok(frame.take(Vec::new()))
    }

    #[test]
    fn spilling_during_recovery_does_not_change_the_state() {
        let mut plain = Recovery::new(None);
        let mut slots = TestSlots::default();
        let mut spill_queue = Recovery::new(None).spill_into(&mut slots);
        for body in frames() {
            plain.frame(&body).expect("intact");
            spill_queue.frame(&body).expect("intact");
        }
        let (plain, spilled) = (plain.finish(), spill_queue.finish());
        assert!(slots.messages.len() >= 30, "{} have left", slots.messages.len());
        assert_eq!(described(&plain, |_| None), described(&spilled, |spilled| slots.read(spilled)));
        let outbound = |replay: Replay| {
            let ReplayedState { sessions, retained, .. } = replay.finish();
            let memory = sessions.iter().map(|replayed| replayed.session.memory_bytes()).sum::<usize>();
            (memory, retained.iter().filter(|(_, _, body)| body.spilled().is_some()).count())
        };
        let (memory_bytes, retained) = outbound(spilled);
        assert!(memory_bytes < 2_000_000 && retained == 2, "{memory_bytes} bytes, {retained} retained");
        assert!(outbound(plain).0 > 40 * 200_000);
    }

    /// The format allows it, although our snapshots repeat a message in each frame that names it.
    #[test]
    fn a_snapshot_can_reference_a_retained_message_of_an_earlier_frame() {
        let mut frame = FrameWriter::default();
        frame.add(&Record::Opened { session: SessionNumber(1), client_id: "a", at_ms: 0 });
        frame.add(&Record::Retained { sequence: 1, change: &RetainedChange::Set(message(7)) });
        let first = frame.take(Vec::new());
        frame.mark_forwarded(message(7).id());
        let session = SessionNumber(1);
        frame.add(&Record::Changed { session, change: &Change::Queued(delivery(7)), packet_id: None });
        let second = frame.take(Vec::new());
        let mut recovery = Recovery::new(None);
        recovery.snapshot_frame(&first).expect("intact");
        recovery.snapshot_frame(&second).expect("the message exists");
        let replay = recovery.finish();
        assert_eq!(
            replay.sessions().map(|replayed| replayed.session.outbound().map_or(0, |out| out.queued())).sum::<usize>(),
            1
        );
        let mut log = Recovery::new(None);
        log.snapshot_frame(&first).expect("intact");
        assert_eq!(log.message_count(), 0, "retained messages are dropped");
    }

    #[test]
    fn a_state_with_unreadable_messages_is_not_described() {
        let mut slots = TestSlots::default();
        let mut recovery = Recovery::new(None).spill_into(&mut slots);
        frames().iter().for_each(|body| recovery.frame(body).expect("intact"));
        let replay = recovery.finish();
        slots.loses = true;
        let error = described(&replay, |spilled| slots.read(spilled)).expect_err("nothing can be read");
        assert!(error.contains("from the spill directory"), "{error}");
    }
}
