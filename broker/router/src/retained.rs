//! The retained messages.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use tautwire_message::{Message, MessageRef};
use tautwire_topics::RetainedTree;

use crate::scan::Scan;

/// Limits of the retained messages.
#[derive(Debug, Clone, Copy)]
pub struct RetainedLimits {
    /// Topics that may hold a retained message.
    pub messages: usize,
    /// Bytes that all of them may take.
    pub bytes: usize,
}

/// A retained message would go over a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainRefused;

/// What a retained message takes besides its stored bytes: its place in the tree, and what allocations cost.
const OVERHEAD_BYTES: usize = 128;

/// The last retained message of each topic. Every change has a number, and each message has that of the change that brought
/// it, so that a search can tell what was there when it began.
#[derive(Debug)]
pub(crate) struct RetainedStore {
    limits: RetainedLimits,
    tree: RetainedTree<Retained>,
    sequence: u64,
    /// Messages and bytes of them that count against the limits: all but the broker's own.
    counted_messages: usize,
    counted_bytes: usize,
    /// Bytes of all messages.
    kept_bytes: usize,
    /// Those that expire, by the moment at which they do.
    expiring: BTreeSet<(u64, Box<str>)>,
}

#[derive(Debug)]
struct Retained {
    message: Message,
    /// The number of the change that brought it.
    sequence: u64,
}

impl RetainedStore {
    pub(crate) fn new(limits: RetainedLimits) -> RetainedStore {
        RetainedStore {
            limits,
            tree: RetainedTree::new(),
            sequence: 0,
            counted_messages: 0,
            counted_bytes: 0,
            kept_bytes: 0,
            expiring: BTreeSet::new(),
        }
    }

    /// Retains `message` instead of what its topic retained so far. Gives that back, for the caller to drop once no lock is
    /// held.
    ///
    /// # Errors
    /// Where the message would go over a limit; nothing has changed then.
    pub(crate) fn set(&mut self, message: Message, expiry: Option<Expiry>) -> Result<Option<Message>, RetainRefused> {
        let MessageRef { topic, .. } = message.as_ref();
        let counts = counts(topic);
        if counts {
            let held_bytes = self.get(topic).map(Message::kept_bytes);
            let bytes = self.counted_bytes - held_bytes.unwrap_or(0) + message.kept_bytes();
            let is_one_more = held_bytes.is_none() && self.counted_messages >= self.limits.messages;
            if is_one_more || bytes > self.limits.bytes {
                return Err(RetainRefused);
            }
            self.counted_messages += 1;
            self.counted_bytes += message.kept_bytes();
        }
        self.kept_bytes += message.kept_bytes();
        self.sequence += 1;
        let retained = Retained { message: message.clone(), sequence: self.sequence };
        let replaced = self.tree.insert(topic, retained).map(|retained| retained.message);
        if let Some(replaced) = &replaced {
            self.uncount(replaced);
        }
        self.expiring.extend(expiry.map(|Expiry { at_ms, topic }| (at_ms, topic)));
        Ok(replaced)
    }

    /// Takes the topic's message away, and gives it back for the caller to drop.
    pub(crate) fn clear(&mut self, topic: &str) -> Option<Message> {
        self.sequence += 1;
        self.forget(topic)
    }

    /// The numbers of changes go on after `last`.
    pub(crate) fn go_on_after(&mut self, last: u64) {
        self.sequence = self.sequence.max(last);
    }

    /// The number of the last change.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The message that `topic` retains.
    pub(crate) fn get(&self, topic: &str) -> Option<&Message> {
        self.tree.get(topic).map(|retained| &retained.message)
    }

    /// How many messages there are, and the bytes of those that count against the limit.
    pub(crate) fn len_and_bytes(&self) -> (usize, usize) {
        (self.tree.len(), self.counted_bytes)
    }

    /// Bytes of all messages.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// About how many bytes of memory all messages take, their places in the tree included.
    pub(crate) fn held_bytes(&self) -> usize {
        self.kept_bytes + self.tree.len() * OVERHEAD_BYTES
    }

    /// Whether a message has expired, or the tree has something to tidy up.
    pub(crate) fn has_to_sweep(&self, now_ms: u64) -> bool {
        self.tree.is_untidy() || self.expiring.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms)
    }

    /// Takes up to `most` messages away that have expired [MQTT-3.3.2-5], and gives them back for the caller to drop.
    pub(crate) fn sweep(&mut self, now_ms: u64, most: usize) -> Vec<Message> {
        let mut dropped = Vec::new();
        while dropped.len() < most
            && let Some((at_ms, _)) = self.expiring.first()
            && *at_ms <= now_ms
            && let Some((_, topic)) = self.expiring.pop_first()
        {
            dropped.extend(self.forget(&topic));
        }
        self.tree.tidy();
        dropped
    }

    /// A search for the messages that `filter` covers, as they are now. Looks at none of them; `None` where there can be
    /// none.
    pub(crate) fn scan(&self, filter: &str) -> Option<Scan> {
        self.tree.may_cover(filter).then(|| Scan::new(self.tree.cursor(filter), self.sequence))
    }

    /// Takes a search up to `steps` steps further, and `steps` down by those it took.
    pub(crate) fn search(&self, scan: &mut Scan, steps: &mut u64) {
        let Scan { cursor, found, sequence } = scan;
        let _: ControlFlow<()> = self.tree.resume(cursor, steps, |_, retained| {
            // What has been retained since was sent as it came.
            if retained.sequence <= *sequence {
                found.push_back(retained.message.clone());
            }
            ControlFlow::Continue(())
        });
    }

    fn forget(&mut self, topic: &str) -> Option<Message> {
        let Retained { message, .. } = self.tree.remove(topic)?;
        self.uncount(&message);
        Some(message)
    }

    fn uncount(&mut self, message: &Message) {
        let MessageRef { topic, expires_at_ms, .. } = message.as_ref();
        self.kept_bytes -= message.kept_bytes();
        if counts(topic) {
            self.counted_messages -= 1;
            self.counted_bytes -= message.kept_bytes();
        }
        if let Some(at_ms) = expires_at_ms {
            self.expiring.remove(&(at_ms, topic.into()));
        }
    }

    /// Heap bytes of the tree.
    #[cfg(test)]
    pub(crate) fn tree_bytes(&self) -> usize {
        self.tree.memory_bytes()
    }
}

/// When the message of a topic expires.
#[derive(Debug)]
pub(crate) struct Expiry {
    at_ms: u64,
    topic: Box<str>,
}

impl Expiry {
    pub(crate) fn of(message: &MessageRef<'_>) -> Option<Expiry> {
        message.expires_at_ms.map(|at_ms| Expiry { at_ms, topic: message.topic.into() })
    }
}

/// Whether a retained message counts against the limits. The broker's own do not: they are few, and are there always.
fn counts(topic: &str) -> bool {
    !topic.starts_with("$SYS/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_message::MessageId;
    use tautwire_protocol::QoS;

    fn message(topic: &str, expires_at_ms: Option<u64>) -> Message {
        MessageRef {
            id: MessageId::NONE,
            topic,
            properties: &[],
            payload: b"x",
            qos: QoS::AtMostOnce,
            retain: true,
            expires_at_ms,
        }
        .to_message()
    }

    #[test]
    fn what_has_been_cleared_takes_no_memory() {
        const MESSAGES: usize = 100_000;
        let mut store = RetainedStore::new(RetainedLimits { messages: MESSAGES, bytes: 1 << 30 });
        for number in 0..50 {
            store.set(message(&format!("$SYS/{number}"), None), None).expect("there is room");
        }
        let (before, held_before) = (store.tree_bytes(), store.held_bytes());
        let topic = |number: usize| format!("r/s{}/d{}", number / 100, number % 100);
        for number in 0..MESSAGES {
            store.set(message(&topic(number), None), None).expect("there is room");
        }
        assert!(store.held_bytes() > MESSAGES * 128 && store.tree_bytes() > MESSAGES * 36);
        for number in 0..MESSAGES {
            assert!(store.clear(&topic(number)).is_some());
        }
        assert_eq!((store.held_bytes(), store.len_and_bytes()), (held_before, (50, 0)));
        let kept_bytes = store.tree_bytes() - before;
        assert!(kept_bytes < 128 << 10, "{kept_bytes} bytes stay");
    }

    #[test]
    fn a_message_that_replaces_another_expires_by_its_own_moment() {
        let mut store = RetainedStore::new(RetainedLimits { messages: 10, bytes: 1_000 });
        for expires_at_ms in [Some(10), Some(20), None, Some(30), Some(30)] {
            let message = message("t", expires_at_ms);
            let expiry = Expiry::of(&message.as_ref());
            store.set(message, expiry).expect("there is room");
        }
        assert_eq!(store.expiring.len(), 1);
        assert!(!store.has_to_sweep(29) && store.has_to_sweep(30));
        assert_eq!(store.sweep(30, 10).len(), 1);
        assert_eq!(store.len_and_bytes(), (0, 0));
    }
}
