//! Messages of QoS 0 for other nodes, in batches.
//!
//! The messages of one topic in one turn are sent as one batch, because a batch costs many times what a message in it costs.

use std::collections::HashMap;

use tautwire_message::MessageRef;

/// The maximum number of messages in a batch.
const BATCH_MAX: usize = 64;
/// The maximum bytes of a batch with more than one message.
const BATCH_MAX_BYTES: usize = 64 << 10;
/// The length of each message precedes it.
const LENGTH_BYTES: usize = 4;

/// The batches of this turn.
#[derive(Debug, Default)]
pub(crate) struct Broadcasts {
    batches: Vec<Batch>,
    /// The open batch of each topic.
    open: HashMap<Box<str>, usize>,
    bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Batch {
    pub(super) topic: Box<str>,
    pub(super) messages: Vec<u8>,
    count: usize,
}

impl Broadcasts {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn add(&mut self, message: &MessageRef<'_>) {
        let bytes = LENGTH_BYTES + message.stored_bytes();
        self.bytes += bytes;
        // Most messages have the topic of the one before.
        let last = self.batches.len().checked_sub(1).filter(|last| &*self.batches[*last].topic == message.topic);
        let joined = last.or_else(|| self.open.get(message.topic).copied());
        let batch = match joined.and_then(|number| self.batches.get_mut(number)) {
            Some(batch) if batch.count < BATCH_MAX && batch.messages.len() + bytes <= BATCH_MAX_BYTES => batch,
            _ => {
                self.open.insert(message.topic.into(), self.batches.len());
                self.batches.push(Batch { topic: message.topic.into(), messages: Vec::new(), count: 0 });
                let last = self.batches.len() - 1;
                &mut self.batches[last]
            }
        };
        batch.count += 1;
        batch.messages.extend_from_slice(&(message.stored_bytes() as u32).to_le_bytes());
        message.append_stored(&mut batch.messages);
    }

    /// Takes the batches at the end of the turn.
    pub(crate) fn take(&mut self) -> Vec<Batch> {
        self.open.clear();
        self.bytes = 0;
        std::mem::take(&mut self.batches)
    }
}

/// The messages of a batch, in the stored form. A truncated message and everything behind it is skipped.
pub fn messages_of(batch: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = batch;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let (message, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = behind;
        Some(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_message::MessageId;
    use tautwire_protocol::QoS;

    fn message<'a>(topic: &'a str, payload: &'a [u8]) -> MessageRef<'a> {
        let (properties, qos) = (&[], QoS::AtMostOnce);
        MessageRef { id: MessageId::NONE, topic, properties, payload, qos, retain: false, expires_at_ms: None }
    }

    fn payloads(batch: &Batch) -> Vec<Vec<u8>> {
        let read = |stored| MessageRef::read_stored(stored).expect("a message").payload.to_vec();
        messages_of(&batch.messages).map(read).collect()
    }

    #[test]
    fn messages_of_a_topic_stay_together_in_order() {
        let mut broadcasts = Broadcasts::default();
        for (topic, payload) in [("a", &b"1"[..]), ("b", b"2"), ("a", b""), ("b", b"4")] {
            broadcasts.add(&message(topic, payload));
        }
        let bytes = broadcasts.bytes();
        let batches = broadcasts.take();
        assert_eq!(batches.iter().map(|batch| batch.messages.len()).sum::<usize>(), bytes);
        assert_eq!(batches.iter().map(|batch| &*batch.topic).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(payloads(&batches[0]), [&b"1"[..], b""]);
        assert_eq!(payloads(&batches[1]), [b"2", b"4"]);
        assert_eq!((broadcasts.bytes(), broadcasts.take().len()), (0, 0));
    }

    #[test]
    fn a_batch_has_a_size_limit() {
        let mut broadcasts = Broadcasts::default();
        (0..BATCH_MAX + 1).for_each(|_| broadcasts.add(&message("a", b"x")));
        let large = vec![0; BATCH_MAX_BYTES];
        broadcasts.add(&message("a", &large));
        broadcasts.add(&message("a", b"y"));
        let batches = broadcasts.take();
        assert_eq!(batches.iter().map(|batch| payloads(batch).len()).collect::<Vec<_>>(), [BATCH_MAX, 1, 1, 1]);
    }

    #[test]
    fn truncated_messages_are_refused() {
        let mut broadcasts = Broadcasts::default();
        broadcasts.add(&message("a", b"one"));
        broadcasts.add(&message("a", b"two"));
        let batch = broadcasts.take().remove(0).messages;
        for end in 0..batch.len() {
            assert!(messages_of(&batch[..end]).count() < 2);
        }
        assert_eq!(messages_of(&[0xff; 9]).count(), 0);
    }
}
